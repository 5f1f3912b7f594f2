#include "session/publish.h"

#include "base/metrics.h"
#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/faulty_roomlog.h"
#include "tests/lib/suite.h"

#include <stdio.h>

enum { MAX = 3 };

static struct fake_loop loop;
static struct metrics metrics;
static struct roomlog *log_;
static struct publish_set set;

static struct {
    unsigned times;
    char room[32];
    char ref[32]; /* "-": absent */
    enum rd_err err;
    struct stream_id id;
    bool duplicate;
} answer; /* the last */

static enum { NOTHING, PUBLISH_AGAIN, ABANDON } when_answered;

static enum rd_err start(const char *room, const char *ref)
{
    const struct roomlog_publish what = {.type = STR("t"), .data = STR("1"), .ref = str_from(ref)};
    return publish_start(&set, str_from(room), &what);
}

static void on_done(void *arg, struct str room, struct str ref, enum rd_err err,
                    struct stream_id id, bool duplicate)
{
    ck_assert_ptr_eq(arg, &answer);
    answer.times++;
    (void)snprintf(answer.room, sizeof(answer.room), "%.*s", (int)room.len, room.p);
    (void)snprintf(answer.ref, sizeof(answer.ref), "%.*s", str_present(ref) ? (int)ref.len : 1,
                   str_present(ref) ? ref.p : "-");
    answer.err = err;
    answer.id = id;
    answer.duplicate = duplicate;
    if (when_answered == PUBLISH_AGAIN && answer.times == 1)
        ck_assert_int_eq(start("red", NULL), RD_OK);
    if (when_answered == ABANDON)
        publish_abandon(&set);
}

static void make(void)
{
    memset(&answer, 0, sizeof(answer));
    metrics = (struct metrics){0};
    when_answered = NOTHING;
    fake_loop_init(&loop, 1);
    const struct roomlog_mem_limits limits = {.max_entries = 100,
                                              .max_bytes = 1 << 20,
                                              .max_rooms = 8,
                                              .max_refs = 8,
                                              .dedupe_ms = 1000,
                                              .max_in_flight = 100};
    struct roomlog *mem = roomlog_mem_create(&loop.loop, &metrics, &limits);
    log_ = faulty_roomlog_create(&loop.loop, mem);
    publish_init(&set, log_, MAX, on_done, &answer);
}

static void take_down(void)
{
    publish_abandon(&set);
    ck_assert_uint_eq(set.count, 0);
    fake_loop_turn(&loop);
    roomlog_close(log_);
    fake_loop_fini(&loop);
}

START_TEST(a_publish_is_answered_later_and_once_with_its_id)
{
    ck_assert_int_eq(start("red", "r1"), RD_OK);
    ck_assert_uint_eq(answer.times, 0);
    ck_assert_uint_eq(set.count, 1);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, 1);
    ck_assert_int_eq(answer.err, RD_OK);
    ck_assert_str_eq(answer.room, "red");
    ck_assert_str_eq(answer.ref, "r1");
    ck_assert(!stream_id_is_zero(answer.id));
    ck_assert(!answer.duplicate);
    ck_assert_uint_eq(set.count, 0);
    fake_loop_advance(&loop, 1000);
    ck_assert_uint_eq(answer.times, 1);
}
END_TEST

START_TEST(the_same_ref_again_is_answered_with_the_first_id)
{
    ck_assert_int_eq(start("red", "r1"), RD_OK);
    fake_loop_turn(&loop);
    struct stream_id first = answer.id;
    ck_assert_int_eq(start("red", "r1"), RD_OK);
    fake_loop_turn(&loop);
    ck_assert(answer.duplicate);
    ck_assert(stream_id_eq(answer.id, first));
}
END_TEST

START_TEST(a_publish_without_a_ref_is_answered_without_one)
{
    ck_assert_int_eq(start("red", NULL), RD_OK);
    fake_loop_turn(&loop);
    ck_assert_str_eq(answer.ref, "-");
}
END_TEST

START_TEST(room_and_ref_are_copied)
{
    char room[] = "red";
    char ref[] = "r1";
    ck_assert_int_eq(start(room, ref), RD_OK);
    memset(room, 'x', 3);
    memset(ref, 'x', 2);
    fake_loop_turn(&loop);
    ck_assert_str_eq(answer.room, "red");
    ck_assert_str_eq(answer.ref, "r1");
}
END_TEST

START_TEST(max_publishes_may_be_under_way_and_one_more_is_refused)
{
    for (int i = 0; i < MAX; i++)
        ck_assert_int_eq(start("red", NULL), RD_OK);
    unsigned calls = faulty_roomlog_calls(log_);
    ck_assert_int_eq(start("red", NULL), RD_EBUSY);
    ck_assert_uint_eq(faulty_roomlog_calls(log_), calls); /* the log was not asked */
    ck_assert_uint_eq(set.count, MAX);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, MAX);
    ck_assert_int_eq(start("red", NULL), RD_OK);
}
END_TEST

/* _i: any error. */
START_TEST(what_the_log_refuses_is_refused_and_keeps_nothing)
{
    faulty_roomlog_set(log_, 1, FAULTY_ROOMLOG_REFUSED, (enum rd_err)_i);
    ck_assert_int_eq(start("red", "r1"), _i);
    ck_assert_uint_eq(set.count, 0);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, 0);
}
END_TEST

START_TEST(what_the_log_answers_is_passed_on)
{
    faulty_roomlog_set(log_, 2, FAULTY_ROOMLOG_ERROR, (enum rd_err)_i);
    ck_assert_int_eq(start("red", "r1"), RD_OK);
    ck_assert_int_eq(start("blue", "r2"), RD_OK);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, 2);
    ck_assert_int_eq(answer.err, _i);
    ck_assert_str_eq(answer.room, "blue");
    ck_assert_str_eq(answer.ref, "r2");
    ck_assert_uint_eq(set.count, 0);
}
END_TEST

START_TEST(another_publish_may_be_started_from_an_answer_even_at_the_ceiling)
{
    when_answered = PUBLISH_AGAIN;
    for (int i = 0; i < MAX; i++)
        ck_assert_int_eq(start("red", NULL), RD_OK);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, MAX + 1);
}
END_TEST

START_TEST(nothing_is_answered_once_the_set_was_abandoned_but_it_is_done)
{
    ck_assert_int_eq(start("red", "r1"), RD_OK);
    ck_assert_int_eq(start("red", "r2"), RD_OK);
    publish_abandon(&set);
    ck_assert_uint_eq(set.count, 0);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, 0);
    ck_assert_int_eq(start("red", "r1"), RD_OK); /* the set may be used again */
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, 1);
    ck_assert(answer.duplicate);
}
END_TEST

START_TEST(the_set_may_be_abandoned_from_an_answer)
{
    when_answered = ABANDON;
    for (int i = 0; i < MAX; i++)
        ck_assert_int_eq(start("red", NULL), RD_OK);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(answer.times, 1);
}
END_TEST

START_TEST(one_that_is_never_answered_can_be_abandoned)
{
    faulty_roomlog_set(log_, 1, FAULTY_ROOMLOG_SILENT, RD_EUNKNOWN);
    ck_assert_int_eq(start("red", NULL), RD_OK);
    fake_loop_advance(&loop, 60000);
    ck_assert_uint_eq(answer.times, 0);
    ck_assert_uint_eq(set.count, 1);
    publish_abandon(&set);
    ck_assert_uint_eq(set.count, 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("publish");
    TCase *tc = tcase_create("publish");
    tcase_add_checked_fixture(tc, make, take_down);
    tcase_add_test(tc, a_publish_is_answered_later_and_once_with_its_id);
    tcase_add_test(tc, the_same_ref_again_is_answered_with_the_first_id);
    tcase_add_test(tc, a_publish_without_a_ref_is_answered_without_one);
    tcase_add_test(tc, room_and_ref_are_copied);
    tcase_add_test(tc, max_publishes_may_be_under_way_and_one_more_is_refused);
    tcase_add_loop_test(tc, what_the_log_refuses_is_refused_and_keeps_nothing, RD_OK + 1,
                        RD_ERR_COUNT);
    tcase_add_loop_test(tc, what_the_log_answers_is_passed_on, RD_OK + 1, RD_ERR_COUNT);
    tcase_add_test(tc, another_publish_may_be_started_from_an_answer_even_at_the_ceiling);
    tcase_add_test(tc, nothing_is_answered_once_the_set_was_abandoned_but_it_is_done);
    tcase_add_test(tc, the_set_may_be_abandoned_from_an_answer);
    tcase_add_test(tc, one_that_is_never_answered_can_be_abandoned);
    suite_add_tcase(suite, tc);
    return suite;
}
