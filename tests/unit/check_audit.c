#include "bench/audit.h"

#include "tests/lib/suite.h"

enum { RUN = 7 };

static struct audit audit;
static struct audit_totals totals;

static void setup(void)
{
    audit = (struct audit){0};
    totals = (struct audit_totals){0};
}

static void teardown(void)
{
    audit_fini(&audit);
}

/* Where entry n is; 0 is the place before the first. */
static struct stream_id at(uint64_t n)
{
    return n == 0 ? STREAM_ID_ZERO : (struct stream_id){1, n};
}

/* Entry n of this run. True if it was applied. */
static bool take_after(uint64_t n, uint64_t prev)
{
    struct entry_scan entry = {.id = at(n), .prev = at(prev), .ours = true, .run = RUN};
    return audit_entry(&audit, &totals, &entry, RUN);
}

static bool take(uint64_t n)
{
    return take_after(n, n - 1);
}

static void join_live_at(uint64_t n)
{
    audit_join_sent(&audit);
    audit_joined(&audit, NULL, true);
    audit_live(&audit, &totals, at(n));
}

START_TEST(replay_seam_and_live_in_order_is_clean)
{
    audit_join_sent(&audit);
    audit_joined(&audit, NULL, true);
    for (uint64_t n = 1; n <= 5; n++)
        ck_assert(take(n));
    audit_live(&audit, &totals, at(5));
    for (uint64_t n = 6; n <= 9; n++)
        ck_assert(take(n));
    audit_finish(&audit, &totals, 9, 9);
    ck_assert(audit_clean(&totals));
    ck_assert_uint_eq(totals.applied, 9);
    ck_assert_uint_eq(audit.ours, 9);
}
END_TEST

START_TEST(an_entry_left_out_is_a_gap_where_it_was_left_out)
{
    audit_join_sent(&audit);
    audit_joined(&audit, NULL, true);
    take(1);
    take(3); /* in the replay */
    audit_live(&audit, &totals, at(3));
    take(5); /* at the seam */
    take(6);
    take(8); /* live */
    audit_finish(&audit, &totals, 8, 8);
    ck_assert_uint_eq(totals.gaps[AUDIT_REPLAY], 1);
    ck_assert_uint_eq(totals.gaps[AUDIT_SEAM], 1);
    ck_assert_uint_eq(totals.gaps[AUDIT_LIVE], 1);
    ck_assert_uint_eq(totals.lost, 3);
    ck_assert(!audit_clean(&totals));
}
END_TEST

START_TEST(a_live_frame_ahead_of_the_entries_is_a_gap_at_the_seam)
{
    audit_join_sent(&audit);
    audit_joined(&audit, NULL, true);
    take(1);
    audit_live(&audit, &totals, at(3));
    ck_assert_uint_eq(totals.gaps[AUDIT_SEAM], 1);
}
END_TEST

START_TEST(a_missing_tail_is_lost_though_the_chain_is_whole)
{
    join_live_at(0);
    take(1);
    take(2);
    audit_finish(&audit, &totals, 3, 3);
    ck_assert_uint_eq(totals.lost, 1);
    ck_assert(!audit_clean(&totals));
}
END_TEST

START_TEST(the_same_entry_again_is_a_double)
{
    join_live_at(0);
    take(1);
    take(2);
    ck_assert(!take(2));
    ck_assert(!take(1));
    audit_finish(&audit, &totals, 2, 2);
    ck_assert_uint_eq(totals.doubles[AUDIT_LIVE], 2);
    ck_assert_uint_eq(totals.lost, 0);
    ck_assert_uint_eq(totals.applied, 2);
    ck_assert(!audit_clean(&totals));
}
END_TEST

START_TEST(a_late_entry_is_disorder_once_and_then_a_double)
{
    join_live_at(0);
    take(1);
    take(5); /* 2, 3 and 4 are missing */
    ck_assert(take(3));
    ck_assert(!take(3));
    ck_assert(take(4));
    ck_assert(take(2));
    ck_assert(!take(2));
    audit_finish(&audit, &totals, 5, 5);
    ck_assert_uint_eq(totals.gaps[AUDIT_LIVE], 1);
    ck_assert_uint_eq(totals.disorder[AUDIT_LIVE], 3);
    ck_assert_uint_eq(totals.doubles[AUDIT_LIVE], 2);
    ck_assert_uint_eq(totals.lost, 0);
}
END_TEST

START_TEST(more_than_was_published_is_excess)
{
    join_live_at(0);
    take(1);
    take(2);
    audit_finish(&audit, &totals, 1, 1);
    ck_assert_uint_eq(totals.excess, 1);
    ck_assert(!audit_clean(&totals));
}
END_TEST

START_TEST(an_unanswered_publish_may_arrive_or_not)
{
    join_live_at(0);
    take(1);
    audit_finish(&audit, &totals, 1, 2);
    ck_assert(audit_clean(&totals));
    take(2);
    audit_finish(&audit, &totals, 1, 2);
    ck_assert(audit_clean(&totals));
}
END_TEST

START_TEST(who_was_told_is_not_charged_with_loss)
{
    join_live_at(0);
    take(1);
    audit_resync(&audit, &totals, NULL);
    take_after(7, 6); /* any entry, after a fresh start */
    audit_live(&audit, &totals, at(7));
    take(8);
    audit_finish(&audit, &totals, 8, 8);
    ck_assert_uint_eq(totals.resyncs, 1);
    ck_assert(audit_clean(&totals));
}
END_TEST

START_TEST(a_fresh_start_in_a_trimmed_log_is_not_charged_with_loss)
{
    audit_join_sent(&audit);
    audit_joined(&audit, NULL, false);
    take_after(7, 6);
    take(8);
    audit_live(&audit, &totals, at(8));
    audit_finish(&audit, &totals, 8, 8);
    ck_assert(audit_clean(&totals));
}
END_TEST

START_TEST(entries_between_a_join_and_its_answer_are_dropped)
{
    join_live_at(2);
    audit_join_sent(&audit);
    ck_assert(!take(9));
    struct stream_id from = at(2);
    audit_joined(&audit, &from, true);
    ck_assert(take(3));
    ck_assert(audit_clean(&totals));
}
END_TEST

START_TEST(others_entries_are_chained_but_not_counted_as_ours)
{
    join_live_at(0);
    struct entry_scan foreign = {.id = at(1), .prev = at(0), .ours = true, .run = RUN + 1};
    ck_assert(audit_entry(&audit, &totals, &foreign, RUN));
    take(2);
    audit_finish(&audit, &totals, 1, 1);
    ck_assert_uint_eq(audit.ours, 1);
    ck_assert_uint_eq(totals.applied, 2);
    ck_assert(audit_clean(&totals));
}
END_TEST

START_TEST(live_twice_is_a_breach)
{
    join_live_at(3);
    audit_live(&audit, &totals, at(3));
    ck_assert_uint_eq(totals.breaches, 1);
}
END_TEST

/* However many gaps there are, the memory for them is bounded and the counts go on. */
START_TEST(more_gaps_than_are_remembered_are_still_counted)
{
    join_live_at(0);
    uint64_t gaps = 3 * AUDIT_HOLES_MAX;
    for (uint64_t i = 1; i <= gaps; i++)
        take_after(10 * i, 10 * i - 1);
    audit_finish(&audit, &totals, 10 * gaps, 10 * gaps);
    ck_assert_uint_eq(totals.gaps[AUDIT_SEAM] + totals.gaps[AUDIT_LIVE], gaps);
    ck_assert_uint_eq(totals.lost, 9 * gaps);
    ck_assert_uint_le(audit.hole_count, AUDIT_HOLES_MAX);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("audit");
    TCase *tc = tcase_create("one member");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, replay_seam_and_live_in_order_is_clean);
    tcase_add_test(tc, an_entry_left_out_is_a_gap_where_it_was_left_out);
    tcase_add_test(tc, a_live_frame_ahead_of_the_entries_is_a_gap_at_the_seam);
    tcase_add_test(tc, a_missing_tail_is_lost_though_the_chain_is_whole);
    tcase_add_test(tc, the_same_entry_again_is_a_double);
    tcase_add_test(tc, a_late_entry_is_disorder_once_and_then_a_double);
    tcase_add_test(tc, more_than_was_published_is_excess);
    tcase_add_test(tc, an_unanswered_publish_may_arrive_or_not);
    tcase_add_test(tc, who_was_told_is_not_charged_with_loss);
    tcase_add_test(tc, a_fresh_start_in_a_trimmed_log_is_not_charged_with_loss);
    tcase_add_test(tc, entries_between_a_join_and_its_answer_are_dropped);
    tcase_add_test(tc, others_entries_are_chained_but_not_counted_as_ours);
    tcase_add_test(tc, live_twice_is_a_breach);
    tcase_add_test(tc, more_gaps_than_are_remembered_are_still_counted);
    suite_add_tcase(suite, tc);
    return suite;
}
