#include "room/pending.h"

#include "tests/lib/suite.h"

enum { MAX = 100, HEADER = 2 };

static struct packet_account account;
static struct pending_budget budget;
static struct pending pending;

static void make(void)
{
    budget = (struct pending_budget){.max = MAX};
}

static void take_down(void)
{
    pending_clear(&pending, &budget);
    ck_assert_ptr_null(pending.packets);
    ck_assert_uint_eq(budget.bytes, 0);
    ck_assert_uint_eq(account.count, 0);
    ck_assert_uint_eq(account.bytes, 0);
}

/* An entry 1-n of len bytes on the wire. */
static bool push_to(struct pending *to, uint64_t n, size_t len)
{
    char text[MAX] = {0};
    struct stream_id prev = {1, n - 1};
    struct packet *p =
        packet_entry(&account, (struct str){text, len - HEADER}, (struct stream_id){1, n}, &prev);
    ck_assert_uint_eq(packet_len(p), len);
    bool held = pending_push(to, &budget, p);
    packet_unref(p);
    return held;
}

static bool push(uint64_t n, size_t len)
{
    return push_to(&pending, n, len);
}

static uint64_t front(const struct pending *of)
{
    const struct packet *p = pending_front(of);
    return p == NULL ? 0 : p->id.seq;
}

START_TEST(packets_leave_in_the_order_they_came)
{
    ck_assert_ptr_null(pending_front(&pending));
    /* Goes round the ring, and through two of its growths while it wraps. */
    uint64_t in = 0;
    uint64_t out = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 3; i++)
            ck_assert(push(++in, HEADER));
        ck_assert_uint_eq(front(&pending), ++out);
        pending_pop(&pending, &budget);
    }
    while (out < in) {
        ck_assert_uint_eq(front(&pending), ++out);
        pending_pop(&pending, &budget);
    }
    ck_assert_ptr_null(pending_front(&pending));
}
END_TEST

START_TEST(at_the_budget_a_packet_fits_and_one_byte_more_empties_the_list)
{
    ck_assert(push(1, 60));
    ck_assert(push(2, 40));
    ck_assert_uint_eq(budget.bytes, MAX);
    ck_assert(!push(3, HEADER));
    ck_assert_ptr_null(pending_front(&pending));
    ck_assert_uint_eq(budget.bytes, 0);
    ck_assert_uint_eq(account.count, 0);
}
END_TEST

START_TEST(the_next_packet_after_a_spill_begins_a_new_list)
{
    ck_assert(push(1, MAX));
    ck_assert(!push(2, HEADER));
    ck_assert(push(3, 10));
    ck_assert_uint_eq(front(&pending), 3);
    ck_assert_uint_eq(budget.bytes, 10);
}
END_TEST

START_TEST(a_packet_larger_than_the_budget_is_never_held)
{
    budget.max = 10;
    ck_assert(!push(1, 11));
    ck_assert_uint_eq(budget.bytes, 0);
    ck_assert(push(2, 10));
}
END_TEST

START_TEST(lists_of_one_session_share_its_budget_and_only_the_one_that_would_pass_it_is_emptied)
{
    struct pending other = {0};
    ck_assert(push_to(&other, 1, 70));
    ck_assert(push(1, 30));
    ck_assert(!push(2, 10));
    ck_assert_ptr_null(pending_front(&pending));
    ck_assert_uint_eq(front(&other), 1);
    ck_assert_uint_eq(budget.bytes, 70);
    ck_assert(push(3, 30));
    pending_clear(&other, &budget);
    ck_assert_uint_eq(budget.bytes, 30);
}
END_TEST

START_TEST(dropping_to_an_id_lets_go_of_it_and_of_all_below)
{
    for (uint64_t n = 1; n <= 5; n++)
        ck_assert(push(n, 10));
    pending_drop_to(&pending, &budget, (struct stream_id){0, UINT64_MAX});
    ck_assert_uint_eq(front(&pending), 1);
    pending_drop_to(&pending, &budget, (struct stream_id){1, 3});
    ck_assert_uint_eq(front(&pending), 4);
    ck_assert_uint_eq(budget.bytes, 20);
    ck_assert_uint_eq(account.count, 2);
    pending_drop_to(&pending, &budget, (struct stream_id){2, 0});
    ck_assert_ptr_null(pending_front(&pending));
}
END_TEST

START_TEST(ids_are_compared_as_numbers)
{
    ck_assert(push(9, 10));
    ck_assert(push(10, 10));
    pending_drop_to(&pending, &budget, (struct stream_id){1, 9});
    ck_assert_uint_eq(front(&pending), 10);
}
END_TEST

START_TEST(clearing_gives_the_memory_back_and_the_list_may_be_used_again)
{
    for (uint64_t n = 1; n <= 20; n++)
        ck_assert(push(n, HEADER));
    pending_clear(&pending, &budget);
    ck_assert_ptr_null(pending.packets);
    ck_assert_uint_eq(account.count, 0);
    ck_assert(push(21, HEADER));
    ck_assert_uint_eq(front(&pending), 21);
}
END_TEST

START_TEST(a_packet_lives_while_the_list_holds_it)
{
    ck_assert(push(1, 10)); /* whose own reference is gone by now */
    ck_assert_uint_eq(account.count, 1);
    struct packet *p = packet_ref(pending_front(&pending));
    pending_pop(&pending, &budget);
    ck_assert_uint_eq(account.count, 1);
    packet_unref(p);
    ck_assert_uint_eq(account.count, 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("pending");
    TCase *tc = tcase_create("pending");
    tcase_add_checked_fixture(tc, make, take_down);
    tcase_add_test(tc, packets_leave_in_the_order_they_came);
    tcase_add_test(tc, at_the_budget_a_packet_fits_and_one_byte_more_empties_the_list);
    tcase_add_test(tc, the_next_packet_after_a_spill_begins_a_new_list);
    tcase_add_test(tc, a_packet_larger_than_the_budget_is_never_held);
    tcase_add_test(
        tc, lists_of_one_session_share_its_budget_and_only_the_one_that_would_pass_it_is_emptied);
    tcase_add_test(tc, dropping_to_an_id_lets_go_of_it_and_of_all_below);
    tcase_add_test(tc, ids_are_compared_as_numbers);
    tcase_add_test(tc, clearing_gives_the_memory_back_and_the_list_may_be_used_again);
    tcase_add_test(tc, a_packet_lives_while_the_list_holds_it);
    suite_add_tcase(suite, tc);
    return suite;
}
