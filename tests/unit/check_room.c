#include "room/room.h"

#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/fake_member.h"
#include "tests/lib/suite.h"

#include <stdio.h>

enum { MEMBERS = 3 };

static struct fake_loop loop;
static struct metrics metrics;
static struct packet_account packets;
static struct ring_pool rings;
static struct roomlog *log_;
static struct room *room;
static struct fake_member members[MEMBERS];
static struct fake_member *const a = &members[0];
static struct fake_member *const b = &members[1];
static char hooks[256]; /* what the room told those who listen to it */

static void on_started(struct room *of, void *arg)
{
    ck_assert_ptr_eq(arg, hooks);
    ck_assert_ptr_eq(of, room);
    strcat(hooks, "started;");
}

static void on_behind(struct room *of, struct room_member *member, void *arg)
{
    ck_assert_ptr_eq(of, room);
    ck_assert_int_eq(member->state, ROOM_MEMBER_REPLAYING);
    strcat(hooks, member == &a->member ? "behind a;" : "behind b;");
}

static void on_emptied(struct room *of, void *arg)
{
    ck_assert_ptr_eq(of, room);
    strcat(hooks, "emptied;");
}

static const struct room_hooks HOOKS = {on_started, on_behind, on_emptied};

static void append(unsigned n)
{
    const struct roomlog_publish what = {.type = STR("t"), .data = STR("1")};
    ck_assert(roomlog_mem_add(log_, STR("red"), (struct stream_id){1, n}, &what));
}

static void open_room(void)
{
    const struct room_common common = {log_, &packets, &metrics, &rings};
    room = room_create(STR("red"), &common, &HOOKS, hooks);
    fake_loop_turn(&loop);
}

/* With entries 1-1 and 1-2 in its log. */
static void make(void)
{
    metrics = (struct metrics){0};
    hooks[0] = '\0';
    fake_loop_init(&loop, 1);
    const struct roomlog_mem_limits limits = {
        .max_entries = 1000, .max_bytes = 1 << 20, .max_rooms = 8, .max_in_flight = 8};
    log_ = roomlog_mem_create(&loop.loop, &metrics, &limits);
    ring_pool_init(&rings, &(struct ring_limits){0}, &metrics);
    append(1);
    append(2);
    for (int i = 0; i < MEMBERS; i++)
        fake_member_init(&members[i]);
    open_room();
}

static void take_down(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        if (members[i].member.state != ROOM_MEMBER_OUT)
            room_exit(&members[i].member);
        fake_member_fini(&members[i]);
    }
    ck_assert_uint_eq(metrics.v[M_MEMBERS], 0);
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 0);
    room_destroy(room);
    ck_assert_uint_eq(metrics.v[M_ROOMS], 0);
    ck_assert_uint_eq(packets.count, 0);
    roomlog_close(log_);
    fake_loop_turn(&loop);
    fake_loop_fini(&loop);
}

static const char *told(void)
{
    static char copy[sizeof(hooks)];
    memcpy(copy, hooks, sizeof(copy));
    hooks[0] = '\0';
    return copy;
}

/* As a replay would, once the member was sent all up to 1-last. */
static void go_live(struct fake_member *fake, unsigned last)
{
    room_enter(room, &fake->member);
    fake->member.last = (struct stream_id){1, last};
    room_go_live(&fake->member);
}

static void append_and_turn(unsigned first, unsigned last)
{
    for (unsigned n = first; n <= last; n++)
        append(n);
    fake_loop_turn(&loop);
}

static uint64_t first_pending(const struct fake_member *fake)
{
    const struct packet *p = pending_front(&fake->member.pending);
    return p == NULL ? 0 : p->id.seq;
}

START_TEST(a_room_follows_its_log_from_the_moment_it_opens)
{
    ck_assert_str_eq(told(), "started;");
    ck_assert(room->started);
    ck_assert(stream_id_eq(room->position, (struct stream_id){1, 2}));
    append_and_turn(3, 4);
    ck_assert(stream_id_eq(room->position, (struct stream_id){1, 4}));
    ck_assert_uint_eq(metrics.v[M_ENTRIES_LIVE], 2);
    ck_assert_uint_eq(metrics.v[M_ROOMS], 1);
    ck_assert(str_eq(room_name(room), STR("red")));
}
END_TEST

START_TEST(a_live_member_gets_each_entry_as_it_comes)
{
    go_live(a, 2);
    append_and_turn(3, 4);
    ck_assert_str_eq(fake_member_heard(a), "entry 1-3; entry 1-4");
    ck_assert(stream_id_eq(a->member.last, (struct stream_id){1, 4}));
}
END_TEST

START_TEST(a_member_that_replays_holds_live_entries_from_the_moment_it_entered)
{
    room_enter(room, &a->member);
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_REPLAYING);
    append_and_turn(3, 4);
    ck_assert_str_eq(fake_member_heard(a), "");
    ck_assert_uint_eq(first_pending(a), 3);
    ck_assert_uint_eq(a->member.pending.count, 2);
}
END_TEST

START_TEST(an_entry_is_encoded_once_for_all_members)
{
    room_enter(room, &a->member);
    room_enter(room, &b->member);
    append_and_turn(3, 3);
    ck_assert_uint_eq(packets.count, 1);
    ck_assert_ptr_eq(pending_front(&a->member.pending), pending_front(&b->member.pending));
}
END_TEST

START_TEST(an_entry_that_a_live_member_was_sent_already_is_dropped)
{
    go_live(a, 4);
    append_and_turn(3, 5);
    ck_assert_str_eq(fake_member_heard(a), "entry 1-5");
    ck_assert_uint_eq(metrics.v[M_CHAIN_BREAKS], 0);
}
END_TEST

START_TEST(an_entry_that_does_not_chain_sends_a_live_member_back_to_reading)
{
    go_live(a, 1); /* its log had no 1-2 */
    go_live(b, 2);
    (void)told();
    append_and_turn(3, 4);
    ck_assert_str_eq(told(), "behind a;");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_REPLAYING);
    ck_assert_str_eq(fake_member_heard(a), "");
    ck_assert_uint_eq(first_pending(a), 3); /* and it holds that entry, and those after it */
    ck_assert_uint_eq(a->member.pending.count, 2);
    ck_assert_uint_eq(metrics.v[M_CHAIN_BREAKS], 1);
    ck_assert_str_eq(fake_member_heard(b), "entry 1-3; entry 1-4");
}
END_TEST

START_TEST(more_entries_than_a_batch_reach_every_member_in_order)
{
    enum { MANY = 300 };
    struct roomlog_entry entries[MANY];
    for (unsigned i = 0; i < MANY; i++)
        entries[i] = (struct roomlog_entry){
            .id = {1, 3 + i}, .prev = {1, 2 + i}, .prev_known = true, .data = STR("1")};
    go_live(a, 2);
    go_live(b, 2);
    room->follower.ops->entries(&room->follower, entries, MANY);
    ck_assert_uint_eq(a->entries, MANY);
    ck_assert_uint_eq(b->entries, MANY);
    ck_assert_uint_eq(a->member.last.seq, 2 + MANY);
    ck_assert(stream_id_eq(room->position, (struct stream_id){1, 2 + MANY}));
    ck_assert_uint_eq(metrics.v[M_ENTRIES_LIVE], MANY);
    ck_assert_uint_eq(metrics.v[M_CHAIN_BREAKS], 0); /* so each came after the one before it */
}
END_TEST

START_TEST(a_list_that_would_pass_its_budget_spills_and_is_counted)
{
    room_enter(room, &a->member);
    append_and_turn(3, 3);
    a->budget.max = a->budget.bytes; /* full */
    append_and_turn(4, 4);
    ck_assert_uint_eq(first_pending(a), 0);
    ck_assert_uint_eq(metrics.v[M_PENDING_SPILLS], 1);
    append_and_turn(5, 5);
    ck_assert_uint_eq(first_pending(a), 5);
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_REPLAYING);
}
END_TEST

START_TEST(a_broken_feed_sends_every_live_member_back_to_reading)
{
    go_live(a, 2);
    (void)told();
    uint64_t epoch = room->epoch;
    append_and_turn(3, 4);
    roomlog_mem_lose_tail(log_, STR("red"), 2);
    fake_loop_turn(&loop);
    ck_assert_str_eq(told(), "behind a;");
    ck_assert_uint_gt(room->epoch, epoch);
    ck_assert(stream_id_eq(room->position, (struct stream_id){1, 2})); /* it may go back */
    ck_assert_uint_eq(metrics.v[M_FEED_BREAKS], 1);
}
END_TEST

START_TEST(a_broken_feed_empties_pending_lists_for_they_are_of_the_log_before)
{
    room_enter(room, &a->member);
    (void)told();
    append_and_turn(3, 4);
    roomlog_mem_reset(log_, STR("red"));
    fake_loop_turn(&loop);
    ck_assert_uint_eq(first_pending(a), 0);
    ck_assert_str_eq(told(), ""); /* it reads already */
    ck_assert_uint_eq(a->budget.bytes, 0);
}
END_TEST

START_TEST(the_room_says_so_when_its_last_member_has_left)
{
    room_enter(room, &a->member);
    room_enter(room, &b->member);
    ck_assert_uint_eq(room->member_count, 2);
    ck_assert_uint_eq(metrics.v[M_MEMBERS], 2);
    (void)told();
    room_exit(&a->member);
    ck_assert_str_eq(told(), "");
    room_exit(&b->member);
    ck_assert_str_eq(told(), "emptied;");
    ck_assert_ptr_null(b->member.room);
    ck_assert_uint_eq(metrics.v[M_MEMBERS], 0);
}
END_TEST

START_TEST(whoever_left_hears_nothing_more_and_its_list_is_gone)
{
    go_live(a, 2);
    room_enter(room, &b->member);
    append_and_turn(3, 3);
    room_exit(&a->member);
    room_exit(&b->member);
    ck_assert_uint_eq(b->budget.bytes, 0);
    ck_assert_uint_eq(packets.count, 0);
    append_and_turn(4, 4);
    ck_assert_str_eq(fake_member_heard(a), "entry 1-3");
    ck_assert_uint_eq(first_pending(b), 0);
}
END_TEST

START_TEST(a_restart_empties_the_list_and_replays_from_either_state)
{
    go_live(a, 2);
    room_restart(&a->member);
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_REPLAYING);
    append_and_turn(3, 3);
    ck_assert_uint_eq(first_pending(a), 3);
    room_restart(&a->member);
    ck_assert_uint_eq(first_pending(a), 0);
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 1);
}
END_TEST

START_TEST(the_gauge_of_members_that_replay_follows_their_states)
{
    room_enter(room, &a->member);
    room_enter(room, &b->member);
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 2);
    a->member.last = (struct stream_id){1, 1};
    room_go_live(&a->member);
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 1);
    append_and_turn(3, 3); /* doesn't chain */
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 2);
    room_exit(&a->member);
    ck_assert_uint_eq(metrics.v[M_REPLAYING], 1);
}
END_TEST

START_TEST(a_live_entry_that_is_refused_is_left_to_the_log)
{
    go_live(a, 2);
    a->refuses = true;
    append_and_turn(3, 3);
    ck_assert_str_eq(fake_member_heard(a), "");
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_REPLAYING);
    ck_assert(stream_id_eq(a->member.last, (struct stream_id){1, 2}));
    ck_assert_uint_eq(metrics.v[M_CHAIN_BREAKS], 0);
}
END_TEST

START_TEST(a_signal_goes_to_every_member_but_its_sender)
{
    room_enter(room, &a->member); /* not answered yet: it hears of no signal before joined */
    go_live(b, 2);
    go_live(&members[2], 2);
    b->member.replay.answered = true;
    members[2].member.replay.answered = true;
    struct packet *p = packet_text(&packets, STR("hi"));
    room_signal(room, &b->member, p);
    ck_assert_str_eq(fake_member_heard(a), "");
    a->member.replay.answered = true; /* whatever its state */
    room_signal(room, &b->member, p);
    ck_assert_str_eq(fake_member_heard(a), "signal hi");
    ck_assert_str_eq(fake_member_heard(b), "");
    ck_assert_str_eq(fake_member_heard(&members[2]), "signal hi; signal hi");
    room_signal(room, NULL, p);
    ck_assert_str_eq(fake_member_heard(b), "signal hi");
    packet_unref(p);
}
END_TEST

START_TEST(a_room_that_is_destroyed_follows_no_more)
{
    room_destroy(room);
    uint64_t reads = metrics.v[M_FEED_READS];
    append_and_turn(3, 3);
    ck_assert_uint_eq(metrics.v[M_FEED_READS], reads);
    ck_assert_uint_eq(metrics.v[M_ENTRIES_LIVE], 0);
    open_room();
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("room");
    TCase *tc = tcase_create("room");
    tcase_add_checked_fixture(tc, make, take_down);
    tcase_add_test(tc, a_room_follows_its_log_from_the_moment_it_opens);
    tcase_add_test(tc, a_live_member_gets_each_entry_as_it_comes);
    tcase_add_test(tc, a_member_that_replays_holds_live_entries_from_the_moment_it_entered);
    tcase_add_test(tc, an_entry_is_encoded_once_for_all_members);
    tcase_add_test(tc, an_entry_that_a_live_member_was_sent_already_is_dropped);
    tcase_add_test(tc, an_entry_that_does_not_chain_sends_a_live_member_back_to_reading);
    tcase_add_test(tc, more_entries_than_a_batch_reach_every_member_in_order);
    tcase_add_test(tc, a_list_that_would_pass_its_budget_spills_and_is_counted);
    tcase_add_test(tc, a_broken_feed_sends_every_live_member_back_to_reading);
    tcase_add_test(tc, a_broken_feed_empties_pending_lists_for_they_are_of_the_log_before);
    tcase_add_test(tc, the_room_says_so_when_its_last_member_has_left);
    tcase_add_test(tc, whoever_left_hears_nothing_more_and_its_list_is_gone);
    tcase_add_test(tc, a_restart_empties_the_list_and_replays_from_either_state);
    tcase_add_test(tc, the_gauge_of_members_that_replay_follows_their_states);
    tcase_add_test(tc, a_live_entry_that_is_refused_is_left_to_the_log);
    tcase_add_test(tc, a_signal_goes_to_every_member_but_its_sender);
    tcase_add_test(tc, a_room_that_is_destroyed_follows_no_more);
    suite_add_tcase(suite, tc);
    return suite;
}
