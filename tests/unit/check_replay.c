#include "room/replay.h"

#include "base/xalloc.h"
#include "roomlog/roomlog_mem.h"
#include "tests/lib/delayed_roomlog.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/fake_member.h"
#include "tests/lib/faulty_roomlog.h"
#include "tests/lib/suite.h"

enum {
    MEMBERS = 6,
    ROOMS = 3,
    PAGE = 2,
    IN_FLIGHT = 4,
    RING = 6,
    START_LIMIT_MS = 3000,
    BUSY_MS = 20,       /* as in replay.c */
    RETRY_MAX_MS = 500, /* likewise */
    RETRY_MIN_MS = 250
};

static struct fake_loop loop;
static struct metrics metrics;
static struct packet_account packets;
static struct ring_pool rings;
static struct ring_limits ring_limits; /* none, but where a fixture says so */
static struct roomlog *mem;
static struct roomlog *log_;
static struct replay replay;
static struct room *rooms[ROOMS]; /* red, blue, green */
static struct fake_member members[MEMBERS];
static struct fake_member *const a = &members[0];
static struct fake_member *const b = &members[1];
static struct fake_member *const c = &members[2];

static const char *const NAMES[ROOMS] = {"red", "blue", "green"};

static void on_started(struct room *room, void *arg)
{
    replay_room_started(&replay, room);
}

static void on_behind(struct room *room, struct room_member *member, void *arg)
{
    replay_again(&replay, member);
}

static void on_emptied(struct room *room, void *arg)
{
}

static const struct room_hooks HOOKS = {on_started, on_behind, on_emptied};

static void turn(void)
{
    fake_loop_turn(&loop);
}

static void append_to(const char *room, unsigned first, unsigned last)
{
    const struct roomlog_publish what = {.type = STR("t"), .data = STR("1")};
    for (unsigned n = first; n <= last; n++)
        ck_assert(roomlog_mem_add(mem, str_from(room), (struct stream_id){1, n}, &what));
}

/* To red. */
static void append(unsigned first, unsigned last)
{
    append_to("red", first, last);
}

static void open_rooms(void)
{
    const struct room_common common = {log_, &packets, &metrics, &rings};
    ring_pool_init(&rings, &ring_limits, &metrics);
    for (int i = 0; i < ROOMS; i++)
        rooms[i] = room_create(str_from(NAMES[i]), &common, &HOOKS, NULL);
    turn();
}

static void init_replay(size_t in_flight)
{
    const struct replay_limits limits = {.page_entries = PAGE,
                                         .page_bytes = 65536,
                                         .frame_bytes = 65536,
                                         .in_flight = in_flight,
                                         .start_limit_ms = START_LIMIT_MS};
    replay_init(&replay, &loop.loop, log_, &metrics, &limits);
}

static void make_log(void)
{
    metrics = (struct metrics){0};
    fake_loop_init(&loop, 1);
    const struct roomlog_mem_limits limits = {.max_entries = 10000,
                                              .max_bytes = 1 << 24,
                                              .max_rooms = 8,
                                              .max_in_flight = 1000,
                                              .max_state_keys = 100,
                                              .max_state_bytes = 1 << 16,
                                              .max_states_bytes = 1 << 20};
    mem = roomlog_mem_create(&loop.loop, &metrics, &limits);
    for (int i = 0; i < MEMBERS; i++)
        fake_member_init(&members[i]);
}

/* Over a log that answers each read a turn later. Red has 1-1 to 1-5. hold: no feed starts before
 * the test lets it. */
static void make_faulty(bool hold)
{
    make_log();
    append(1, 5);
    log_ = faulty_roomlog_create(&loop.loop, mem);
    faulty_roomlog_hold_follows(log_, hold);
    init_replay(IN_FLIGHT);
    open_rooms();
}

static void make(void)
{
    make_faulty(false);
}

static void make_held(void)
{
    make_faulty(true);
}

/* Behind a line on which nothing moves until the test says so. Red has 1-1 to 1-3. */
static void make_delayed(void)
{
    make_log();
    append(1, 3);
    log_ = delayed_roomlog_create(mem);
    init_replay(IN_FLIGHT);
    open_rooms();
    while (delayed_roomlog_feed(log_))
        turn();
}

/* The same with rings, of up to RING entries. */
static void make_with_rings(void)
{
    ring_limits = (struct ring_limits){RING, 1 << 16, 1 << 16};
    make();
}

static void make_delayed_with_rings(void)
{
    ring_limits = (struct ring_limits){RING, 1 << 16, 1 << 16};
    make_delayed();
}

static void leave(struct fake_member *fake)
{
    replay_stop(&replay, &fake->member);
    room_exit(&fake->member);
}

static void close_all(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        if (members[i].member.state != ROOM_MEMBER_OUT)
            leave(&members[i]);
        fake_member_fini(&members[i]);
    }
    for (int i = 0; i < ROOMS; i++) {
        replay_room_gone(&replay, rooms[i]);
        room_destroy(rooms[i]);
    }
    replay_fini(&replay);
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 0);
    ck_assert_uint_eq(packets.count, 0);
    roomlog_close(log_);
}

static void take_down(void)
{
    close_all();
    turn();
    fake_loop_fini(&loop);
}

static void take_down_delayed(void)
{
    close_all();
    roomlog_close(mem);
    turn();
    fake_loop_fini(&loop);
}

static void start(struct fake_member *fake, enum roomlog_from from, unsigned after, uint32_t newest)
{
    const struct room_start how = {
        .from = from, .after = {1, after}, .newest = newest, .state = fake->state};
    replay_start(&replay, &fake->member, &how);
}

static void join_room(struct fake_member *fake, int room, enum roomlog_from from, unsigned after,
                      uint32_t newest)
{
    room_enter(rooms[room], &fake->member);
    start(fake, from, after, newest);
}

static void join(struct fake_member *fake, enum roomlog_from from, unsigned after, uint32_t newest)
{
    join_room(fake, 0, from, after, newest);
}

static void join_after(struct fake_member *fake, unsigned after)
{
    join(fake, ROOMLOG_AFTER, after, 0);
}

static void rejoin(struct fake_member *fake, enum roomlog_from from, unsigned after)
{
    replay_stop(&replay, &fake->member);
    room_restart(&fake->member);
    start(fake, from, after, 0);
}

#define ck_heard(fake, text) ck_assert_str_eq(fake_member_heard(fake), text)

/* --- the walk ------------------------------------------------------------------------------- */

START_TEST(a_fresh_start_is_sent_all_that_is_retained_page_by_page)
{
    join(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "joined -; head 1-5; oldest 1-1; complete; replayed 1-1; replayed 1-2; "
                "replayed 1-3; replayed 1-4; replayed 1-5; live 1-5 (5)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 3);
    ck_assert_uint_eq(metrics.v[M_ENTRIES_REPLAYED], 5);
    ck_assert_uint_eq(metrics.v[M_JOINS], 1);
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
    append(6, 6);
    turn();
    ck_heard(a, "entry 1-6");
}
END_TEST

START_TEST(a_cursor_is_honoured_with_what_came_after_it)
{
    join_after(a, 3);
    turn();
    ck_heard(a, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
}
END_TEST

START_TEST(a_cursor_at_the_head_is_live_at_once)
{
    join_after(a, 5);
    turn();
    ck_heard(a, "joined 1-5; head 1-5; oldest 1-1; complete; live 1-5 (0)");
}
END_TEST

START_TEST(the_newest_come_in_one_page_however_small_a_page_is)
{
    join(a, ROOMLOG_NEWEST, 0, PAGE + 1);
    turn();
    ck_heard(a, "joined -; head 1-5; oldest 1-1; complete; replayed 1-3; replayed 1-4; "
                "replayed 1-5; live 1-5 (3)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
}
END_TEST

START_TEST(only_what_is_new_begins_at_the_head)
{
    join(a, ROOMLOG_HEAD, 0, 0);
    turn();
    ck_heard(a, "joined -; head 1-5; oldest 1-1; complete; live 1-5 (0)");
    append(6, 6);
    turn();
    ck_heard(a, "entry 1-6");
}
END_TEST

START_TEST(an_empty_room_is_live_at_0_0)
{
    join_room(a, 1, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "joined -; head 0-0; oldest -; complete; live 0-0 (0)");
    append_to("blue", 1, 1);
    turn();
    ck_heard(a, "entry 1-1");
}
END_TEST

START_TEST(a_cursor_that_can_not_be_honoured_is_told_and_starts_afresh)
{
    roomlog_mem_trim(mem, STR("red"), 2);
    join_after(a, 1);
    turn();
    ck_heard(a, "resync trimmed; replayed 1-4; replayed 1-5; live 1-5 (2)");
    ck_assert_uint_eq(metrics.v[M_RESYNCS], 1);
    ck_assert_uint_eq(metrics.v[M_JOINS], 0);
}
END_TEST

START_TEST(newest_bounds_the_fresh_start_after_a_resync_now_and_later)
{
    roomlog_mem_trim(mem, STR("red"), 3);
    join(a, ROOMLOG_AFTER, 1, 1);
    turn();
    ck_heard(a, "resync trimmed; replayed 1-5; live 1-5 (1)");
    roomlog_mem_lose_tail(mem, STR("red"), 1);
    turn();
    ck_heard(a, "resync ahead; replayed 1-4; live 1-4 (1)");
}
END_TEST

START_TEST(a_live_member_whose_log_is_lost_is_told_and_goes_live_again)
{
    join_after(a, 5);
    turn();
    (void)fake_member_heard(a);
    roomlog_mem_reset(mem, STR("red"));
    turn();
    ck_heard(a, "resync reset; live 0-0 (0)");
    append(7, 7);
    turn();
    ck_heard(a, "entry 1-7");
}
END_TEST

START_TEST(a_live_member_that_had_to_read_again_goes_on_without_a_word)
{
    join_after(a, 5);
    turn();
    (void)fake_member_heard(a);
    a->member.last = (struct stream_id){1, 4}; /* as if its page had not had 1-5 */
    append(6, 6);
    turn();
    ck_heard(a, "replayed 1-5; replayed 1-6");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
    ck_assert_uint_eq(metrics.v[M_CHAIN_BREAKS], 1);
}
END_TEST

/* --- the client's pace ---------------------------------------------------------------------- */

START_TEST(the_next_page_is_asked_for_only_when_the_member_may_read)
{
    a->may_read = false;
    join(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "");
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
    a->may_read = true;
    a->may_read_times = 2; /* when it wants the page, and when that is asked for */
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a, "joined -; head 1-5; oldest 1-1; complete; replayed 1-1; replayed 1-2");
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
    a->may_read = true;
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a, "replayed 1-3; replayed 1-4; replayed 1-5; live 1-5 (5)");
}
END_TEST

/* A session in many rooms wants a page in each before the first fills its socket. */
START_TEST(a_page_is_not_asked_for_whose_member_may_not_read_any_more)
{
    a->may_read_times = 1; /* when it wants the page, and not when that is asked for */
    join(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "");
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
    a->may_read = true;
    replay_resume(&replay, &a->member);
    turn();
    ck_assert_uint_ne(metrics.v[M_PAGES], 0);
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
}
END_TEST

START_TEST(a_slow_member_holds_nobody_else_up)
{
    a->may_read = false;
    join_after(a, 1);
    join_after(b, 1);
    turn();
    ck_heard(a, "");
    ck_assert_int_eq(b->member.state, ROOM_MEMBER_LIVE);
}
END_TEST

START_TEST(what_spilled_is_read_from_the_log)
{
    a->budget.max = 0;
    a->may_read = false;
    join_after(a, 3);
    append(6, 9);
    turn();
    ck_assert_uint_eq(metrics.v[M_PENDING_SPILLS], 4);
    a->may_read = true;
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a, "joined 1-3; head 1-9; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "replayed 1-6; replayed 1-7; replayed 1-8; replayed 1-9; live 1-9 (6)");
}
END_TEST

START_TEST(resuming_is_harmless_for_a_member_that_waits_for_something_else)
{
    join_after(a, 3);
    replay_resume(&replay, &a->member); /* waits for a page */
    replay_resume(&replay, &b->member); /* is out */
    turn();
    replay_resume(&replay, &a->member); /* is live */
    turn();
    ck_heard(a, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
}
END_TEST

/* --- the seam, on a line where nothing moves until told ------------------------------------- */

/* A page is asked for, and its moment has passed; its answer is still under way. */
static void let_page_be_read(void)
{
    turn();
    ck_assert(delayed_roomlog_ask(log_));
    turn();
}

static void let_page_through(void)
{
    let_page_be_read();
    ck_assert(delayed_roomlog_answer(log_));
}

static void let_feed_through(void)
{
    turn();
    ck_assert(delayed_roomlog_feed(log_));
}

#define JOINED_3 "joined 1-3; head 1-3; oldest 1-1; complete"

START_TEST(what_came_while_the_page_was_under_way_follows_it)
{
    join_after(a, 1);
    let_page_be_read();
    append(4, 5);
    let_feed_through();
    ck_heard(a, "");
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "joined 1-1; head 1-3; oldest 1-1; complete; replayed 1-2; replayed 1-3; "
                "replayed 1-4; replayed 1-5; live 1-5 (4)");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
}
END_TEST

START_TEST(what_both_the_page_and_the_feed_brought_is_sent_once)
{
    join_after(a, 3);
    turn();
    append(4, 5);
    let_feed_through(); /* pending before the page is read */
    let_page_through();
    ck_heard(a, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
}
END_TEST

START_TEST(what_the_feed_brings_after_the_page_had_it_is_dropped)
{
    append(4, 4);
    join_after(a, 3);
    let_page_through();
    ck_heard(a, "joined 1-3; head 1-4; oldest 1-1; complete; replayed 1-4; live 1-4 (1)");
    let_feed_through();
    append(5, 5);
    let_feed_through();
    ck_heard(a, "entry 1-5");
}
END_TEST

START_TEST(what_spilled_while_a_page_was_under_way_takes_another_page)
{
    a->budget.max = 0;
    join_after(a, 3);
    let_page_be_read(); /* empty, and at the end */
    append(4, 5);
    let_feed_through();
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, JOINED_3); /* not live: 1-4 and 1-5 are in neither */
    let_page_through();
    ck_heard(a, "replayed 1-4; replayed 1-5; live 1-5 (2)");
}
END_TEST

START_TEST(a_list_that_begins_above_a_gap_takes_another_page)
{
    join_after(a, 3);
    let_page_be_read();
    a->budget.max = 0;
    append(4, 4);
    let_feed_through();
    a->budget.max = 65536;
    append(5, 5);
    let_feed_through();
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, JOINED_3);
    let_page_through();
    ck_heard(a, "replayed 1-4; replayed 1-5; live 1-5 (2)");
}
END_TEST

START_TEST(the_pending_list_may_chain_before_the_page_reaches_the_end)
{
    append(4, 6); /* the feed lags: it has shown none of them */
    join_after(a, 1);
    let_page_be_read(); /* 1-2 and 1-3, and there is more */
    let_feed_through();
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "joined 1-1; head 1-6; oldest 1-1; complete; replayed 1-2; replayed 1-3; "
                "replayed 1-4; replayed 1-5; replayed 1-6; live 1-6 (5)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
}
END_TEST

START_TEST(a_page_that_reached_the_end_covers_what_the_feed_had_shown_and_is_deleted)
{
    join_after(a, 1);
    turn(); /* the feed stands at 1-3 when the page is asked for */
    ck_assert(roomlog_mem_delete(mem, STR("red"), (struct stream_id){1, 3}));
    let_page_through();
    ck_heard(a, "joined 1-1; head 1-3; oldest 1-1; cut; replayed 1-2; live 1-2 (1)");
}
END_TEST

START_TEST(a_page_of_before_the_feed_broke_is_thrown_away)
{
    join_after(a, 1);
    let_page_be_read();
    roomlog_mem_lose_tail(mem, STR("red"), 1);
    let_feed_through();
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "");
    let_page_through();
    ck_heard(a, "joined 1-1; head 1-2; oldest 1-1; complete; replayed 1-2; live 1-2 (1)");
}
END_TEST

START_TEST(a_read_of_before_the_feed_broke_is_not_shared_with_one_after)
{
    join_after(a, 1);
    let_page_be_read();
    roomlog_mem_lose_tail(mem, STR("red"), 1);
    let_feed_through();
    join_after(b, 1);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 2);
    ck_assert_uint_eq(metrics.v[M_PAGES_SHARED], 0);
}
END_TEST

START_TEST(a_join_does_not_share_a_page_that_tells_nothing_of_the_log)
{
    join(a, ROOMLOG_ALL, 0, 0);
    let_page_through();
    (void)fake_member_heard(a);
    join_after(b, 2); /* where a stands, who needs no answer to its join any more */
    let_page_be_read();
    let_page_be_read();
    ck_assert(delayed_roomlog_answer(log_));
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "replayed 1-3; live 1-3 (3)");
    ck_heard(b, "joined 1-2; head 1-3; oldest 1-1; complete; replayed 1-3; live 1-3 (1)");
    ck_assert_uint_eq(metrics.v[M_PAGES_SHARED], 0);
}
END_TEST

START_TEST(whoever_leaves_during_a_fetch_hears_nothing_and_the_read_is_cancelled)
{
    join_after(a, 1);
    let_page_be_read();
    leave(a);
    ck_assert(!delayed_roomlog_answer(log_));
    ck_assert_uint_eq(replay.fetches.in_flight, 0);
    ck_heard(a, "");
}
END_TEST

START_TEST(whoever_leaves_before_the_read_is_asked_leaves_nothing_behind)
{
    join_after(a, 1);
    leave(a);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
}
END_TEST

START_TEST(a_read_goes_on_while_anybody_waits_for_it)
{
    join_after(a, 1);
    join_after(b, 1);
    let_page_be_read();
    leave(a);
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "");
    ck_heard(b, "joined 1-1; head 1-3; oldest 1-1; complete; replayed 1-2; replayed 1-3; "
                "live 1-3 (2)");
}
END_TEST

START_TEST(only_the_later_of_two_joins_is_answered)
{
    join_after(a, 1);
    let_page_be_read();
    rejoin(a, ROOMLOG_AFTER, 2);
    let_page_through();
    ck_assert(!delayed_roomlog_answer(log_));
    ck_heard(a, "joined 1-2; head 1-3; oldest 1-1; complete; replayed 1-3; live 1-3 (1)");
}
END_TEST

START_TEST(a_live_member_may_begin_again)
{
    join_after(a, 2);
    let_page_through();
    (void)fake_member_heard(a);
    rejoin(a, ROOMLOG_ALL, 0);
    let_page_through();
    ck_heard(a, "joined -; head 1-3; oldest 1-1; complete; replayed 1-1; replayed 1-2");
    let_page_through();
    ck_heard(a, "replayed 1-3; live 1-3 (3)");
}
END_TEST

/* --- how many pages are read at a time, and whose ------------------------------------------- */

START_TEST(no_more_than_in_flight_pages_are_being_read_for_the_whole_node)
{
    append_to("blue", 1, 2);
    append_to("green", 1, 2);
    for (int i = 0; i < MEMBERS; i++)
        join_room(&members[i], i % ROOMS, ROOMLOG_AFTER, 1 + i / ROOMS, 0);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], IN_FLIGHT);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], IN_FLIGHT);
    for (unsigned answered = 1; answered <= MEMBERS; answered++) {
        let_page_through();
        turn();
        ck_assert_uint_eq(metrics.v[M_PAGES],
                          IN_FLIGHT + answered < MEMBERS ? IN_FLIGHT + answered : MEMBERS);
    }
    for (int i = 0; i < MEMBERS; i++)
        ck_assert_uint_ne(strlen(fake_member_heard(&members[i])), 0);
}
END_TEST

START_TEST(pages_are_read_for_the_rooms_in_turn)
{
    init_replay(1);
    join_after(a, 1);
    join_after(b, 2); /* red's next, but blue is first */
    join_after(&members[3], 3);
    join_room(c, 1, ROOMLOG_ALL, 0, 0);
    struct fake_member *const wanted[] = {a, c, b, &members[3]};
    for (int i = 0; i < 4; i++) {
        let_page_through();
        for (int j = i; j < 4; j++) {
            size_t len = strlen(fake_member_heard(wanted[j]));
            ck_assert_msg((len != 0) == (j == i), "page %d went to member %d", i, j);
        }
    }
}
END_TEST

START_TEST(a_page_that_nobody_waits_for_any_more_makes_way_for_the_next)
{
    init_replay(1);
    join_after(a, 1);
    join_after(b, 2);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
    leave(a);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 2);
    let_page_through();
    ck_heard(b, "joined 1-2; head 1-3; oldest 1-1; complete; replayed 1-3; live 1-3 (1)");
}
END_TEST

START_TEST(ten_thousand_members_that_come_back_at_once_cost_one_read)
{
    enum { MANY = 10000 };
    struct fake_member *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (int i = 0; i < MANY; i++) {
        fake_member_init(&crowd[i]);
        join_after(&crowd[i], 3);
    }
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
    ck_assert_uint_eq(metrics.v[M_PAGES_SHARED], MANY - 1);
    ck_assert_uint_eq(metrics.v[M_ENTRIES_REPLAYED], 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        ck_heard(&crowd[i], "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; "
                            "replayed 1-5; live 1-5 (2)");
        leave(&crowd[i]);
        fake_member_fini(&crowd[i]);
    }
    free(crowd);
}
END_TEST

static size_t most_packets;

static bool count_packets(struct room_member *member, struct packet *p, bool replayed)
{
    ck_assert_ptr_eq(p->account, &packets);
    if (packets.count > most_packets)
        most_packets = packets.count;
    return true;
}

START_TEST(a_page_is_encoded_once_for_all_who_share_it)
{
    struct room_member_ops ops = *a->member.ops;
    ops.entry = count_packets;
    most_packets = 0;
    for (int i = 0; i < MEMBERS; i++) {
        members[i].member.ops = &ops;
        join_after(&members[i], 3);
    }
    turn();
    ck_assert_uint_eq(metrics.v[M_ENTRIES_REPLAYED], 2 * MEMBERS);
    ck_assert_uint_eq(most_packets, 2);
    for (int i = 0; i < MEMBERS; i++)
        leave(&members[i]);
}
END_TEST

/* How each two of them ask differs in one thing. */
static const struct {
    enum roomlog_from from;
    unsigned after;
    uint32_t newest;
} ASKS[] = {{ROOMLOG_ALL, 0, 0},    {ROOMLOG_HEAD, 0, 0},  {ROOMLOG_NEWEST, 0, 1},
            {ROOMLOG_NEWEST, 0, 2}, {ROOMLOG_AFTER, 3, 0}, {ROOMLOG_AFTER, 4, 0}};

START_TEST(only_equal_reads_are_shared)
{
    ck_assert_uint_eq(sizeof(ASKS) / sizeof(ASKS[0]), MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        join(&members[i], ASKS[i].from, ASKS[i].after, ASKS[i].newest);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES_SHARED], 0);
    ck_assert_uint_eq(members[0].entries, 5);
    ck_assert_uint_eq(members[1].entries, 0);
    ck_assert_uint_eq(members[2].entries, 1);
    ck_assert_uint_eq(members[3].entries, 2);
    ck_assert_uint_eq(members[4].entries, 2);
    ck_assert_uint_eq(members[5].entries, 1);
}
END_TEST

/* --- when the log fails --------------------------------------------------------------------- */

START_TEST(a_busy_log_is_asked_again)
{
    faulty_roomlog_set(log_, 1, FAULTY_ROOMLOG_REFUSED, RD_EBUSY);
    join_after(a, 4);
    turn();
    ck_heard(a, "");
    fake_loop_advance(&loop, BUSY_MS - 1);
    ck_heard(a, "");
    fake_loop_advance(&loop, 1);
    turn();
    ck_heard(a, "joined 1-4; head 1-5; oldest 1-1; complete; replayed 1-5; live 1-5 (1)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
}
END_TEST

/* _i: whether the error is the return value or the answer. */
START_TEST(a_join_that_the_log_can_not_answer_fails_and_the_member_is_out)
{
    faulty_roomlog_set(log_, 1, (enum faulty_roomlog_fault)_i, RD_EUNAVAIL);
    join_after(a, 4);
    join_after(b, 4);
    join_after(c, 3);
    turn();
    ck_heard(a, "failed red: the log is not available");
    ck_heard(b, "failed red: the log is not available"); /* the read was for both */
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_OUT);
    ck_assert_ptr_null(a->member.room);
    ck_assert_int_eq(c->member.state, ROOM_MEMBER_LIVE); /* and this one has its own */
    ck_assert_uint_eq(replay.fetches.in_flight, 0);
    join_after(a, 4); /* it may try again */
    turn();
    ck_heard(a, "joined 1-4; head 1-5; oldest 1-1; complete; replayed 1-5; live 1-5 (1)");
}
END_TEST

/* _i: as above. */
START_TEST(a_page_that_fails_after_the_join_was_answered_is_asked_for_again_until_it_comes)
{
    join_after(a, 1);
    faulty_roomlog_set(log_, 2, (enum faulty_roomlog_fault)_i, RD_EUNAVAIL);
    turn();
    ck_assert(faulty_roomlog_struck(log_));
    ck_heard(a, "joined 1-1; head 1-5; oldest 1-1; complete; replayed 1-2; replayed 1-3");
    replay_resume(&replay, &a->member); /* changes nothing: it waits for its timer */
    faulty_roomlog_set(log_, 1, (enum faulty_roomlog_fault)_i, RD_ETIMEDOUT);
    fake_loop_advance(&loop, RETRY_MIN_MS - 1);
    ck_assert(!faulty_roomlog_struck(log_));
    fake_loop_advance(&loop, RETRY_MAX_MS - RETRY_MIN_MS + 1);
    ck_assert(faulty_roomlog_struck(log_));
    ck_heard(a, "");
    append(6, 6); /* held meanwhile */
    fake_loop_advance(&loop, RETRY_MAX_MS);
    turn();
    ck_heard(a, "replayed 1-4; replayed 1-5; replayed 1-6; live 1-6 (5)");
}
END_TEST

static const enum rd_err FINAL[] = {RD_EWRONGTYPE, RD_EDENIED};

START_TEST(a_page_that_will_never_come_takes_the_member_out_even_in_mid_life)
{
    join_after(a, 1);
    faulty_roomlog_set(log_, 2, FAULTY_ROOMLOG_ERROR, FINAL[_i]);
    turn();
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_OUT);
    ck_assert_ptr_nonnull(strstr(fake_member_heard(a), "; failed red: "));
}
END_TEST

static unsigned freed;

static void free_it(struct room_member *member, struct str room, enum rd_err err)
{
    freed++;
    free(member);
}

static bool may_read(struct room_member *member)
{
    return true;
}

START_TEST(a_member_may_be_freed_when_it_is_told_that_it_failed)
{
    static const struct room_member_ops ops = {.failed = free_it, .may_read = may_read};
    struct pending_budget budget = {.max = 65536};
    freed = 0;
    for (int i = 0; i < 3; i++) {
        struct room_member *member = xalloc_zero(sizeof(*member));
        member->ops = &ops;
        member->budget = &budget;
        room_enter(rooms[0], member);
        replay_start(&replay, member, &(struct room_start){.from = ROOMLOG_ALL});
    }
    faulty_roomlog_set(log_, 1, FAULTY_ROOMLOG_ERROR, RD_ELOG);
    turn();
    ck_assert_uint_eq(freed, 3);
    ck_assert_uint_eq(rooms[0]->member_count, 0);
}
END_TEST

START_TEST(whoever_leaves_while_it_waits_to_try_again_leaves_nothing_behind)
{
    join_after(a, 1);
    faulty_roomlog_set(log_, 2, FAULTY_ROOMLOG_ERROR, RD_EUNAVAIL);
    turn();
    leave(a);
    unsigned calls = faulty_roomlog_calls(log_);
    fake_loop_advance(&loop, RETRY_MAX_MS);
    ck_assert_uint_eq(faulty_roomlog_calls(log_), calls);
}
END_TEST

START_TEST(a_rejoin_does_not_wait_for_the_retry)
{
    join_after(a, 1);
    faulty_roomlog_set(log_, 2, FAULTY_ROOMLOG_ERROR, RD_EUNAVAIL);
    turn();
    (void)fake_member_heard(a);
    rejoin(a, ROOMLOG_AFTER, 3);
    turn();
    ck_heard(a, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
}
END_TEST

/* --- before the feed has started ------------------------------------------------------------ */

START_TEST(no_page_is_asked_for_before_the_feed_holds)
{
    join_after(a, 4);
    replay_resume(&replay, &a->member);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
    faulty_roomlog_hold_follows(log_, false);
    turn();
    ck_heard(a, "joined 1-4; head 1-5; oldest 1-1; complete; replayed 1-5; live 1-5 (1)");
}
END_TEST

START_TEST(a_join_fails_where_the_feed_does_not_start_in_time)
{
    join_after(a, 4);
    join_after(b, 3);
    fake_loop_advance(&loop, START_LIMIT_MS - 1);
    ck_heard(a, "");
    fake_loop_advance(&loop, 1);
    ck_heard(a, "failed red: the log is not available");
    ck_heard(b, "failed red: the log is not available");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_OUT);
    join_after(a, 4); /* the next try has its own time */
    fake_loop_advance(&loop, START_LIMIT_MS - 1);
    ck_heard(a, "");
    faulty_roomlog_hold_follows(log_, false);
    fake_loop_advance(&loop, 1);
    ck_heard(a, "joined 1-4; head 1-5; oldest 1-1; complete; replayed 1-5; live 1-5 (1)");
}
END_TEST

START_TEST(whoever_leaves_before_the_feed_starts_hears_nothing)
{
    join_after(a, 4);
    leave(a);
    faulty_roomlog_hold_follows(log_, false);
    fake_loop_advance(&loop, START_LIMIT_MS);
    ck_heard(a, "");
}
END_TEST

START_TEST(a_rejoin_before_the_feed_starts_counts_alone)
{
    join_after(a, 1);
    rejoin(a, ROOMLOG_AFTER, 4);
    faulty_roomlog_hold_follows(log_, false);
    turn();
    ck_heard(a, "joined 1-4; head 1-5; oldest 1-1; complete; replayed 1-5; live 1-5 (1)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
}
END_TEST

/* --- the ring ------------------------------------------------------------------------------- */

START_TEST(a_cursor_in_the_ring_is_served_without_reading_the_log)
{
    append(6, 8);
    turn();
    join_after(a, 6);
    join_after(b, 7);
    join_after(c, 8);
    turn();
    ck_heard(a, "joined 1-6; head 1-8; oldest 1-1; complete; replayed 1-7; replayed 1-8; "
                "live 1-8 (2)");
    ck_heard(b, "joined 1-7; head 1-8; oldest 1-1; complete; replayed 1-8; live 1-8 (1)");
    ck_heard(c, "joined 1-8; head 1-8; oldest 1-1; complete; live 1-8 (0)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
    ck_assert_uint_eq(metrics.v[M_HEADS], 1); /* for the answers, and one for all three */
    ck_assert_uint_eq(metrics.v[M_RING_HITS], 3);
    append(9, 9);
    turn();
    ck_heard(a, "entry 1-9");
}
END_TEST

START_TEST(the_place_where_the_feed_began_is_in_the_ring)
{
    append(6, 6);
    turn();
    join_after(a, 5);
    turn();
    ck_heard(a, "joined 1-5; head 1-6; oldest 1-1; complete; replayed 1-6; live 1-6 (1)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
}
END_TEST

START_TEST(a_cursor_before_the_ring_is_read_from_the_log)
{
    append(6, 6 + RING);
    turn();
    join_after(a, 5);
    turn();
    ck_assert_uint_eq(metrics.v[M_PAGES], 1); /* to 1-7, and the rest is in the ring */
    ck_assert_uint_eq(metrics.v[M_RING_HITS], 1);
    ck_heard(a, "joined 1-5; head 1-12; oldest 1-1; complete; replayed 1-6; replayed 1-7; "
                "replayed 1-8; replayed 1-9; replayed 1-10; replayed 1-11; replayed 1-12; "
                "live 1-12 (7)");
}
END_TEST

START_TEST(a_live_member_that_could_not_be_given_an_entry_resumes_from_the_ring)
{
    join_after(a, 5);
    turn();
    (void)fake_member_heard(a);
    a->refuses = true;
    a->may_read = false;
    append(6, 8);
    turn();
    ck_heard(a, "");
    a->refuses = false;
    a->may_read = true;
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a, "replayed 1-6; replayed 1-7; replayed 1-8");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
    ck_assert_uint_eq(metrics.v[M_PAGES] + metrics.v[M_BURSTS], 0);
}
END_TEST

START_TEST(whoever_may_not_read_is_not_served_from_the_ring_either)
{
    append(6, 8);
    turn();
    a->may_read = true;
    a->may_read_times = 2; /* when it wants it and when the log is asked, and not then */
    join_after(a, 6);
    turn();
    ck_heard(a, "");
    a->may_read = true;
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a, "joined 1-6; head 1-8; oldest 1-1; complete; replayed 1-7; replayed 1-8; "
                "live 1-8 (2)");
}
END_TEST

START_TEST(what_is_sent_from_the_ring_at_a_time_is_bounded_as_a_page_is)
{
    replay.limits.page_bytes = 1;
    append(6, 8);
    turn();
    a->may_read_times = 3;
    join_after(a, 5);
    turn();
    ck_heard(a, "joined 1-5; head 1-8; oldest 1-1; complete; replayed 1-6");
    append(9, 9);
    turn();
    a->may_read = true;
    a->may_read_times = 0;
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a, "replayed 1-7; replayed 1-8; replayed 1-9; live 1-9 (4)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
}
END_TEST

START_TEST(what_was_deleted_is_not_shown_to_whoever_joins)
{
    append(6, 8);
    turn();
    ck_assert(roomlog_mem_delete(mem, STR("red"), (struct stream_id){1, 7}));
    join_after(a, 6);
    turn();
    ck_heard(a, "joined 1-6; head 1-8; oldest 1-1; cut; replayed 1-8; live 1-8 (1)");
    join_after(b, 8);
    turn();
    ck_heard(b, "joined 1-8; head 1-8; oldest 1-1; cut; live 1-8 (0)");
    append(9, 9);
    turn();
    ck_heard(a, "entry 1-9");
}
END_TEST

START_TEST(a_ring_that_is_evicted_meanwhile_is_replaced_by_the_log)
{
    while (delayed_roomlog_feed(log_))
        turn();
    append(4, 5);
    let_feed_through();
    join_after(a, 3);
    let_page_be_read();
    while (ring_pool_evict(&rings))
        ;
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "");
    let_page_through();
    ck_heard(a, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
}
END_TEST

START_TEST(what_the_feed_brought_while_the_log_was_asked_is_served_with_the_rest)
{
    join_after(a, 3);
    let_page_be_read();
    append(4, 5);
    let_feed_through();
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "joined 1-3; head 1-3; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
    ck_assert_uint_eq(metrics.v[M_PAGES], 0);
}
END_TEST

START_TEST(the_ring_of_a_log_that_lost_its_tail_is_not_believed)
{
    append(4, 5);
    let_feed_through();
    roomlog_mem_lose_tail(mem, STR("red"), 2); /* the feed doesn't know it yet */
    turn();
    join_after(a, 4);
    let_page_through(); /* where does the log stand? */
    ck_heard(a, "");
    let_page_through();
    ck_heard(a, "resync ahead");
    let_page_through();
    ck_heard(a, "replayed 1-1; replayed 1-2");
    ck_assert_uint_eq(metrics.v[M_RING_HITS], 0);
}
END_TEST

START_TEST(a_feed_that_breaks_while_the_log_is_asked_sends_the_member_to_the_log)
{
    append(4, 5);
    let_feed_through();
    join_after(a, 4);
    let_page_be_read();
    roomlog_mem_lose_tail(mem, STR("red"), 2);
    let_feed_through();
    ck_assert(delayed_roomlog_answer(log_));
    ck_heard(a, "");
    let_page_through();
    ck_heard(a, "resync ahead");
    ck_assert_uint_eq(metrics.v[M_RING_HITS], 0);
}
END_TEST

/* Red's ring is empty, and begins at 1-5. */
START_TEST(the_page_of_the_first_who_comes_back_serves_the_others)
{
    join_after(a, 3);
    turn();
    join_after(b, 3);
    join_after(c, 4);
    turn();
    ck_heard(b, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
    ck_heard(c, "joined 1-4; head 1-5; oldest 1-1; complete; replayed 1-5; live 1-5 (1)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
    ck_assert_uint_eq(metrics.v[M_RING_HITS], 2);
}
END_TEST

START_TEST(the_third_who_comes_back_with_a_cursor_of_its_own_warms_the_ring)
{
    for (unsigned i = 0; i < 4; i++)
        join_after(&members[i], 1 + i);
    turn();
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(members[i].member.state, ROOM_MEMBER_LIVE);
    ck_heard(c, "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                "live 1-5 (2)");
    ck_assert_uint_eq(metrics.v[M_PAGES], 2);
    ck_assert_uint_eq(metrics.v[M_RING_WARMINGS], 1);
    ck_assert_uint_eq(metrics.v[M_RING_HITS], 4); /* the first two had a second page to come */
}
END_TEST

START_TEST(whoever_is_not_in_a_warmed_ring_reads_the_log)
{
    append_to("blue", 1, 2 * RING);
    replay_room_gone(&replay, rooms[1]);
    room_destroy(rooms[1]);
    const struct room_common common = {log_, &packets, &metrics, &rings};
    rooms[1] = room_create(STR("blue"), &common, &HOOKS, NULL);
    turn();
    for (unsigned i = 0; i < 5; i++)
        join_room(&members[i], 1, ROOMLOG_AFTER, 1 + i, 0);
    turn();
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(members[i].member.state, ROOM_MEMBER_LIVE);
    ck_assert_uint_eq(metrics.v[M_RING_WARMINGS], 1);
    ck_assert_uint_eq(members[4].entries, 2 * RING - 5);
    ck_assert_uint_ge(metrics.v[M_PAGES], 2 + 3);
}
END_TEST

START_TEST(a_warming_that_fails_refuses_only_joins)
{
    faulty_roomlog_set(log_, 3, FAULTY_ROOMLOG_ERROR, RD_EUNAVAIL);
    for (unsigned i = 0; i < 4; i++)
        join_after(&members[i], 1 + i);
    turn();
    ck_heard(c, "failed red: the log is not available");
    ck_heard(&members[3], "failed red: the log is not available");
    fake_loop_advance(&loop, RETRY_MAX_MS); /* who was answered already asks again */
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
    join_after(c, 1);
    turn();
    ck_assert_int_eq(c->member.state, ROOM_MEMBER_LIVE);
}
END_TEST

START_TEST(ten_thousand_members_with_cursors_of_their_own_cost_three_reads)
{
    enum { MANY = 10000 };
    rings.limits = (struct ring_limits){MANY, 16 << 20, 16 << 20};
    append(6, MANY);
    turn();
    while (ring_pool_evict(&rings))
        ; /* cold, and every entry in the log alone */
    struct fake_member *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (unsigned i = 0; i < MANY; i++) {
        fake_member_init(&crowd[i]);
        crowd[i].member.budget->max = 0;
        join_after(&crowd[i], MANY - 1 - i % 512);
    }
    turn();
    ck_assert_uint_le(metrics.v[M_PAGES] + metrics.v[M_RING_WARMINGS], 3);
    for (unsigned i = 0; i < MANY; i++) {
        ck_assert_int_eq(crowd[i].member.state, ROOM_MEMBER_LIVE);
        ck_assert_uint_eq(crowd[i].entries, 1 + i % 512);
        leave(&crowd[i]);
        fake_member_fini(&crowd[i]);
    }
    free(crowd);
}
END_TEST

/* --- slices --------------------------------------------------------------------------------- */

START_TEST(a_crowd_is_served_in_slices_and_others_in_between)
{
    enum { MANY = 1000, SLICE = 192 };
    struct fake_member *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    append_to("blue", 1, 3);
    turn();
    for (int i = 0; i < MANY; i++) {
        fake_member_init(&crowd[i]);
        join_after(&crowd[i], 3);
    }
    join_room(a, 1, ROOMLOG_AFTER, 1, 0);
    size_t live_before = 0;
    size_t turns = 0;
    bool a_is_live = false;
    while (fake_loop_step(&loop)) {
        size_t live = 0;
        for (int i = 0; i < MANY; i++)
            live += crowd[i].member.state == ROOM_MEMBER_LIVE;
        ck_assert_uint_le(live - live_before, SLICE);
        turns += live != live_before;
        live_before = live;
        if (a->member.state == ROOM_MEMBER_LIVE && !a_is_live) {
            a_is_live = true;
            ck_assert_uint_le(live, 2 * SLICE);
        }
    }
    ck_assert_uint_eq(live_before, MANY);
    ck_assert_uint_ge(turns, MANY / SLICE);
    for (int i = 0; i < MANY; i++) {
        leave(&crowd[i]);
        fake_member_fini(&crowd[i]);
    }
    free(crowd);
}
END_TEST

START_TEST(whoever_leaves_between_two_slices_is_sent_nothing)
{
    enum { MANY = 300 };
    struct fake_member *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (int i = 0; i < MANY; i++) {
        fake_member_init(&crowd[i]);
        join_after(&crowd[i], 3);
    }
    while (crowd[0].member.state != ROOM_MEMBER_LIVE)
        ck_assert(fake_loop_step(&loop));
    ck_assert_int_eq(crowd[MANY - 1].member.state, ROOM_MEMBER_REPLAYING);
    for (int i = 0; i < MANY; i++)
        leave(&crowd[i]);
    turn();
    ck_heard(&crowd[MANY - 1], "");
    ck_assert_uint_eq(replay.fetches.in_flight, 0);
    for (int i = 0; i < MANY; i++)
        fake_member_fini(&crowd[i]);
    free(crowd);
}
END_TEST

START_TEST(a_feed_that_breaks_between_two_slices_sends_the_rest_to_the_log_again)
{
    enum { MANY = 1000 };
    struct fake_member *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (int i = 0; i < MANY; i++) {
        fake_member_init(&crowd[i]);
        join_after(&crowd[i], 3);
    }
    while (crowd[0].member.state != ROOM_MEMBER_LIVE)
        ck_assert(fake_loop_step(&loop));
    roomlog_mem_lose_tail(mem, STR("red"), 1);
    turn();
    ck_heard(&crowd[0], "joined 1-3; head 1-5; oldest 1-1; complete; replayed 1-4; replayed 1-5; "
                        "live 1-5 (2); resync ahead; replayed 1-1; replayed 1-2; replayed 1-3; "
                        "replayed 1-4; live 1-4 (4)");
    ck_heard(&crowd[MANY - 1],
             "joined 1-3; head 1-4; oldest 1-1; complete; replayed 1-4; live 1-4 (1)");
    for (int i = 0; i < MANY; i++) {
        leave(&crowd[i]);
        fake_member_fini(&crowd[i]);
    }
    free(crowd);
}
END_TEST

/* --- snapshots ------------------------------------------------------------------------------ */

static void on_set(struct roomlog_append *asked, enum rd_err err, struct stream_id id,
                   bool duplicate)
{
    ck_assert_int_eq(err, RD_OK);
}

/* Publishes to red, so that key is in its state, under 2-n for the nth such. */
static void set(const char *key, const char *data)
{
    const struct roomlog_publish what = {
        .type = STR("t"), .data = str_from(data), .key = str_from(key)};
    struct roomlog_append asked = {.done = on_set};
    fake_loop_set_wall(&loop, 2);
    ck_assert_int_eq(roomlog_append(mem, STR("red"), &what, &asked), RD_OK);
    turn();
}

static void joins_with_state(struct fake_member *fake, enum roomlog_from from, unsigned after,
                             uint32_t newest)
{
    fake->state = true;
    join(fake, from, after, newest);
}

#define SNAPSHOT(id, entries)                                                                      \
    "snapshot {\"op\":\"snapshot\",\"room\":\"red\",\"id\":" id ",\"entries\":[" entries "]}"
#define ITEM(id, key) "{\"id\":\"" id "\",\"type\":\"t\",\"key\":\"" key "\",\"data\":1}"

static void add_plain(uint64_t ms, uint64_t seq)
{
    const struct roomlog_publish what = {.type = STR("t"), .data = STR("1")};
    ck_assert(roomlog_mem_add(mem, STR("red"), (struct stream_id){ms, seq}, &what));
}

/* Red: 1-1 to 1-5, then a (2-0) and b (2-1), then one without a key (3-1). */
static void fill_state(void)
{
    set("a", "1");
    set("b", "1");
    add_plain(3, 1);
    turn();
}

#define HEAD_3_1 "head 3-1; oldest 1-1; complete"
#define BOTH ITEM("2-0", "a") "," ITEM("2-1", "b")

START_TEST(a_fresh_start_with_state_is_the_snapshot_and_what_came_after_it)
{
    fill_state();
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a,
             "joined -; " HEAD_3_1 "; " SNAPSHOT("\"2-1\"", BOTH) "; replayed 3-1; live 3-1 (1)");
    ck_assert_uint_eq(metrics.v[M_STATES], 1);
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
    ck_assert_uint_eq(metrics.v[M_SNAPSHOTS], 1);
    add_plain(3, 2);
    turn();
    ck_heard(a, "entry 3-2");
}
END_TEST

START_TEST(only_what_is_new_with_state_is_the_same)
{
    fill_state();
    joins_with_state(a, ROOMLOG_HEAD, 0, 0);
    turn();
    ck_heard(a,
             "joined -; " HEAD_3_1 "; " SNAPSHOT("\"2-1\"", BOTH) "; replayed 3-1; live 3-1 (1)");
}
END_TEST

START_TEST(a_cursor_that_holds_needs_no_snapshot)
{
    fill_state();
    joins_with_state(a, ROOMLOG_AFTER, 5, 0);
    turn();
    ck_heard(a, "joined 1-5; " HEAD_3_1 "; replayed 2-0; replayed 2-1; replayed 3-1; live 3-1 (3)");
    ck_assert_uint_eq(metrics.v[M_STATES], 0);
}
END_TEST

START_TEST(one_that_does_not_hold_is_a_resync_and_the_snapshot)
{
    fill_state();
    roomlog_mem_trim(mem, STR("red"), 3);
    joins_with_state(a, ROOMLOG_AFTER, 1, 0);
    turn();
    ck_heard(a, "resync trimmed; " SNAPSHOT("\"2-1\"", BOTH) "; replayed 3-1; live 3-1 (1)");
}
END_TEST

START_TEST(whoever_did_not_ask_for_the_state_gets_what_is_retained_after_a_resync)
{
    fill_state();
    roomlog_mem_trim(mem, STR("red"), 2);
    join_after(a, 1);
    turn();
    ck_heard(a, "resync trimmed; replayed 2-1; replayed 3-1; live 3-1 (2)");
    ck_assert_uint_eq(metrics.v[M_STATES], 0);
}
END_TEST

#define WITH_NEWEST_2                                                                              \
    "joined -; " HEAD_3_1 "; " SNAPSHOT("null", BOTH) "; replayed 2-1; replayed 3-1; live 3-1 (2)"

START_TEST(the_newest_follow_a_snapshot_without_a_place)
{
    fill_state();
    joins_with_state(a, ROOMLOG_NEWEST, 0, 2);
    turn();
    ck_heard(a, WITH_NEWEST_2);
}
END_TEST

START_TEST(a_resync_of_a_member_with_last_is_a_snapshot_without_a_place_and_the_newest)
{
    fill_state();
    roomlog_mem_trim(mem, STR("red"), 3);
    joins_with_state(a, ROOMLOG_AFTER, 1, 1);
    turn();
    ck_heard(a, "resync trimmed; " SNAPSHOT("null", BOTH) "; replayed 3-1; live 3-1 (1)");
}
END_TEST

START_TEST(a_state_whose_place_was_trimmed_comes_before_all_that_is_retained)
{
    fill_state();
    add_plain(3, 2);
    add_plain(3, 3);
    roomlog_mem_trim(mem, STR("red"), 2);
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "joined -; head 3-3; oldest 3-2; cut; " SNAPSHOT(
                    "null", BOTH) "; replayed 3-2; "
                                  "replayed 3-3; live 3-3 (2)");
}
END_TEST

START_TEST(with_only_what_is_new_such_a_state_comes_before_nothing)
{
    fill_state();
    add_plain(3, 2);
    roomlog_mem_trim(mem, STR("red"), 1);
    joins_with_state(a, ROOMLOG_HEAD, 0, 0);
    turn();
    ck_heard(a, "joined -; head 3-2; oldest 3-2; cut; " SNAPSHOT("null", BOTH) "; live 3-2 (0)");
}
END_TEST

START_TEST(a_room_without_a_state_has_an_empty_snapshot)
{
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(
        a, "joined -; head 1-5; oldest 1-1; complete; " SNAPSHOT(
               "null", "") "; replayed 1-1; "
                           "replayed 1-2; replayed 1-3; replayed 1-4; replayed 1-5; live 1-5 (5)");
}
END_TEST

START_TEST(a_key_that_was_taken_out_is_not_in_the_snapshot)
{
    set("a", "1");
    set("b", "1");
    set("a", "null");
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "joined -; head 2-2; oldest 1-1; complete; " SNAPSHOT(
                    "\"2-2\"", ITEM("2-1", "b")) "; live 2-2 (0)");
}
END_TEST

START_TEST(what_comes_while_the_state_is_read_follows_it)
{
    fill_state();
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    while (metrics.v[M_PAGES] == 0) /* the state is read, and its page asked for */
        ck_assert(fake_loop_step(&loop));
    add_plain(4, 1);
    turn();
    add_plain(4, 2);
    turn();
    ck_heard(a, "joined -; head 4-1; oldest 1-1; complete; " SNAPSHOT(
                    "\"2-1\"", BOTH) "; "
                                     "replayed 3-1; replayed 4-1; live 4-1 (2); entry 4-2");
}
END_TEST

START_TEST(a_state_is_read_once_and_encoded_once_for_all_who_wait)
{
    enum { MANY = 1000 };
    fill_state();
    struct fake_member *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (int i = 0; i < MANY; i++) {
        fake_member_init(&crowd[i]);
        joins_with_state(&crowd[i], ROOMLOG_ALL, 0, 0);
    }
    turn();
    ck_assert_uint_eq(metrics.v[M_STATES], 1);
    ck_assert_uint_eq(metrics.v[M_PAGES], 1);
    ck_assert_uint_eq(metrics.v[M_SNAPSHOTS], MANY);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(crowd[i].member.state, ROOM_MEMBER_LIVE);
        leave(&crowd[i]);
        fake_member_fini(&crowd[i]);
    }
    free(crowd);
}
END_TEST

START_TEST(whoever_may_not_read_gets_the_snapshot_later)
{
    fill_state();
    a->may_read_times = 3; /* when it wants it, and when the state and the page are asked for */
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_heard(a, "");
    a->may_read = true;
    replay_resume(&replay, &a->member);
    turn();
    ck_heard(a,
             "joined -; " HEAD_3_1 "; " SNAPSHOT("\"2-1\"", BOTH) "; replayed 3-1; live 3-1 (1)");
}
END_TEST

START_TEST(whoever_leaves_while_the_state_is_read_hears_nothing)
{
    fill_state();
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    while (metrics.v[M_STATES] == 0)
        ck_assert(fake_loop_step(&loop));
    leave(a);
    turn();
    ck_heard(a, "");
    ck_assert_uint_eq(replay.fetches.in_flight, 0);
}
END_TEST

/* _i: a way to fail. The first call is the state's, the second the page's. */
START_TEST(a_state_that_can_not_be_read_fails_the_join)
{
    fill_state();
    for (unsigned nth = 1; nth <= 2; nth++) {
        faulty_roomlog_set(log_, nth, (enum faulty_roomlog_fault)_i, RD_EUNAVAIL);
        joins_with_state(a, ROOMLOG_ALL, 0, 0);
        turn();
        ck_assert(faulty_roomlog_struck(log_));
        ck_heard(a, "failed red: the log is not available");
        ck_assert_int_eq(a->member.state, ROOM_MEMBER_OUT);
    }
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    turn();
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_LIVE);
}
END_TEST

START_TEST(a_state_that_can_not_be_read_after_a_resync_is_asked_for_again)
{
    fill_state();
    roomlog_mem_trim(mem, STR("red"), 3);
    joins_with_state(a, ROOMLOG_AFTER, 1, 0);
    faulty_roomlog_set(log_, 2, FAULTY_ROOMLOG_ERROR, RD_ETIMEDOUT);
    turn();
    ck_heard(a, "resync trimmed");
    fake_loop_advance(&loop, RETRY_MAX_MS);
    ck_heard(a, SNAPSHOT("\"2-1\"", BOTH) "; replayed 3-1; live 3-1 (1)");
}
END_TEST

/* _i: which of the page and the state. */
START_TEST(a_busy_log_is_asked_for_page_and_state_again)
{
    fill_state();
    joins_with_state(a, ROOMLOG_NEWEST, 0, 2);
    faulty_roomlog_set(log_, (unsigned)_i, FAULTY_ROOMLOG_REFUSED, RD_EBUSY);
    turn();
    ck_assert(faulty_roomlog_struck(log_));
    ck_heard(a, _i == 1 ? "" : WITH_NEWEST_2);
    fake_loop_advance(&loop, BUSY_MS);
    ck_heard(a, _i == 1 ? WITH_NEWEST_2 : "");
    ck_assert_uint_eq(replay.fetches.in_flight, 0);
}
END_TEST

/* What has a key and is published between the two reads must not be in neither. */
START_TEST(what_is_published_between_the_newest_and_the_state_is_in_the_state)
{
    fill_state();
    joins_with_state(a, ROOMLOG_NEWEST, 0, 1);
    while (metrics.v[M_PAGES] == 0) /* the page is asked for, and the state will be when it comes */
        ck_assert(fake_loop_step(&loop));
    set("c", "1");
    turn();
    ck_heard(a, "joined -; " HEAD_3_1 "; " SNAPSHOT(
                    "null", BOTH "," ITEM("3-2", "c")) "; "
                                                       "replayed 3-1; live 3-1 (1); entry 3-2");
}
END_TEST

START_TEST(the_state_of_a_log_that_is_no_more_is_void)
{
    fill_state();
    joins_with_state(a, ROOMLOG_ALL, 0, 0);
    while (metrics.v[M_PAGES] == 0)
        ck_assert(fake_loop_step(&loop));
    roomlog_mem_reset(mem, STR("red"));
    add_plain(9, 1);
    turn();
    ck_heard(a, "joined -; head 9-1; oldest 9-1; complete; " SNAPSHOT("null", "") "; replayed 9-1; "
                                                                                  "live 9-1 (1)");
}
END_TEST

static TCase *case_make(Suite *suite, const char *name, SFun setup, SFun teardown)
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, setup, teardown);
    suite_add_tcase(suite, tc);
    return tc;
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("replay");
    TCase *tc = case_make(suite, "walk", make, take_down);
    tcase_add_test(tc, a_fresh_start_is_sent_all_that_is_retained_page_by_page);
    tcase_add_test(tc, a_cursor_is_honoured_with_what_came_after_it);
    tcase_add_test(tc, a_cursor_at_the_head_is_live_at_once);
    tcase_add_test(tc, the_newest_come_in_one_page_however_small_a_page_is);
    tcase_add_test(tc, only_what_is_new_begins_at_the_head);
    tcase_add_test(tc, an_empty_room_is_live_at_0_0);
    tcase_add_test(tc, a_cursor_that_can_not_be_honoured_is_told_and_starts_afresh);
    tcase_add_test(tc, newest_bounds_the_fresh_start_after_a_resync_now_and_later);
    tcase_add_test(tc, a_live_member_whose_log_is_lost_is_told_and_goes_live_again);
    tcase_add_test(tc, a_live_member_that_had_to_read_again_goes_on_without_a_word);

    tc = case_make(suite, "pace", make, take_down);
    tcase_add_test(tc, the_next_page_is_asked_for_only_when_the_member_may_read);
    tcase_add_test(tc, a_page_is_not_asked_for_whose_member_may_not_read_any_more);
    tcase_add_test(tc, a_slow_member_holds_nobody_else_up);
    tcase_add_test(tc, what_spilled_is_read_from_the_log);
    tcase_add_test(tc, resuming_is_harmless_for_a_member_that_waits_for_something_else);

    tc = case_make(suite, "seam", make_delayed, take_down_delayed);
    tcase_add_test(tc, what_came_while_the_page_was_under_way_follows_it);
    tcase_add_test(tc, what_both_the_page_and_the_feed_brought_is_sent_once);
    tcase_add_test(tc, what_the_feed_brings_after_the_page_had_it_is_dropped);
    tcase_add_test(tc, what_spilled_while_a_page_was_under_way_takes_another_page);
    tcase_add_test(tc, a_list_that_begins_above_a_gap_takes_another_page);
    tcase_add_test(tc, the_pending_list_may_chain_before_the_page_reaches_the_end);
    tcase_add_test(tc, a_page_that_reached_the_end_covers_what_the_feed_had_shown_and_is_deleted);
    tcase_add_test(tc, a_page_of_before_the_feed_broke_is_thrown_away);
    tcase_add_test(tc, a_read_of_before_the_feed_broke_is_not_shared_with_one_after);
    tcase_add_test(tc, a_join_does_not_share_a_page_that_tells_nothing_of_the_log);
    tcase_add_test(tc, whoever_leaves_during_a_fetch_hears_nothing_and_the_read_is_cancelled);
    tcase_add_test(tc, whoever_leaves_before_the_read_is_asked_leaves_nothing_behind);
    tcase_add_test(tc, a_read_goes_on_while_anybody_waits_for_it);
    tcase_add_test(tc, only_the_later_of_two_joins_is_answered);
    tcase_add_test(tc, a_live_member_may_begin_again);

    tc = case_make(suite, "in flight", make_delayed, take_down_delayed);
    tcase_add_test(tc, no_more_than_in_flight_pages_are_being_read_for_the_whole_node);
    tcase_add_test(tc, pages_are_read_for_the_rooms_in_turn);
    tcase_add_test(tc, a_page_that_nobody_waits_for_any_more_makes_way_for_the_next);

    tc = case_make(suite, "shared", make, take_down);
    tcase_add_test(tc, ten_thousand_members_that_come_back_at_once_cost_one_read);
    tcase_add_test(tc, a_page_is_encoded_once_for_all_who_share_it);
    tcase_add_test(tc, only_equal_reads_are_shared);

    tc = case_make(suite, "ring", make_with_rings, take_down);
    tcase_add_test(tc, a_cursor_in_the_ring_is_served_without_reading_the_log);
    tcase_add_test(tc, the_place_where_the_feed_began_is_in_the_ring);
    tcase_add_test(tc, a_cursor_before_the_ring_is_read_from_the_log);
    tcase_add_test(tc, a_live_member_that_could_not_be_given_an_entry_resumes_from_the_ring);
    tcase_add_test(tc, whoever_may_not_read_is_not_served_from_the_ring_either);
    tcase_add_test(tc, what_is_sent_from_the_ring_at_a_time_is_bounded_as_a_page_is);
    tcase_add_test(tc, what_was_deleted_is_not_shown_to_whoever_joins);
    tcase_add_test(tc, the_page_of_the_first_who_comes_back_serves_the_others);
    tcase_add_test(tc, the_third_who_comes_back_with_a_cursor_of_its_own_warms_the_ring);
    tcase_add_test(tc, whoever_is_not_in_a_warmed_ring_reads_the_log);
    tcase_add_test(tc, a_warming_that_fails_refuses_only_joins);
    tcase_add_test(tc, ten_thousand_members_with_cursors_of_their_own_cost_three_reads);

    tc = case_make(suite, "ring and seam", make_delayed_with_rings, take_down_delayed);
    tcase_add_test(tc, a_ring_that_is_evicted_meanwhile_is_replaced_by_the_log);
    tcase_add_test(tc, what_the_feed_brought_while_the_log_was_asked_is_served_with_the_rest);
    tcase_add_test(tc, the_ring_of_a_log_that_lost_its_tail_is_not_believed);
    tcase_add_test(tc, a_feed_that_breaks_while_the_log_is_asked_sends_the_member_to_the_log);

    tc = case_make(suite, "slices", make, take_down);
    tcase_add_test(tc, a_crowd_is_served_in_slices_and_others_in_between);
    tcase_add_test(tc, whoever_leaves_between_two_slices_is_sent_nothing);
    tcase_add_test(tc, a_feed_that_breaks_between_two_slices_sends_the_rest_to_the_log_again);

    tc = case_make(suite, "snapshots", make, take_down);
    tcase_add_test(tc, a_fresh_start_with_state_is_the_snapshot_and_what_came_after_it);
    tcase_add_test(tc, only_what_is_new_with_state_is_the_same);
    tcase_add_test(tc, a_cursor_that_holds_needs_no_snapshot);
    tcase_add_test(tc, one_that_does_not_hold_is_a_resync_and_the_snapshot);
    tcase_add_test(tc, whoever_did_not_ask_for_the_state_gets_what_is_retained_after_a_resync);
    tcase_add_test(tc, the_newest_follow_a_snapshot_without_a_place);
    tcase_add_test(tc, a_resync_of_a_member_with_last_is_a_snapshot_without_a_place_and_the_newest);
    tcase_add_test(tc, a_state_whose_place_was_trimmed_comes_before_all_that_is_retained);
    tcase_add_test(tc, with_only_what_is_new_such_a_state_comes_before_nothing);
    tcase_add_test(tc, a_room_without_a_state_has_an_empty_snapshot);
    tcase_add_test(tc, a_key_that_was_taken_out_is_not_in_the_snapshot);
    tcase_add_test(tc, what_comes_while_the_state_is_read_follows_it);
    tcase_add_test(tc, a_state_is_read_once_and_encoded_once_for_all_who_wait);
    tcase_add_test(tc, whoever_may_not_read_gets_the_snapshot_later);
    tcase_add_test(tc, whoever_leaves_while_the_state_is_read_hears_nothing);
    tcase_add_loop_test(tc, a_state_that_can_not_be_read_fails_the_join, FAULTY_ROOMLOG_REFUSED,
                        FAULTY_ROOMLOG_ERROR + 1);
    tcase_add_test(tc, a_state_that_can_not_be_read_after_a_resync_is_asked_for_again);
    tcase_add_loop_test(tc, a_busy_log_is_asked_for_page_and_state_again, 1, 3);
    tcase_add_test(tc, what_is_published_between_the_newest_and_the_state_is_in_the_state);
    tcase_add_test(tc, the_state_of_a_log_that_is_no_more_is_void);

    tc = case_make(suite, "failures", make, take_down);
    tcase_add_test(tc, a_busy_log_is_asked_again);
    tcase_add_loop_test(tc, a_join_that_the_log_can_not_answer_fails_and_the_member_is_out,
                        FAULTY_ROOMLOG_REFUSED, FAULTY_ROOMLOG_ERROR + 1);
    tcase_add_loop_test(
        tc, a_page_that_fails_after_the_join_was_answered_is_asked_for_again_until_it_comes,
        FAULTY_ROOMLOG_REFUSED, FAULTY_ROOMLOG_ERROR + 1);
    tcase_add_loop_test(tc, a_page_that_will_never_come_takes_the_member_out_even_in_mid_life, 0,
                        sizeof(FINAL) / sizeof(FINAL[0]));
    tcase_add_test(tc, a_member_may_be_freed_when_it_is_told_that_it_failed);
    tcase_add_test(tc, whoever_leaves_while_it_waits_to_try_again_leaves_nothing_behind);
    tcase_add_test(tc, a_rejoin_does_not_wait_for_the_retry);

    tc = case_make(suite, "before the start", make_held, take_down);
    tcase_add_test(tc, no_page_is_asked_for_before_the_feed_holds);
    tcase_add_test(tc, a_join_fails_where_the_feed_does_not_start_in_time);
    tcase_add_test(tc, whoever_leaves_before_the_feed_starts_hears_nothing);
    tcase_add_test(tc, a_rejoin_before_the_feed_starts_counts_alone);
    return suite;
}
