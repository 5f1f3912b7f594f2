#include "bench/bench_log_audit.h"
#include "tests/lib/suite.h"

static struct bench_log_audit audit;
static struct bench_log_faults faults;

static void setup(void)
{
    audit = (struct bench_log_audit){0};
    faults = (struct bench_log_faults){0};
}

static void take(uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n <= to; n++)
        ck_assert(bench_log_audit_take(&audit, n, &faults));
}

START_TEST(each_once_and_in_order_is_clean)
{
    take(1, 1000);
    bench_log_audit_settle(&audit, 1000, &faults);
    ck_assert(bench_log_audit_clean(&faults));
}
END_TEST

START_TEST(nothing_of_nothing_is_clean)
{
    bench_log_audit_settle(&audit, 0, &faults);
    ck_assert(bench_log_audit_clean(&faults));
}
END_TEST

START_TEST(what_never_came_is_lost_in_the_middle_and_at_the_end)
{
    take(1, 10);
    take(13, 20);
    bench_log_audit_settle(&audit, 25, &faults);
    ck_assert_uint_eq(faults.lost, 7);
    ck_assert(!bench_log_audit_clean(&faults));
}
END_TEST

START_TEST(what_comes_again_is_doubled)
{
    take(1, 100);
    ck_assert(!bench_log_audit_take(&audit, 100, &faults));
    ck_assert(!bench_log_audit_take(&audit, 37, &faults)); /* the oldest that is remembered */
    ck_assert_uint_eq(faults.doubled, 2);
    ck_assert_uint_eq(faults.disorder, 0);
    bench_log_audit_settle(&audit, 100, &faults);
    ck_assert_uint_eq(faults.lost, 0);
}
END_TEST

START_TEST(what_comes_late_is_disorder_and_not_lost)
{
    take(1, 10);
    take(12, 20);
    ck_assert(bench_log_audit_take(&audit, 11, &faults));
    ck_assert_uint_eq(faults.disorder, 1);
    ck_assert(!bench_log_audit_take(&audit, 11, &faults));
    ck_assert_uint_eq(faults.doubled, 1);
    bench_log_audit_settle(&audit, 20, &faults);
    ck_assert_uint_eq(faults.lost, 0);
}
END_TEST

START_TEST(what_is_too_far_behind_to_be_remembered_is_disorder)
{
    take(1, 100);
    ck_assert(!bench_log_audit_take(&audit, 36, &faults));
    ck_assert_uint_eq(faults.disorder, 1);
}
END_TEST

START_TEST(a_leap_forgets_what_came_before)
{
    take(1, 10);
    take(10 + 64, 10 + 64);
    ck_assert(bench_log_audit_take(&audit, 11, &faults)); /* 63 behind: remembered as missing */
    ck_assert(!bench_log_audit_take(&audit, 10, &faults));
    ck_assert_uint_eq(faults.disorder, 2);
    ck_assert_uint_eq(faults.doubled, 0);
}
END_TEST

START_TEST(numbers_that_nobody_gave_are_alien)
{
    ck_assert(!bench_log_audit_take(&audit, 0, &faults));
    take(1, 3);
    bench_log_audit_settle(&audit, 2, &faults);
    ck_assert_uint_eq(faults.alien, 2);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("bench_log_audit");
    TCase *tc = tcase_create("audit");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, each_once_and_in_order_is_clean);
    tcase_add_test(tc, nothing_of_nothing_is_clean);
    tcase_add_test(tc, what_never_came_is_lost_in_the_middle_and_at_the_end);
    tcase_add_test(tc, what_comes_again_is_doubled);
    tcase_add_test(tc, what_comes_late_is_disorder_and_not_lost);
    tcase_add_test(tc, what_is_too_far_behind_to_be_remembered_is_disorder);
    tcase_add_test(tc, a_leap_forgets_what_came_before);
    tcase_add_test(tc, numbers_that_nobody_gave_are_alien);
    suite_add_tcase(suite, tc);
    return suite;
}
