/* The helper that lets one call fail. That it is a log like any other with no fault set, the
 * contract suite shows. */
#include "tests/lib/faulty_roomlog.h"

#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/suite.h"

static struct fake_loop fake;
static struct metrics metrics;
static struct roomlog *inner, *the_log;

static struct roomlog_append append;
static struct roomlog_read reading;
static unsigned answers;
static enum rd_err answer;
static uint64_t length;

#define ROOM STR("lobby")

static void make(void)
{
    fake_loop_init(&fake, 1);
    inner = roomlog_mem_create(&fake.loop, &metrics,
                               &(struct roomlog_mem_limits){.max_entries = 10,
                                                            .max_bytes = 10000,
                                                            .max_rooms = 10,
                                                            .max_refs = 10,
                                                            .dedupe_ms = 1000,
                                                            .max_in_flight = 10});
    the_log = faulty_roomlog_create(&fake.loop, inner);
    answers = 0;
}

static void unmake(void)
{
    roomlog_close(the_log);
    fake_loop_turn(&fake);
    fake_loop_fini(&fake);
}

static void appended(struct roomlog_append *a, enum rd_err err, struct stream_id id, bool duplicate)
{
    answers++;
    answer = err;
}

static void was_read(struct roomlog_read *r, enum rd_err err, const struct roomlog_page *page)
{
    answers++;
    answer = err;
    length = page == NULL ? 0 : page->info.length;
}

static enum rd_err do_append(void)
{
    append.done = appended;
    return roomlog_append(the_log, ROOM,
                          &(struct roomlog_publish){.type = STR("t"), .data = STR("1")}, &append);
}

static enum rd_err do_read(struct roomlog *log)
{
    reading = (struct roomlog_read){
        .from = ROOMLOG_HEAD, .want_info = true, .max_entries = 1, .done = was_read};
    return roomlog_read(log, ROOM, &reading);
}

static uint64_t really_there(void)
{
    ck_assert_int_eq(do_read(inner), RD_OK);
    fake_loop_turn(&fake);
    return length;
}

START_TEST(only_the_nth_call_is_struck_and_only_once)
{
    faulty_roomlog_set(the_log, 2, FAULTY_ROOMLOG_REFUSED, RD_EUNAVAIL);
    ck_assert_int_eq(do_append(), RD_OK);
    fake_loop_turn(&fake);
    ck_assert(!faulty_roomlog_struck(the_log));
    ck_assert_int_eq(do_read(the_log), RD_EUNAVAIL);
    ck_assert(faulty_roomlog_struck(the_log));
    ck_assert_int_eq(do_read(the_log), RD_OK);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(answers, 2);
    ck_assert_uint_eq(faulty_roomlog_calls(the_log), 3);
}
END_TEST

/* The fault, whether an append and a read are answered, and whether the append was done. */
static const struct {
    enum faulty_roomlog_fault fault;
    unsigned answers;
    uint64_t done;
} FAULTS[] = {
    {FAULTY_ROOMLOG_ERROR, 1, 0},
    {FAULTY_ROOMLOG_LOST, 1, 1},
    {FAULTY_ROOMLOG_SILENT, 0, 0},
};

START_TEST(a_struck_append_is_answered_later_or_never)
{
    faulty_roomlog_set(the_log, 1, FAULTS[_i].fault, RD_EUNKNOWN);
    ck_assert_int_eq(do_append(), RD_OK);
    ck_assert_uint_eq(answers, 0);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(answers, FAULTS[_i].answers);
    ck_assert(answers == 0 || answer == RD_EUNKNOWN);
    ck_assert_uint_eq(really_there(), FAULTS[_i].done);
    roomlog_cancel_append(the_log, &append);
}
END_TEST

START_TEST(a_struck_read_is_answered_later_or_never)
{
    faulty_roomlog_set(the_log, 1, FAULTS[_i].fault, RD_ETIMEDOUT);
    ck_assert_int_eq(do_read(the_log), RD_OK);
    ck_assert_uint_eq(answers, 0);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(answers, FAULTS[_i].answers);
    ck_assert(answers == 0 || answer == RD_ETIMEDOUT);
    roomlog_cancel_read(the_log, &reading);
}
END_TEST

START_TEST(a_struck_call_can_be_cancelled_before_its_answer)
{
    faulty_roomlog_set(the_log, 1, FAULTS[_i].fault, RD_EUNKNOWN);
    ck_assert_int_eq(do_append(), RD_OK);
    roomlog_cancel_append(the_log, &append);
    faulty_roomlog_set(the_log, 1, FAULTS[_i].fault, RD_EUNKNOWN);
    ck_assert_int_eq(do_read(the_log), RD_OK);
    roomlog_cancel_read(the_log, &reading);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(answers, 0);
}
END_TEST

static unsigned starts;

static void started(struct roomlog_follower *follower, struct stream_id head)
{
    starts++;
}

static const struct roomlog_follower_ops FOLLOWER = {.started = started};

START_TEST(a_held_follow_starts_when_it_is_let_go)
{
    struct roomlog_follower stays = {.ops = &FOLLOWER}, goes = {.ops = &FOLLOWER};
    faulty_roomlog_hold_follows(the_log, true);
    roomlog_follow(the_log, ROOM, &stays);
    roomlog_follow(the_log, ROOM, &goes);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(starts, 0);
    roomlog_unfollow(the_log, &goes);
    faulty_roomlog_hold_follows(the_log, false);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(starts, 1);
    roomlog_unfollow(the_log, &stays);
}
END_TEST

START_TEST(ready_can_be_denied)
{
    ck_assert(roomlog_ready(the_log));
    faulty_roomlog_set_ready(the_log, false);
    ck_assert(!roomlog_ready(the_log));
    ck_assert(!roomlog_readable(the_log, ROOM));
    faulty_roomlog_set_ready(the_log, true);
    ck_assert(roomlog_ready(the_log));
    ck_assert(roomlog_readable(the_log, ROOM));
}
END_TEST

static Suite *suite_make(void)
{
    enum { COUNT = sizeof(FAULTS) / sizeof(FAULTS[0]) };
    Suite *suite = suite_create("faulty_roomlog");
    TCase *tc = tcase_create("faulty_roomlog");
    tcase_add_checked_fixture(tc, make, unmake);
    tcase_add_test(tc, only_the_nth_call_is_struck_and_only_once);
    tcase_add_loop_test(tc, a_struck_append_is_answered_later_or_never, 0, COUNT);
    tcase_add_loop_test(tc, a_struck_read_is_answered_later_or_never, 0, COUNT);
    tcase_add_loop_test(tc, a_struck_call_can_be_cancelled_before_its_answer, 0, COUNT);
    tcase_add_test(tc, a_held_follow_starts_when_it_is_let_go);
    tcase_add_test(tc, ready_can_be_denied);
    suite_add_tcase(suite, tc);
    return suite;
}
