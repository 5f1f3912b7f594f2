#include "room/registry.h"

#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/fake_member.h"
#include "tests/lib/faulty_roomlog.h"
#include "tests/lib/suite.h"

enum { MAX_ROOMS = 3, MEMBERS = 4, LINGER_MS = 10000, START_LIMIT_MS = 3000 };

static struct fake_loop loop;
static struct metrics metrics;
static struct roomlog *mem;
static struct roomlog *log_;
static struct registry registry;
static struct fake_member members[MEMBERS];
static struct fake_member *const a = &members[0];
static struct fake_member *const b = &members[1];

static void make(void)
{
    metrics = (struct metrics){0};
    fake_loop_init(&loop, 1);
    const struct roomlog_mem_limits log_limits = {
        .max_entries = 100, .max_bytes = 1 << 20, .max_rooms = 8, .max_in_flight = 100};
    mem = roomlog_mem_create(&loop.loop, &metrics, &log_limits);
    log_ = faulty_roomlog_create(&loop.loop, mem);
    const struct registry_limits limits = {
        .max_rooms = MAX_ROOMS,
        .linger_ms = LINGER_MS,
        .ring = {.max_entries = 4, .max_bytes = 1 << 16, .total_bytes = 1 << 20},
        .replay = {.page_entries = 10,
                   .page_bytes = 65536,
                   .in_flight = 4,
                   .start_limit_ms = START_LIMIT_MS}};
    registry_init(&registry, &loop.loop, log_, &metrics, &limits);
    for (int i = 0; i < MEMBERS; i++)
        fake_member_init(&members[i]);
}

static void take_down(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        registry_leave(&registry, &members[i].member);
        fake_member_fini(&members[i]);
    }
    registry_fini(&registry);
    ck_assert_uint_eq(metrics.v[M_ROOMS], 0);
    roomlog_close(log_);
    fake_loop_turn(&loop);
    fake_loop_fini(&loop);
}

static const struct room_start ALL = {.from = ROOMLOG_ALL};

static enum rd_err join(struct fake_member *fake, const char *room)
{
    return registry_join(&registry, str_from(room), &fake->member, &ALL);
}

static void leave(struct fake_member *fake)
{
    registry_leave(&registry, &fake->member);
}

static struct room *find(const char *room)
{
    return registry_find(&registry, str_from(room));
}

static void append(const char *room, unsigned n)
{
    const struct roomlog_publish what = {.type = STR("t"), .data = STR("1")};
    ck_assert(roomlog_mem_add(mem, str_from(room), (struct stream_id){1, n}, &what));
}

START_TEST(the_first_join_opens_a_room_and_the_next_finds_it)
{
    ck_assert_ptr_null(find("red"));
    ck_assert_int_eq(join(a, "red"), RD_OK);
    struct room *room = find("red");
    ck_assert_ptr_nonnull(room);
    ck_assert_int_eq(join(b, "red"), RD_OK);
    ck_assert_ptr_eq(a->member.room, room);
    ck_assert_ptr_eq(b->member.room, room);
    ck_assert_uint_eq(metrics.v[M_ROOMS], 1);
    ck_assert_ptr_null(find("re"));
}
END_TEST

START_TEST(the_name_is_copied)
{
    char name[] = "red";
    ck_assert_int_eq(join(a, name), RD_OK);
    memset(name, 'x', 3);
    ck_assert_ptr_nonnull(find("red"));
}
END_TEST

START_TEST(a_join_replays_and_goes_live)
{
    append("red", 1);
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    append("red", 2);
    fake_loop_turn(&loop);
    ck_assert_str_eq(fake_member_heard(a), "joined -; head 1-1; oldest 1-1; complete; "
                                           "replayed 1-1; live 1-1 (1); entry 1-2");
}
END_TEST

START_TEST(a_live_member_that_fell_behind_reads_again)
{
    append("red", 1);
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    (void)fake_member_heard(a);
    a->member.last = STREAM_ID_ZERO; /* as if its page had not had 1-1 */
    append("red", 2);
    fake_loop_turn(&loop);
    ck_assert_str_eq(fake_member_heard(a), "replayed 1-1; replayed 1-2");
}
END_TEST

START_TEST(a_rejoin_begins_again)
{
    append("red", 1);
    append("red", 2);
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    (void)fake_member_heard(a);
    registry_rejoin(&registry, &a->member,
                    &(struct room_start){.from = ROOMLOG_AFTER, .after = {1, 1}});
    fake_loop_turn(&loop);
    ck_assert_str_eq(fake_member_heard(a), "joined 1-1; head 1-2; oldest 1-1; complete; "
                                           "replayed 1-2; live 1-2 (1)");
    ck_assert_uint_eq(metrics.v[M_MEMBERS], 1);
}
END_TEST

START_TEST(a_member_that_waits_for_its_socket_goes_on_when_resumed)
{
    a->may_read = false;
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    ck_assert_str_eq(fake_member_heard(a), "");
    a->may_read = true;
    registry_resume(&registry, &a->member);
    fake_loop_turn(&loop);
    ck_assert_str_eq(fake_member_heard(a), "joined -; head 0-0; oldest -; complete; live 0-0 (0)");
}
END_TEST

START_TEST(a_join_is_refused_while_the_log_is_away_and_opens_nothing)
{
    faulty_roomlog_set_ready(log_, false);
    ck_assert_int_eq(join(a, "red"), RD_EUNAVAIL);
    ck_assert_int_eq(a->member.state, ROOM_MEMBER_OUT);
    ck_assert_ptr_null(find("red"));
    faulty_roomlog_set_ready(log_, true);
    ck_assert_int_eq(join(a, "red"), RD_OK);
}
END_TEST

START_TEST(an_empty_room_stays_open_for_a_while_with_its_feed_running)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    leave(a);
    append("red", 1);
    fake_loop_advance(&loop, LINGER_MS - 1);
    struct room *room = find("red");
    ck_assert_ptr_nonnull(room);
    ck_assert(stream_id_eq(room->position, (struct stream_id){1, 1}));
    fake_loop_advance(&loop, 1);
    ck_assert_ptr_null(find("red"));
    ck_assert_uint_eq(metrics.v[M_ROOMS], 0);
}
END_TEST

START_TEST(a_room_that_somebody_came_back_to_is_not_closed)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    leave(a);
    fake_loop_advance(&loop, LINGER_MS - 1);
    ck_assert_int_eq(join(b, "red"), RD_OK);
    fake_loop_advance(&loop, 2 * LINGER_MS);
    ck_assert_ptr_nonnull(find("red"));
    leave(b);
    fake_loop_advance(&loop, LINGER_MS - 1); /* the while begins anew */
    ck_assert_ptr_nonnull(find("red"));
}
END_TEST

START_TEST(at_most_max_rooms_are_open)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    ck_assert_int_eq(join(b, "blue"), RD_OK);
    ck_assert_int_eq(join(&members[2], "green"), RD_OK);
    ck_assert_int_eq(join(&members[3], "black"), RD_ETOOBIG);
    ck_assert_int_eq(members[3].member.state, ROOM_MEMBER_OUT);
    ck_assert_uint_eq(metrics.v[M_ROOMS], MAX_ROOMS);
    ck_assert_int_eq(join(&members[3], "red"), RD_OK); /* one that is open takes more */
}
END_TEST

START_TEST(at_the_limit_the_room_that_stood_empty_longest_is_closed_for_a_new_one)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    ck_assert_int_eq(join(b, "blue"), RD_OK);
    ck_assert_int_eq(join(&members[2], "green"), RD_OK);
    leave(b);
    leave(a);
    ck_assert_int_eq(join(&members[3], "black"), RD_OK);
    ck_assert_ptr_null(find("blue"));
    ck_assert_ptr_nonnull(find("red"));
    ck_assert_int_eq(join(b, "white"), RD_OK);
    ck_assert_ptr_null(find("red"));
    ck_assert_ptr_nonnull(find("green")); /* whose member is still there */
    ck_assert_int_eq(join(a, "red"), RD_ETOOBIG);
    fake_loop_advance(&loop, 2 * LINGER_MS); /* the closed ones' timers are gone with them */
    ck_assert_uint_eq(metrics.v[M_ROOMS], MAX_ROOMS);
}
END_TEST

START_TEST(a_room_whose_feed_never_starts_is_closed_like_any_other)
{
    faulty_roomlog_hold_follows(log_, true);
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_advance(&loop, START_LIMIT_MS);
    ck_assert_str_eq(fake_member_heard(a), "failed red: the log is not available");
    ck_assert_ptr_nonnull(find("red"));
    fake_loop_advance(&loop, LINGER_MS);
    ck_assert_ptr_null(find("red"));
}
END_TEST

START_TEST(a_room_may_be_closed_while_its_start_is_waited_for)
{
    faulty_roomlog_hold_follows(log_, true);
    ck_assert_int_eq(join(a, "red"), RD_OK);
    leave(a);
    for (int i = 0; i < MAX_ROOMS; i++)
        ck_assert_int_eq(join(&members[i], i == 0 ? "blue" : i == 1 ? "green" : "white"), RD_OK);
    ck_assert_ptr_null(find("red"));
    fake_loop_advance(&loop, START_LIMIT_MS + LINGER_MS);
    ck_assert_uint_eq(metrics.v[M_ROOMS], 0);
}
END_TEST

START_TEST(leaving_is_harmless_for_whoever_is_out)
{
    leave(a);
    ck_assert_int_eq(join(a, "red"), RD_OK);
    leave(a);
    leave(a);
    ck_assert_uint_eq(metrics.v[M_MEMBERS], 0);
}
END_TEST

START_TEST(the_rooms_share_one_account_of_packets)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    ck_assert_int_eq(join(b, "blue"), RD_OK);
    a->may_read = b->may_read = false;
    fake_loop_turn(&loop);
    registry_rejoin(&registry, &a->member, &ALL);
    registry_rejoin(&registry, &b->member, &ALL);
    append("red", 1);
    append("blue", 1);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(registry.packets.count, 2);
}
END_TEST

START_TEST(shrinking_empties_rings_until_the_packets_fit)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    ck_assert_int_eq(join(b, "blue"), RD_OK);
    fake_loop_turn(&loop);
    append("red", 1);
    append("blue", 1);
    append("blue", 2);
    fake_loop_turn(&loop);
    ck_assert_uint_eq(registry.packets.count, 3);
    ck_assert(registry_shrink(&registry, registry.packets.bytes));
    ck_assert_uint_eq(registry.packets.count, 3);
    ck_assert(registry_shrink(&registry, registry.packets.bytes - 1));
    ck_assert_uint_eq(registry.packets.count, 2); /* red's was used less recently */
    ck_assert(registry_shrink(&registry, 0));
    ck_assert_uint_eq(registry.packets.count, 0);
}
END_TEST

START_TEST(shrinking_says_where_rings_alone_are_not_what_is_too_much)
{
    ck_assert_int_eq(join(a, "red"), RD_OK);
    fake_loop_turn(&loop);
    a->may_read = false;
    registry_rejoin(&registry, &a->member, &ALL);
    append("red", 1);
    fake_loop_turn(&loop);
    ck_assert(!registry_shrink(&registry, 0));
    ck_assert_uint_eq(registry.packets.count, 1); /* it waits in a pending list, too */
    leave(a);
    ck_assert_uint_eq(registry.packets.count, 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("registry");
    TCase *tc = tcase_create("registry");
    tcase_add_checked_fixture(tc, make, take_down);
    tcase_add_test(tc, the_first_join_opens_a_room_and_the_next_finds_it);
    tcase_add_test(tc, the_name_is_copied);
    tcase_add_test(tc, a_join_replays_and_goes_live);
    tcase_add_test(tc, a_live_member_that_fell_behind_reads_again);
    tcase_add_test(tc, a_rejoin_begins_again);
    tcase_add_test(tc, a_member_that_waits_for_its_socket_goes_on_when_resumed);
    tcase_add_test(tc, a_join_is_refused_while_the_log_is_away_and_opens_nothing);
    tcase_add_test(tc, an_empty_room_stays_open_for_a_while_with_its_feed_running);
    tcase_add_test(tc, a_room_that_somebody_came_back_to_is_not_closed);
    tcase_add_test(tc, at_most_max_rooms_are_open);
    tcase_add_test(tc, at_the_limit_the_room_that_stood_empty_longest_is_closed_for_a_new_one);
    tcase_add_test(tc, a_room_whose_feed_never_starts_is_closed_like_any_other);
    tcase_add_test(tc, a_room_may_be_closed_while_its_start_is_waited_for);
    tcase_add_test(tc, leaving_is_harmless_for_whoever_is_out);
    tcase_add_test(tc, the_rooms_share_one_account_of_packets);
    tcase_add_test(tc, shrinking_empties_rings_until_the_packets_fit);
    tcase_add_test(tc, shrinking_says_where_rings_alone_are_not_what_is_too_much);
    suite_add_tcase(suite, tc);
    return suite;
}
