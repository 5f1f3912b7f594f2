#include "room/ring.h"

#include "tests/lib/suite.h"

#include <stdio.h>

enum { ENTRIES = 4, PAYLOAD = 100 };

static struct metrics metrics;
static struct packet_account account;
static struct ring_pool pool;
static struct ring ring;
static struct ring other;

static size_t cost_of(size_t payload)
{
    size_t header = payload < 126 ? 2 : 4;
    return sizeof(struct packet) + header + payload + sizeof(struct packet *);
}

static struct stream_id id(unsigned n)
{
    return (struct stream_id){n == 0 ? 0 : 1, n};
}

static struct packet *entry_of(unsigned n, unsigned prev, size_t payload)
{
    static const char zeros[4096];
    struct stream_id before = id(prev);
    ck_assert_uint_le(payload, sizeof(zeros));
    return packet_entry(&account, (struct str){zeros, payload}, id(n), &before);
}

static void push_sized(struct ring *to, unsigned n, size_t payload)
{
    struct packet *p = entry_of(n, n - 1, payload);
    ring_push(to, p);
    packet_unref(p);
}

static void push(struct ring *to, unsigned first, unsigned last)
{
    for (unsigned n = first; n <= last; n++)
        push_sized(to, n, PAYLOAD);
}

/* A page of the log with these entries. known: the one before the first is. */
static void extend(unsigned first, unsigned last, bool known)
{
    struct packet *page[64];
    size_t count = 0;
    for (unsigned n = first; n <= last; n++) {
        page[count] = entry_of(n, n - 1, PAYLOAD);
        page[count]->prev_known = known || n != first;
        count++;
    }
    ring_extend(&ring, page, count);
    while (count != 0)
        packet_unref(page[--count]);
}

/* What it holds, as in "2: 3 4 5", the number before the colon being the base. */
static const char *held(const struct ring *of)
{
    static char text[256];
    size_t len = (size_t)snprintf(text, sizeof(text), "%u:", (unsigned)of->base.seq);
    for (size_t i = 0; ring_at(of, i) != NULL; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, " %u",
                                (unsigned)ring_at(of, i)->id.seq);
    return text;
}

#define ck_held(of, text) ck_assert_str_eq(held(of), text)

static void make_limited(size_t max_entries, size_t max_bytes, size_t total_bytes)
{
    const struct ring_limits limits = {max_entries, max_bytes, total_bytes};
    metrics = (struct metrics){0};
    ring_pool_init(&pool, &limits, &metrics);
    ring_init(&ring, &pool);
    ring_init(&other, &pool);
    ring_reset(&ring, id(0));
    ring_reset(&other, id(0));
}

static void make(void)
{
    make_limited(ENTRIES, 1 << 20, 1 << 20);
}

static void take_down(void)
{
    ring_fini(&ring);
    ring_fini(&other);
    ck_assert_uint_eq(pool.bytes, 0);
    ck_assert_uint_eq(metrics.v[M_RING_BYTES], 0);
    ck_assert_uint_eq(account.count, 0);
    ck_assert(!ring_pool_evict(&pool));
}

/* --- what it holds -------------------------------------------------------------------------- */

START_TEST(an_empty_ring_holds_only_the_place_where_the_feed_stands)
{
    ring_reset(&ring, id(7));
    ck_assert(ring_holds(&ring, id(7)));
    ck_assert(!ring_holds(&ring, id(6)));
    ck_assert(!ring_holds(&ring, id(8)));
    ck_assert_uint_eq(ring_after(&ring, id(7)), 0);
    ck_assert_ptr_null(ring_at(&ring, 0));
}
END_TEST

START_TEST(it_holds_its_base_and_each_of_its_entries_and_nothing_else)
{
    struct packet *gap = entry_of(5, 2, PAYLOAD);
    ring_reset(&ring, id(1));
    push(&ring, 2, 2);
    ring_push(&ring, gap); /* 3 and 4 never were, or were deleted before the feed saw them */
    packet_unref(gap);
    for (unsigned n = 0; n < 8; n++)
        ck_assert_int_eq(ring_holds(&ring, id(n)), n == 1 || n == 2 || n == 5);
    ck_assert_uint_eq(ring_after(&ring, id(1)), 0);
    ck_assert_uint_eq(ring_after(&ring, id(2)), 1);
    ck_assert_uint_eq(ring_after(&ring, id(5)), 2);
}
END_TEST

START_TEST(ids_are_compared_as_numbers)
{
    make_limited(100, 1 << 20, 1 << 20);
    push(&ring, 1, 30);
    for (unsigned n = 0; n <= 30; n++)
        ck_assert_uint_eq(ring_after(&ring, id(n)), n);
}
END_TEST

START_TEST(the_oldest_goes_past_the_number_of_entries_and_is_the_base_then)
{
    push(&ring, 1, ENTRIES);
    ck_held(&ring, "0: 1 2 3 4");
    push(&ring, 5, 6);
    ck_held(&ring, "2: 3 4 5 6");
    push(&ring, 7, 100);
    ck_held(&ring, "96: 97 98 99 100");
    ck_assert_uint_eq(account.count, ENTRIES);
}
END_TEST

START_TEST(the_oldest_go_past_the_bytes)
{
    make_limited(100, 3 * cost_of(PAYLOAD), 1 << 20);
    push(&ring, 1, 3);
    ck_held(&ring, "0: 1 2 3");
    push(&ring, 4, 4);
    ck_held(&ring, "1: 2 3 4");
    push_sized(&ring, 5, 2 * PAYLOAD);
    ck_held(&ring, "3: 4 5");
    ck_assert_uint_eq(metrics.v[M_RING_BYTES], cost_of(PAYLOAD) + cost_of(2 * PAYLOAD));
}
END_TEST

START_TEST(an_entry_that_is_too_large_for_it_leaves_it_empty_behind_that)
{
    make_limited(100, 3 * cost_of(PAYLOAD), 1 << 20);
    push(&ring, 1, 2);
    push_sized(&ring, 3, 10 * PAYLOAD);
    ck_held(&ring, "3:");
    push(&ring, 4, 4);
    ck_held(&ring, "3: 4");
}
END_TEST

START_TEST(without_entries_it_holds_nothing_for_anybody)
{
    make_limited(0, 1 << 20, 1 << 20);
    push(&ring, 1, 3);
    for (unsigned n = 0; n < 5; n++)
        ck_assert(!ring_holds(&ring, id(n)));
    extend(1, 3, true);
    ck_assert_ptr_null(ring_at(&ring, 0));
    for (int i = 0; i < 10; i++)
        ck_assert(!ring_miss(&ring));
}
END_TEST

START_TEST(a_break_empties_it_and_it_begins_where_the_feed_goes_on)
{
    push(&ring, 1, 4);
    ring_reset(&ring, id(2)); /* the log lost its tail */
    ck_held(&ring, "2:");
    ck_assert_uint_eq(account.count, 0);
    push(&ring, 3, 3);
    ck_held(&ring, "2: 3");
}
END_TEST

START_TEST(what_may_have_been_deleted_is_let_go_of)
{
    push(&ring, 1, 4);
    ring_drop_to(&ring, id(0));
    ck_held(&ring, "0: 1 2 3 4");
    ring_drop_to(&ring, id(2));
    ck_held(&ring, "2: 3 4");
    ring_drop_to(&ring, id(9));
    ck_held(&ring, "4:");
    push(&ring, 5, 5);
    ck_held(&ring, "4: 5");
}
END_TEST

/* --- at the front --------------------------------------------------------------------------- */

START_TEST(a_page_that_reaches_it_lengthens_it_at_the_front)
{
    ring_reset(&ring, id(10));
    push(&ring, 11, 11);
    extend(9, 12, true);
    ck_held(&ring, "8: 9 10 11");
    push(&ring, 12, 12);
    ck_held(&ring, "8: 9 10 11 12");
}
END_TEST

START_TEST(an_empty_ring_is_lengthened_too)
{
    ring_reset(&ring, id(10));
    extend(9, 10, true);
    ck_held(&ring, "8: 9 10");
    push(&ring, 11, 11);
    ck_held(&ring, "8: 9 10 11");
}
END_TEST

START_TEST(only_the_newest_that_fit_are_taken)
{
    ring_reset(&ring, id(10));
    push(&ring, 11, 11);
    extend(1, 11, true);
    ck_held(&ring, "7: 8 9 10 11");
    extend(1, 11, true);
    ck_held(&ring, "7: 8 9 10 11");
}
END_TEST

START_TEST(only_what_fits_into_the_bytes_is_taken)
{
    make_limited(100, 3 * cost_of(PAYLOAD), 1 << 20);
    ring_reset(&ring, id(10));
    push(&ring, 11, 11);
    extend(1, 11, true);
    ck_held(&ring, "8: 9 10 11");
}
END_TEST

START_TEST(a_page_that_does_not_reach_it_is_of_no_use)
{
    ring_reset(&ring, id(10));
    push(&ring, 11, 11);
    extend(5, 9, true);
    ck_held(&ring, "10: 11");
    extend(11, 12, true);
    ck_held(&ring, "10: 11");
    ring_extend(&ring, NULL, 0);
    ck_held(&ring, "10: 11");
}
END_TEST

START_TEST(a_page_on_which_the_base_is_missing_is_of_no_use)
{
    struct packet *page[] = {entry_of(9, 8, PAYLOAD), entry_of(11, 9, PAYLOAD)};
    ring_reset(&ring, id(10)); /* deleted since */
    push(&ring, 11, 11);
    ring_extend(&ring, page, 2);
    ck_held(&ring, "10: 11");
    packet_unref(page[0]);
    packet_unref(page[1]);
}
END_TEST

START_TEST(an_entry_whose_prev_is_unknown_can_not_be_its_first)
{
    ring_reset(&ring, id(10));
    extend(9, 10, false);
    ck_held(&ring, "9: 10");
    ck_assert(!ring_holds(&ring, id(8)));
}
END_TEST

/* --- all together --------------------------------------------------------------------------- */

START_TEST(past_the_total_the_ring_used_least_recently_is_emptied)
{
    make_limited(100, 1 << 20, 4 * cost_of(PAYLOAD));
    push(&ring, 1, 2);
    push(&other, 1, 2);
    ring_touch(&ring);
    push(&ring, 3, 3);
    ck_held(&other, "2:");
    ck_held(&ring, "0: 1 2 3");
    ck_assert_uint_eq(metrics.v[M_RING_EVICTIONS], 1);
    push(&other, 3, 3); /* and goes on from where it was */
    ck_held(&other, "2: 3");
    ck_held(&ring, "0: 1 2 3");
}
END_TEST

START_TEST(one_ring_alone_stays_within_the_total)
{
    make_limited(100, 1 << 20, 2 * cost_of(PAYLOAD));
    push(&ring, 1, 3);
    ck_held(&ring, "3:");
    ck_assert_uint_eq(pool.bytes, 0);
    extend(1, 3, true);
    ck_held(&ring, "3:");
}
END_TEST

START_TEST(a_ring_that_is_evicted_goes_on_from_its_end)
{
    push(&ring, 1, 3);
    ck_assert(ring_pool_evict(&pool));
    ck_held(&ring, "3:");
    ck_assert(!ring_pool_evict(&pool));
    push(&ring, 4, 4);
    ck_held(&ring, "3: 4");
}
END_TEST

/* --- warming -------------------------------------------------------------------------------- */

START_TEST(the_third_join_that_it_can_not_serve_asks_for_warming_until_it_was_done)
{
    ck_assert(!ring_miss(&ring));
    ck_assert(!ring_miss(&ring));
    ck_assert(ring_miss(&ring));
    ck_assert(ring_miss(&ring)); /* that read failed, say */
    ring_warmed(&ring);
    ck_assert(!ring_miss(&ring));
}
END_TEST

START_TEST(a_ring_that_was_emptied_may_be_warmed_again)
{
    push(&ring, 1, 1);
    ring_warmed(&ring);
    ck_assert(ring_pool_evict(&pool));
    ck_assert(!ring_miss(&ring));
    ck_assert(!ring_miss(&ring));
    ck_assert(ring_miss(&ring));
    ring_warmed(&ring);
    ring_reset(&ring, id(9));
    ck_assert(!ring_miss(&ring));
    ck_assert(!ring_miss(&ring));
    ck_assert(ring_miss(&ring));
}
END_TEST

static TCase *case_make(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, make, take_down);
    suite_add_tcase(suite, tc);
    return tc;
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("ring");
    TCase *tc = case_make(suite, "holds");
    tcase_add_test(tc, an_empty_ring_holds_only_the_place_where_the_feed_stands);
    tcase_add_test(tc, it_holds_its_base_and_each_of_its_entries_and_nothing_else);
    tcase_add_test(tc, ids_are_compared_as_numbers);
    tcase_add_test(tc, the_oldest_goes_past_the_number_of_entries_and_is_the_base_then);
    tcase_add_test(tc, the_oldest_go_past_the_bytes);
    tcase_add_test(tc, an_entry_that_is_too_large_for_it_leaves_it_empty_behind_that);
    tcase_add_test(tc, without_entries_it_holds_nothing_for_anybody);
    tcase_add_test(tc, a_break_empties_it_and_it_begins_where_the_feed_goes_on);
    tcase_add_test(tc, what_may_have_been_deleted_is_let_go_of);

    tc = case_make(suite, "front");
    tcase_add_test(tc, a_page_that_reaches_it_lengthens_it_at_the_front);
    tcase_add_test(tc, an_empty_ring_is_lengthened_too);
    tcase_add_test(tc, only_the_newest_that_fit_are_taken);
    tcase_add_test(tc, only_what_fits_into_the_bytes_is_taken);
    tcase_add_test(tc, a_page_that_does_not_reach_it_is_of_no_use);
    tcase_add_test(tc, a_page_on_which_the_base_is_missing_is_of_no_use);
    tcase_add_test(tc, an_entry_whose_prev_is_unknown_can_not_be_its_first);

    tc = case_make(suite, "total");
    tcase_add_test(tc, past_the_total_the_ring_used_least_recently_is_emptied);
    tcase_add_test(tc, one_ring_alone_stays_within_the_total);
    tcase_add_test(tc, a_ring_that_is_evicted_goes_on_from_its_end);

    tc = case_make(suite, "warming");
    tcase_add_test(tc, the_third_join_that_it_can_not_serve_asks_for_warming_until_it_was_done);
    tcase_add_test(tc, a_ring_that_was_emptied_may_be_warmed_again);
    return suite;
}
