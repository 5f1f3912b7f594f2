#include "session/outq.h"

#include "tests/lib/suite.h"

enum { HIGH_WATER = 20, HEADER = 2, MAX_LEN = 128 };

static struct packet_account account;
static struct outq q;

static void make(void)
{
    outq_init(&q, HIGH_WATER);
}

static void take_down(void)
{
    outq_clear(&q);
    ck_assert_ptr_null(q.ring);
    ck_assert_uint_eq(account.count, 0);
    ck_assert_uint_eq(account.bytes, 0);
}

/* len bytes on the wire, WebSocket header included. */
static struct packet *packet_of(size_t len)
{
    char text[MAX_LEN] = {0};
    struct packet *p = packet_text(&account, (struct str){text, len - HEADER});
    ck_assert_uint_eq(packet_len(p), len);
    return p;
}

static enum outq_verdict push_beside(size_t len, size_t beside)
{
    struct packet *p = packet_of(len);
    enum outq_verdict verdict = outq_push(&q, p, beside);
    packet_unref(p);
    return verdict;
}

static enum outq_verdict push(size_t len)
{
    return push_beside(len, 0);
}

static void push_replay(size_t len)
{
    struct packet *p = packet_of(len);
    outq_push_replay(&q, p);
    packet_unref(p);
}

static size_t pop(void)
{
    struct packet *p = outq_pop(&q);
    size_t len = packet_len(p);
    packet_unref(p);
    return len;
}

START_TEST(push_above_high_water_is_refused_and_keeps_nothing)
{
    ck_assert_int_eq(push(HIGH_WATER), OUTQ_OK);
    ck_assert_int_eq(push(5), OUTQ_OK); /* at the mark, one more still fits */
    ck_assert_int_eq(push(HEADER), OUTQ_OVER);
    ck_assert_uint_eq(account.count, 2);
    ck_assert_uint_eq(q.bytes, HIGH_WATER + 5);
    (void)pop();
    (void)pop();
    ck_assert_ptr_null(outq_front(&q));
}
END_TEST

START_TEST(one_byte_above_the_mark_is_above_it)
{
    ck_assert_int_eq(push(HIGH_WATER + 1), OUTQ_OK);
    ck_assert_int_eq(push(HEADER), OUTQ_OVER);
}
END_TEST

START_TEST(a_single_large_packet_fits_an_empty_queue)
{
    ck_assert_int_eq(push(MAX_LEN - 10), OUTQ_OK);
}
END_TEST

START_TEST(what_is_held_elsewhere_counts_against_the_same_mark)
{
    ck_assert_int_eq(push_beside(5, HIGH_WATER + 1), OUTQ_OVER);
    ck_assert_int_eq(push_beside(5, HIGH_WATER), OUTQ_OK);
    ck_assert_int_eq(push_beside(5, HIGH_WATER - 4), OUTQ_OVER);
    ck_assert_int_eq(push_beside(5, HIGH_WATER - 5), OUTQ_OK);
    ck_assert_uint_eq(q.bytes, 10);
}
END_TEST

START_TEST(room_comes_back_as_packets_leave)
{
    ck_assert_int_eq(push(HIGH_WATER), OUTQ_OK);
    ck_assert_int_eq(push(HIGH_WATER), OUTQ_OK);
    ck_assert_int_eq(push(5), OUTQ_OVER);
    ck_assert_uint_eq(pop(), HIGH_WATER);
    ck_assert_int_eq(push(5), OUTQ_OK);
}
END_TEST

START_TEST(what_a_replay_pushes_is_never_refused_and_does_not_count)
{
    ck_assert_int_eq(push(HIGH_WATER + 1), OUTQ_OK);
    ck_assert_int_eq(push(5), OUTQ_OVER);
    for (int i = 0; i < 100; i++)
        push_replay(100);
    ck_assert_uint_eq(q.bytes, HIGH_WATER + 1 + 100 * 100);
    ck_assert_uint_eq(q.replay_bytes, 100 * 100);
    ck_assert_int_eq(push(5), OUTQ_OVER);
    (void)pop();
    ck_assert_int_eq(push(5), OUTQ_OK);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(pop(), 100);
    ck_assert_uint_eq(q.replay_bytes, 0);
    ck_assert_uint_eq(q.bytes, 5);
}
END_TEST

START_TEST(packets_leave_in_the_order_they_came_whoever_pushed_them)
{
    size_t in = 0;
    size_t out = 0;
    outq_init(&q, SIZE_MAX);
    /* Goes round the ring, and through its growths while it wraps. */
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 3; i++, in++) {
            size_t len = HEADER + in % 50;
            if (in % 3 == 0)
                push_replay(len);
            else
                ck_assert_int_eq(push(len), OUTQ_OK);
        }
        ck_assert_uint_eq(packet_len(outq_front(&q)), HEADER + out % 50);
        ck_assert_uint_eq(pop(), HEADER + out++ % 50);
    }
    while (out < in)
        ck_assert_uint_eq(pop(), HEADER + out++ % 50);
    ck_assert_ptr_null(outq_front(&q));
    ck_assert_uint_eq(q.bytes, 0);
    ck_assert_uint_eq(q.replay_bytes, 0);
}
END_TEST

START_TEST(an_empty_queue_has_no_memory_before_the_first_push_nor_after_a_long_backlog)
{
    ck_assert_ptr_null(q.ring);
    for (int i = 0; i < 1000; i++)
        push_replay(HEADER);
    ck_assert_uint_ge(q.capacity, 1000);
    while (outq_front(&q) != NULL)
        (void)pop();
    ck_assert_ptr_null(q.ring);
    ck_assert_int_eq(push(5), OUTQ_OK); /* and the mark is still known */
    ck_assert_int_eq(push(HIGH_WATER), OUTQ_OK);
    ck_assert_int_eq(push(5), OUTQ_OVER);
}
END_TEST

START_TEST(clearing_lets_go_of_everything_and_the_queue_may_be_used_again)
{
    ck_assert_int_eq(push(30), OUTQ_OK);
    push_replay(30);
    outq_clear(&q);
    ck_assert_uint_eq(account.count, 0);
    ck_assert_ptr_null(outq_front(&q));
    ck_assert_ptr_null(q.ring);
    ck_assert_int_eq(push(HIGH_WATER + 1), OUTQ_OK);
    ck_assert_int_eq(push(5), OUTQ_OVER);
}
END_TEST

START_TEST(a_packet_is_owned_by_whoever_popped_it)
{
    ck_assert_int_eq(push(5), OUTQ_OK);
    struct packet *p = outq_pop(&q);
    ck_assert_uint_eq(account.count, 1);
    packet_unref(p);
    ck_assert_uint_eq(account.count, 0);
}
END_TEST

START_TEST(the_oldest_id_is_that_of_the_first_entry_in_the_queue)
{
    ck_assert(stream_id_is_zero(outq_oldest_id(&q)));
    ck_assert_int_eq(push(5), OUTQ_OK); /* no entry */
    ck_assert(stream_id_is_zero(outq_oldest_id(&q)));
    for (uint64_t n = 1; n <= 2; n++) {
        struct packet *p = packet_entry(&account, STR("{}"), (struct stream_id){7, n}, NULL);
        outq_push_replay(&q, p);
        packet_unref(p);
    }
    ck_assert(stream_id_eq(outq_oldest_id(&q), (struct stream_id){7, 1}));
    (void)pop();
    (void)pop();
    ck_assert(stream_id_eq(outq_oldest_id(&q), (struct stream_id){7, 2}));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("outq");
    TCase *tc = tcase_create("outq");
    tcase_add_checked_fixture(tc, make, take_down);
    tcase_add_test(tc, push_above_high_water_is_refused_and_keeps_nothing);
    tcase_add_test(tc, one_byte_above_the_mark_is_above_it);
    tcase_add_test(tc, a_single_large_packet_fits_an_empty_queue);
    tcase_add_test(tc, what_is_held_elsewhere_counts_against_the_same_mark);
    tcase_add_test(tc, room_comes_back_as_packets_leave);
    tcase_add_test(tc, what_a_replay_pushes_is_never_refused_and_does_not_count);
    tcase_add_test(tc, packets_leave_in_the_order_they_came_whoever_pushed_them);
    tcase_add_test(tc, an_empty_queue_has_no_memory_before_the_first_push_nor_after_a_long_backlog);
    tcase_add_test(tc, clearing_lets_go_of_everything_and_the_queue_may_be_used_again);
    tcase_add_test(tc, a_packet_is_owned_by_whoever_popped_it);
    tcase_add_test(tc, the_oldest_id_is_that_of_the_first_entry_in_the_queue);
    suite_add_tcase(suite, tc);
    return suite;
}
