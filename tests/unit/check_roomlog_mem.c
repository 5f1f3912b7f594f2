/* What is the log in the process' own: ceilings and their counters, ids, exact pages, turns. What
 * it shares with Redis is in contract/check_roomlog.c. */
#include "roomlog/roomlog_mem.h"

#include "tests/lib/fake_loop.h"
#include "tests/lib/suite.h"

#include <stdio.h>

static struct fake_loop fake;
static struct metrics metrics;
static struct roomlog *the_log;

#define A STR("a")
#define B STR("b")
#define C STR("c")

static const struct roomlog_mem_limits WIDE = {
    .max_entries = 1000,
    .max_bytes = 1 << 20,
    .max_rooms = 100,
    .max_refs = 100,
    .dedupe_ms = 1000,
    .max_in_flight = 100,
};

static void open_with(struct roomlog_mem_limits limits)
{
    fake_loop_init(&fake, 3);
    memset(&metrics, 0, sizeof(metrics));
    the_log = roomlog_mem_create(&fake.loop, &metrics, &limits);
}

static void close_log(void)
{
    roomlog_close(the_log);
    fake_loop_turn(&fake);
    fake_loop_fini(&fake);
}

static void open_wide(void)
{
    open_with(WIDE);
}

static void reopen(struct roomlog_mem_limits limits)
{
    close_log();
    open_with(limits);
}

/* --- asking --------------------------------------------------------------------------------- */

struct asked {
    struct roomlog_append append;
    struct roomlog_read read;
    unsigned answers;
    enum rd_err err;
    struct stream_id id;
    bool duplicate;
    enum verdict verdict;
    bool at_end;
    size_t count;
    struct verdict_info info;
};

static void appended(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                     bool duplicate)
{
    struct asked *a = RD_CONTAINER(append, struct asked, append);
    a->answers++;
    a->err = err;
    a->id = id;
    a->duplicate = duplicate;
}

static void was_read(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct asked *a = RD_CONTAINER(read, struct asked, read);
    a->answers++;
    a->err = err;
    a->verdict = page->verdict;
    a->at_end = page->at_end;
    a->count = page->count;
    a->info = page->info;
}

static struct asked append(struct str room, struct roomlog_publish what)
{
    struct asked a = {.append = {.done = appended}};
    ck_assert_int_eq(roomlog_append(the_log, room, &what, &a.append), RD_OK);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(a.answers, 1);
    return a;
}

static struct roomlog_publish of_size(size_t len)
{
    static char bytes[4096];
    ck_assert_uint_le(len, sizeof(bytes));
    return (struct roomlog_publish){.type = STR(""), .data = {bytes, len}};
}

static struct stream_id put(struct str room)
{
    struct asked a = append(room, of_size(100));
    ck_assert_int_eq(a.err, RD_OK);
    return a.id;
}

static struct asked read_room(struct str room, struct roomlog_read read)
{
    struct asked a = {.read = read};
    a.read.done = was_read;
    a.read.want_info = true;
    if (a.read.max_entries == 0)
        a.read.max_entries = 1000;
    ck_assert_int_eq(roomlog_read(the_log, room, &a.read), RD_OK);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(a.answers, 1);
    ck_assert_int_eq(a.err, RD_OK);
    return a;
}

static struct verdict_info info_of(struct str room)
{
    return read_room(room, (struct roomlog_read){.from = ROOMLOG_HEAD}).info;
}

static enum verdict verdict_after(struct str room, struct stream_id cursor)
{
    return read_room(
               room,
               (struct roomlog_read){.from = ROOMLOG_AFTER, .after = cursor, .max_bytes = SIZE_MAX})
        .verdict;
}

static unsigned starts, breaks, batches;
static enum verdict why;

static void started(struct roomlog_follower *follower, struct stream_id head)
{
    starts++;
}

static void entries(struct roomlog_follower *follower, const struct roomlog_entry *e, size_t count)
{
    ck_assert_uint_ne(count, 0);
    batches++;
}

static void broken(struct roomlog_follower *follower, enum verdict verdict, struct stream_id head)
{
    breaks++;
    why = verdict;
}

static const struct roomlog_follower_ops FOLLOWER = {started, entries, broken};

/* --- ids ------------------------------------------------------------------------------------ */

START_TEST(an_id_is_the_wall_clock_and_a_number)
{
    struct stream_id one = put(A), two = put(A);
    ck_assert(stream_id_eq(one, (struct stream_id){FAKE_LOOP_WALL_MS, 0}));
    ck_assert(stream_id_eq(two, (struct stream_id){FAKE_LOOP_WALL_MS, 1}));
    fake_loop_advance(&fake, 5);
    ck_assert(stream_id_eq(put(A), (struct stream_id){FAKE_LOOP_WALL_MS + 5, 0}));
}
END_TEST

START_TEST(ids_grow_though_the_clock_goes_back)
{
    struct stream_id before = put(A);
    fake_loop_set_wall(&fake, FAKE_LOOP_WALL_MS - 1000);
    struct stream_id after = put(A);
    ck_assert(stream_id_eq(after, (struct stream_id){before.ms, before.seq + 1}));
    fake_loop_set_wall(&fake, FAKE_LOOP_WALL_MS + 1);
    ck_assert(stream_id_eq(put(A), (struct stream_id){FAKE_LOOP_WALL_MS + 1, 0}));
}
END_TEST

START_TEST(a_full_sequence_carries_over)
{
    struct roomlog_publish what = of_size(1);
    ck_assert(
        roomlog_mem_add(the_log, A, (struct stream_id){FAKE_LOOP_WALL_MS, UINT64_MAX}, &what));
    ck_assert(stream_id_eq(put(A), (struct stream_id){FAKE_LOOP_WALL_MS + 1, 0}));
}
END_TEST

START_TEST(a_room_that_begins_anew_does_not_use_an_id_twice)
{
    struct stream_id before = put(A);
    roomlog_mem_reset(the_log, A);
    fake_loop_set_wall(&fake, FAKE_LOOP_WALL_MS - 1000);
    ck_assert_int_gt(stream_id_cmp(put(A), before), 0);
    ck_assert_int_eq(verdict_after(A, before), VERDICT_TRIMMED);
}
END_TEST

START_TEST(a_lost_tails_ids_are_not_used_twice)
{
    (void)put(A);
    struct stream_id lost = put(A);
    roomlog_mem_lose_tail(the_log, A, 1);
    ck_assert_int_eq(verdict_after(A, lost), VERDICT_AHEAD);
    ck_assert_int_gt(stream_id_cmp(put(A), lost), 0);
    ck_assert_int_eq(verdict_after(A, lost), VERDICT_DIVERGED);
}
END_TEST

START_TEST(losing_everything_leaves_no_room_unless_something_was_cut_before)
{
    (void)put(A);
    (void)put(A);
    roomlog_mem_lose_tail(the_log, A, 5);
    ck_assert(!info_of(A).exists);

    struct stream_id cut = put(A);
    struct stream_id lost = put(A);
    roomlog_mem_trim(the_log, A, 1);
    roomlog_mem_lose_tail(the_log, A, 1);
    ck_assert(info_of(A).exists);
    ck_assert(stream_id_eq(info_of(A).last, cut));
    ck_assert_int_eq(verdict_after(A, lost), VERDICT_AHEAD);
}
END_TEST

START_TEST(a_lost_tails_refs_are_lost_with_it)
{
    struct roomlog_publish kept = {.type = STR("t"), .data = STR("1"), .ref = STR("kept")};
    struct roomlog_publish lost = {.type = STR("t"), .data = STR("1"), .ref = STR("lost")};
    (void)append(A, kept);
    (void)append(A, lost);
    (void)append(B, lost);
    roomlog_mem_lose_tail(the_log, A, 1);
    ck_assert(append(A, kept).duplicate);
    ck_assert(append(B, lost).duplicate);
    ck_assert(!append(A, lost).duplicate);
    ck_assert_uint_eq(info_of(A).length, 2);
}
END_TEST

START_TEST(somebody_else_can_not_go_below_the_last_id)
{
    struct roomlog_publish what = of_size(1);
    ck_assert(!roomlog_mem_add(the_log, A, STREAM_ID_ZERO, &what));
    ck_assert(!info_of(A).exists);
    ck_assert(roomlog_mem_add(the_log, A, (struct stream_id){5, 0}, &what));
    ck_assert(!roomlog_mem_add(the_log, A, (struct stream_id){5, 0}, &what));
    ck_assert(!roomlog_mem_add(the_log, A, (struct stream_id){4, 9}, &what));
    ck_assert_uint_eq(info_of(A).length, 1);
}
END_TEST

/* --- ceilings ------------------------------------------------------------------------------- */

START_TEST(a_room_keeps_exactly_max_entries)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_entries = 3;
    reopen(limits);
    ck_assert_uint_eq(the_log->max_entries, 3);
    for (int i = 1; i <= 5; i++) {
        struct stream_id last = put(A);
        ck_assert_uint_eq(info_of(A).length, i < 3 ? i : 3);
        ck_assert(stream_id_eq(info_of(A).last, last));
    }
    ck_assert_uint_eq(info_of(A).added, 5);
    ck_assert(stream_id_is_zero(info_of(A).max_deleted));
    ck_assert_uint_eq(metrics.v[M_LOG_TRIMMED], 2);
}
END_TEST

/* What one entry of put costs. */
static size_t cost(void)
{
    (void)put(A);
    size_t bytes = roomlog_mem_bytes(the_log);
    roomlog_mem_reset(the_log, A);
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), 0);
    return bytes;
}

START_TEST(above_max_bytes_the_room_appended_to_longest_ago_is_cut_first)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_bytes = 4 * cost();
    reopen(limits);
    (void)put(A);
    (void)put(B);
    (void)put(A);
    (void)put(B);
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), limits.max_bytes); /* at the ceiling, all there */
    ck_assert_uint_eq(metrics.v[M_LOG_TRIMMED], 0);

    (void)put(C); /* A is longest ago */
    ck_assert_uint_eq(info_of(A).length, 1);
    ck_assert_uint_eq(info_of(B).length, 2);
    (void)put(A); /* now B is */
    ck_assert_uint_eq(info_of(A).length, 2);
    ck_assert_uint_eq(info_of(B).length, 1);
    ck_assert_uint_eq(info_of(C).length, 1);
    ck_assert_uint_eq(metrics.v[M_LOG_TRIMMED], 2);
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), limits.max_bytes);
}
END_TEST

START_TEST(a_large_entry_may_empty_several_rooms_and_they_stay_rooms)
{
    struct roomlog_mem_limits limits = WIDE;
    size_t one = cost();
    limits.max_bytes = 4 * one;
    reopen(limits);
    struct stream_id a = put(A), b = put(B);
    (void)put(C);
    struct asked large = append(C, of_size(limits.max_bytes - one + 100)); /* fits exactly */
    ck_assert_int_eq(large.err, RD_OK);
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), limits.max_bytes);
    ck_assert(info_of(A).exists);
    ck_assert_uint_eq(info_of(A).length, 0);
    ck_assert_int_eq(verdict_after(A, a), VERDICT_OK); /* caught up all the same */
    ck_assert_int_eq(verdict_after(B, b), VERDICT_OK);
    ck_assert_int_eq(verdict_after(A, STREAM_ID_ZERO), VERDICT_TRIMMED);
    ck_assert_uint_eq(info_of(C).length, 1);
    (void)put(A); /* and the large one goes in its turn */
    ck_assert_uint_eq(info_of(C).length, 0);
    ck_assert_uint_eq(info_of(A).length, 1);
}
END_TEST

START_TEST(an_entry_above_max_bytes_is_refused_and_nothing_is_cut)
{
    struct roomlog_mem_limits limits = WIDE;
    size_t one = cost();
    limits.max_bytes = one;
    reopen(limits);
    (void)put(A);
    struct asked a = {.append = {.done = appended}};
    struct roomlog_publish what = of_size(101);
    ck_assert_int_eq(roomlog_append(the_log, B, &what, &a.append), RD_ETOOBIG);
    ck_assert(!roomlog_mem_add(the_log, B, (struct stream_id){5, 0}, &what));
    what.data.len = SIZE_MAX;
    what.key = (struct str){what.data.p, 5};
    ck_assert_int_eq(roomlog_append(the_log, B, &what, &a.append), RD_ETOOBIG);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(a.answers, 0);
    ck_assert_uint_eq(info_of(A).length, 1);
}
END_TEST

START_TEST(above_max_rooms_the_one_left_alone_longest_is_forgotten)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_rooms = 2;
    reopen(limits);
    struct stream_id a = put(A), b = put(B);
    (void)put(A);
    (void)put(C);
    ck_assert_uint_eq(metrics.v[M_LOG_ROOMS_FORGOTTEN], 1);
    ck_assert_int_eq(verdict_after(B, b), VERDICT_RESET);
    ck_assert_int_eq(verdict_after(A, a), VERDICT_OK);

    ck_assert_int_gt(stream_id_cmp(put(B), b), 0); /* A goes now */
    ck_assert_int_eq(verdict_after(A, a), VERDICT_RESET);
    ck_assert_int_eq(verdict_after(B, b), VERDICT_TRIMMED);
    ck_assert_uint_eq(metrics.v[M_LOG_ROOMS_FORGOTTEN], 2);
    /* Forgotten isn't trimmed, and the bytes are given back. */
    ck_assert_uint_eq(metrics.v[M_LOG_TRIMMED], 0);
}
END_TEST

START_TEST(a_followed_room_is_not_forgotten_and_without_room_an_append_is_told_so)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_rooms = 2;
    reopen(limits);
    struct roomlog_follower fa = {.ops = &FOLLOWER}, fb = {.ops = &FOLLOWER};
    struct roomlog_follower fc = {.ops = &FOLLOWER};
    roomlog_follow(the_log, A, &fa);
    roomlog_follow(the_log, B, &fb);
    roomlog_follow(the_log, C, &fc); /* following makes no room */
    (void)put(A);
    (void)put(B);
    struct asked refused = append(C, of_size(100));
    ck_assert_int_eq(refused.err, RD_EFULL);
    ck_assert_uint_eq(metrics.v[M_LOG_FULL], 1);
    ck_assert_uint_eq(metrics.v[M_LOG_ROOMS_FORGOTTEN], 0);
    ck_assert_uint_eq(info_of(A).length, 1);
    (void)put(A); /* those that are there take more */

    roomlog_unfollow(the_log, &fb);
    ck_assert_int_eq(append(C, of_size(100)).err, RD_OK);
    ck_assert(!info_of(B).exists);
    roomlog_unfollow(the_log, &fa);
    roomlog_unfollow(the_log, &fc);
}
END_TEST

START_TEST(all_states_together_have_a_ceiling)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_state_keys = 100;
    limits.max_state_bytes = 10000;
    limits.max_states_bytes = 3000;
    reopen(limits);
    struct roomlog_publish what = of_size(1000);
    what.key = STR("k");
    ck_assert_int_eq(append(A, what).err, RD_OK);
    ck_assert_int_eq(append(B, what).err, RD_OK);
    ck_assert_uint_ge(roomlog_mem_states_bytes(the_log), 2000);
    ck_assert_int_eq(append(C, what).err, RD_EFULL);
    ck_assert_uint_eq(metrics.v[M_LOG_FULL], 1);
    ck_assert(!info_of(C).exists);
    ck_assert_int_eq(append(C, of_size(1000)).err, RD_OK); /* an entry that needs no place there */
    what.data = STR("null");
    ck_assert_int_eq(append(A, what).err, RD_OK);
    what = of_size(1000);
    what.key = STR("k");
    ck_assert_int_eq(append(C, what).err, RD_OK);
    roomlog_mem_reset(the_log, B);
    roomlog_mem_reset(the_log, C);
    ck_assert_uint_eq(roomlog_mem_states_bytes(the_log), 0);
}
END_TEST

START_TEST(what_is_too_old_goes_with_the_next_append_or_by_itself)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_age_ms = 20000;
    reopen(limits);
    (void)put(A);
    (void)put(B);
    struct stream_id last = put(B);
    fake_loop_advance(&fake, 19000);
    (void)put(A);
    ck_assert_uint_eq(info_of(A).length, 2);
    fake_loop_advance(&fake, 900);
    ck_assert_uint_eq(info_of(A).length, 2);
    fake_loop_advance(&fake, 200);
    (void)put(A);
    ck_assert_uint_eq(info_of(A).length, 2);
    ck_assert_uint_eq(info_of(A).added, 3);
    fake_loop_advance(&fake, 2000); /* a tenth of it */
    ck_assert_uint_eq(info_of(B).length, 0);
    ck_assert(info_of(B).exists && stream_id_eq(info_of(B).last, last));
    ck_assert_uint_eq(metrics.v[M_LOG_TRIMMED], 3);
}
END_TEST

START_TEST(every_old_room_is_found)
{
    enum { ROOMS = 2500 };
    struct roomlog_mem_limits limits = WIDE;
    limits.max_age_ms = 20000;
    limits.max_rooms = ROOMS;
    reopen(limits);
    char names[ROOMS][8];
    for (int i = 0; i < ROOMS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "r%d", i);
        (void)put(str_from(names[i]));
    }
    ck_assert_uint_ne(roomlog_mem_bytes(the_log), 0);
    fake_loop_advance(&fake, 22100);
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), 0);
}
END_TEST

START_TEST(a_refused_appends_ref_is_not_remembered)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_rooms = 1;
    reopen(limits);
    struct roomlog_publish what = {.type = STR("t"), .data = STR("1"), .ref = STR("r")};
    struct roomlog_follower f = {.ops = &FOLLOWER};
    roomlog_follow(the_log, A, &f);
    (void)put(A);
    ck_assert_int_eq(append(B, what).err, RD_EFULL);
    roomlog_unfollow(the_log, &f);
    struct asked again = append(B, what);
    ck_assert_int_eq(again.err, RD_OK);
    ck_assert(!again.duplicate);
}
END_TEST

static struct asked with_ref(const char *ref)
{
    return append(A,
                  (struct roomlog_publish){
                      .type = STR("t"), .data = STR("1"), .from = STR("u"), .ref = str_from(ref)});
}

START_TEST(above_max_refs_the_oldest_is_forgotten)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_refs = 2;
    reopen(limits);
    (void)with_ref("1");
    (void)with_ref("2");
    ck_assert(with_ref("1").duplicate);
    ck_assert_uint_eq(metrics.v[M_LOG_REFS_FORGOTTEN], 0);
    ck_assert(!with_ref("3").duplicate);
    ck_assert_uint_eq(metrics.v[M_LOG_REFS_FORGOTTEN], 1);
    ck_assert(with_ref("2").duplicate);
    ck_assert(with_ref("3").duplicate);
    ck_assert(!with_ref("1").duplicate); /* it was the oldest */
}
END_TEST

START_TEST(the_window_ends_to_the_millisecond_and_is_not_prolonged)
{
    (void)with_ref("1");
    fake_loop_advance(&fake, WIDE.dedupe_ms - 1);
    ck_assert(with_ref("1").duplicate);
    fake_loop_set_wall(&fake, 0); /* it goes by the other clock */
    ck_assert(with_ref("1").duplicate);
    fake_loop_advance(&fake, 1);
    ck_assert(!with_ref("1").duplicate);
    ck_assert(with_ref("1").duplicate);
    ck_assert_uint_eq(metrics.v[M_LOG_REFS_FORGOTTEN], 0); /* it had its time */
}
END_TEST

/* Either limit at 0 means: not at all. */
START_TEST(without_a_window_nothing_is_remembered)
{
    struct roomlog_mem_limits limits = WIDE;
    if (_i == 0)
        limits.dedupe_ms = 0;
    else
        limits.max_refs = 0;
    reopen(limits);
    ck_assert(!with_ref("1").duplicate);
    ck_assert(!with_ref("1").duplicate);
}
END_TEST

START_TEST(requests_above_max_in_flight_are_refused_and_counted)
{
    struct roomlog_mem_limits limits = WIDE;
    limits.max_in_flight = 3;
    reopen(limits);
    struct asked a[4];
    struct roomlog_publish what = of_size(1);
    for (size_t i = 0; i < 4; i++)
        a[i] = (struct asked){.append = {.done = appended},
                              .read = {.from = ROOMLOG_ALL, .max_entries = 1, .done = was_read}};
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a[0].append), RD_OK);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a[1].append), RD_OK);
    ck_assert_int_eq(roomlog_read(the_log, A, &a[2].read), RD_OK);
    ck_assert_int_eq(roomlog_read(the_log, A, &a[3].read), RD_EBUSY);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a[3].append), RD_EBUSY);
    ck_assert_uint_eq(metrics.v[M_LOG_BUSY], 2);

    /* A cancelled append is done all the same, so it still counts; a cancelled read doesn't. */
    roomlog_cancel_append(the_log, &a[0].append);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a[3].append), RD_EBUSY);
    roomlog_cancel_read(the_log, &a[2].read);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a[3].append), RD_OK);

    fake_loop_turn(&fake);
    ck_assert_uint_eq(a[0].answers + a[2].answers, 0);
    ck_assert_uint_eq(a[1].answers, 1);
    ck_assert_uint_eq(a[3].answers, 1);
    ck_assert_uint_eq(info_of(A).length, 3);
}
END_TEST

/* --- pages ---------------------------------------------------------------------------------- */

/* Of five entries with 100 bytes of text each: the bounds, then how many come. */
static const struct {
    size_t max_entries, max_bytes, count;
} PAGES[] = {
    {5, SIZE_MAX, 5}, {6, 500, 5}, {4, 500, 4}, {5, 499, 4}, {5, 200, 2},
    {5, 199, 1},      {5, 100, 1}, {5, 99, 1},  {5, 0, 1},   {1, SIZE_MAX, 1},
};

START_TEST(a_page_ends_at_the_first_of_its_bounds)
{
    for (int i = 0; i < 5; i++)
        (void)put(A);
    struct asked r = read_room(A, (struct roomlog_read){.from = ROOMLOG_ALL,
                                                        .max_entries = PAGES[_i].max_entries,
                                                        .max_bytes = PAGES[_i].max_bytes});
    ck_assert_uint_eq(r.count, PAGES[_i].count);
    ck_assert(r.at_end == (r.count == 5));
}
END_TEST

START_TEST(info_comes_only_where_it_is_asked_for_or_explains_a_verdict)
{
    struct asked r = {.read = {.from = ROOMLOG_ALL, .max_entries = 5, .done = was_read}};
    (void)put(A);
    ck_assert_int_eq(roomlog_read(the_log, A, &r.read), RD_OK);
    fake_loop_turn(&fake);
    ck_assert(!r.info.exists);
    r.read.from = ROOMLOG_AFTER;
    r.read.after = STREAM_ID_MAX;
    ck_assert_int_eq(roomlog_read(the_log, A, &r.read), RD_OK);
    fake_loop_turn(&fake);
    ck_assert_int_eq(r.verdict, VERDICT_AHEAD);
    ck_assert(r.info.exists);
}
END_TEST

/* --- turns ---------------------------------------------------------------------------------- */

START_TEST(an_answer_takes_a_turn_and_requests_are_done_in_their_order)
{
    struct asked a = {.append = {.done = appended}};
    struct asked r = {.read = {.from = ROOMLOG_ALL, .max_entries = 5, .done = was_read}};
    struct roomlog_publish what = of_size(1);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a.append), RD_OK);
    ck_assert_int_eq(roomlog_read(the_log, A, &r.read), RD_OK);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(a.answers, 1);
    ck_assert_uint_eq(r.answers, 1);
    ck_assert_uint_eq(r.count, 1); /* the read came after the append, and sees it */
}
END_TEST

START_TEST(a_follower_hears_of_an_append_after_it_was_answered)
{
    struct asked a = {.append = {.done = appended}};
    struct roomlog_publish what = of_size(1);
    struct roomlog_follower f = {.ops = &FOLLOWER};
    roomlog_follow(the_log, A, &f);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(starts, 1);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &a.append), RD_OK);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(a.answers, 1);
    ck_assert_uint_eq(batches, 0);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(batches, 1);
    roomlog_unfollow(the_log, &f);
}
END_TEST

START_TEST(several_may_follow_one_room_each_from_its_own_start)
{
    struct roomlog_follower f = {.ops = &FOLLOWER}, g = {.ops = &FOLLOWER};
    roomlog_follow(the_log, A, &f);
    (void)put(A);
    roomlog_follow(the_log, A, &g);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(starts, 2);
    ck_assert_uint_eq(batches, 1);
    (void)put(A);
    ck_assert_uint_eq(batches, 3);
    roomlog_unfollow(the_log, &f);
    (void)put(A);
    ck_assert_uint_eq(batches, 4);
    roomlog_mem_reset(the_log, A);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(breaks, 1);
    ck_assert_int_eq(why, VERDICT_RESET);
    ck_assert_uint_eq(metrics.v[M_FEED_BREAKS], 1);
    roomlog_unfollow(the_log, &g);
}
END_TEST

/* --- inside callbacks ----------------------------------------------------------------------- */

static void trim_all_then_look(struct roomlog_read *read, enum rd_err err,
                               const struct roomlog_page *page)
{
    struct asked *a = RD_CONTAINER(read, struct asked, read);
    roomlog_mem_trim(the_log, A, 0);
    roomlog_mem_reset(the_log, A);
    a->answers++;
    /* Entries are borrowed for the callback: they stay, whatever becomes of the log. */
    for (size_t i = 0; i < page->count; i++)
        a->count += page->entries[i].data.len;
    ck_assert_int_eq(memcmp(page->entries[0].data.p, of_size(1).data.p, 100), 0);
}

START_TEST(entries_outlive_a_trim_from_inside_the_callback)
{
    struct asked r = {.read = {.from = ROOMLOG_ALL, .max_entries = 5, .max_bytes = SIZE_MAX}};
    r.read.done = trim_all_then_look;
    (void)put(A);
    (void)put(A);
    ck_assert_int_eq(roomlog_read(the_log, A, &r.read), RD_OK);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(r.count, 200);
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), 0);
}
END_TEST

static bool closed;

static void close_inside(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                         bool duplicate)
{
    roomlog_close(the_log);
    closed = true;
}

START_TEST(the_log_may_be_closed_from_its_last_answer)
{
    struct roomlog_append append = {.done = close_inside}, cancelled = {.done = close_inside};
    struct roomlog_publish what = of_size(1);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &append), RD_OK);
    ck_assert_int_eq(roomlog_append(the_log, A, &what, &cancelled), RD_OK);
    roomlog_cancel_append(the_log, &cancelled);
    ck_assert_uint_eq(metrics.v[M_LOG_READY], 1);
    fake_loop_turn(&fake);
    ck_assert(closed);
    ck_assert_uint_eq(metrics.v[M_LOG_READY], 0);
    the_log = NULL;
}
END_TEST

/* Random work under tight ceilings, held after each step against what the header says is always
 * true. */
START_TEST(ceilings_hold_through_random_work)
{
    enum { ROOMS = 8, STEPS = 3000 };
    struct roomlog_mem_limits limits = WIDE;
    size_t one = cost();
    limits.max_entries = 6;
    limits.max_bytes = 20 * one;
    limits.max_rooms = 5;
    limits.max_refs = 4;
    reopen(limits);

    static const char *const NAMES[ROOMS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct roomlog_follower followers[ROOMS];
    struct stream_id last[ROOMS];
    struct rng rng;
    memset(followers, 0, sizeof(followers));
    memset(last, 0, sizeof(last));
    rng_init(&rng, (uint64_t)_i);
    for (int step = 0; step < STEPS; step++) {
        size_t i = rng_below(&rng, ROOMS);
        struct str room = str_from(NAMES[i]);
        uint64_t dice = rng_below(&rng, 100);
        if (dice < 60) {
            struct asked a = append(room, of_size(rng_below(&rng, 400)));
            if (a.err == RD_OK) {
                ck_assert_int_gt(stream_id_cmp(a.id, last[i]), 0);
                last[i] = a.id;
            } else {
                ck_assert_int_eq(a.err, RD_EFULL);
            }
        } else if (dice < 75) {
            if (followers[i].impl != NULL) {
                roomlog_unfollow(the_log, &followers[i]);
            } else {
                followers[i].ops = &FOLLOWER;
                roomlog_follow(the_log, room, &followers[i]);
            }
        } else if (dice < 85) {
            roomlog_mem_trim(the_log, room, rng_below(&rng, 4));
        } else if (dice < 90) {
            roomlog_mem_reset(the_log, room);
        } else if (dice < 95) {
            roomlog_mem_lose_tail(the_log, room, rng_below(&rng, 3));
        } else {
            (void)roomlog_mem_delete(the_log, room, last[i]);
        }

        ck_assert_uint_le(roomlog_mem_bytes(the_log), limits.max_bytes);
        size_t rooms = 0;
        for (size_t k = 0; k < ROOMS && step % 8 == 0; k++) {
            struct verdict_info info = info_of(str_from(NAMES[k]));
            rooms += info.exists;
            ck_assert_uint_le(info.length, limits.max_entries);
            ck_assert_uint_le(info.length, info.added);
        }
        ck_assert_uint_le(rooms, limits.max_rooms);
    }
    for (size_t k = 0; k < ROOMS; k++) {
        roomlog_unfollow(the_log, &followers[k]);
        roomlog_mem_reset(the_log, str_from(NAMES[k]));
    }
    ck_assert_uint_eq(roomlog_mem_bytes(the_log), 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("roomlog_mem");
    TCase *tc = tcase_create("roomlog_mem");
    tcase_add_checked_fixture(tc, open_wide, close_log);
    tcase_add_test(tc, an_id_is_the_wall_clock_and_a_number);
    tcase_add_test(tc, ids_grow_though_the_clock_goes_back);
    tcase_add_test(tc, a_full_sequence_carries_over);
    tcase_add_test(tc, a_room_that_begins_anew_does_not_use_an_id_twice);
    tcase_add_test(tc, a_lost_tails_ids_are_not_used_twice);
    tcase_add_test(tc, losing_everything_leaves_no_room_unless_something_was_cut_before);
    tcase_add_test(tc, a_lost_tails_refs_are_lost_with_it);
    tcase_add_test(tc, somebody_else_can_not_go_below_the_last_id);
    tcase_add_test(tc, a_room_keeps_exactly_max_entries);
    tcase_add_test(tc, above_max_bytes_the_room_appended_to_longest_ago_is_cut_first);
    tcase_add_test(tc, a_large_entry_may_empty_several_rooms_and_they_stay_rooms);
    tcase_add_test(tc, an_entry_above_max_bytes_is_refused_and_nothing_is_cut);
    tcase_add_test(tc, above_max_rooms_the_one_left_alone_longest_is_forgotten);
    tcase_add_test(tc, a_followed_room_is_not_forgotten_and_without_room_an_append_is_told_so);
    tcase_add_test(tc, all_states_together_have_a_ceiling);
    tcase_add_test(tc, what_is_too_old_goes_with_the_next_append_or_by_itself);
    tcase_add_test(tc, every_old_room_is_found);
    tcase_add_test(tc, a_refused_appends_ref_is_not_remembered);
    tcase_add_test(tc, above_max_refs_the_oldest_is_forgotten);
    tcase_add_test(tc, the_window_ends_to_the_millisecond_and_is_not_prolonged);
    tcase_add_loop_test(tc, without_a_window_nothing_is_remembered, 0, 2);
    tcase_add_test(tc, requests_above_max_in_flight_are_refused_and_counted);
    tcase_add_loop_test(tc, a_page_ends_at_the_first_of_its_bounds, 0,
                        sizeof(PAGES) / sizeof(PAGES[0]));
    tcase_add_test(tc, info_comes_only_where_it_is_asked_for_or_explains_a_verdict);
    tcase_add_test(tc, an_answer_takes_a_turn_and_requests_are_done_in_their_order);
    tcase_add_test(tc, a_follower_hears_of_an_append_after_it_was_answered);
    tcase_add_test(tc, several_may_follow_one_room_each_from_its_own_start);
    tcase_add_test(tc, entries_outlive_a_trim_from_inside_the_callback);
    tcase_add_test(tc, the_log_may_be_closed_from_its_last_answer);
    tcase_add_loop_test(tc, ceilings_hold_through_random_work, 0, 3);
    suite_add_tcase(suite, tc);
    return suite;
}
