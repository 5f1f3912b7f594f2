#include "bench/hist.h"

#include "tests/lib/suite.h"

/* Too large for the stack of a test. */
static struct hist hist;

static void setup(void)
{
    hist = (struct hist){0};
}

START_TEST(an_empty_histogram_says_nothing)
{
    ck_assert_uint_eq(hist_quantile(&hist, 50000), 0);
    ck_assert_uint_eq(hist_quantile(&hist, 100000), 0);
}
END_TEST

START_TEST(one_value_is_every_quantile)
{
    hist_add(&hist, 123456789);
    ck_assert_uint_eq(hist_quantile(&hist, 0), 123456789);
    ck_assert_uint_eq(hist_quantile(&hist, 50000), 123456789);
    ck_assert_uint_eq(hist_quantile(&hist, 100000), 123456789);
}
END_TEST

START_TEST(small_values_are_exact)
{
    for (uint64_t value = 1; value <= 200; value++)
        hist_add(&hist, value);
    ck_assert_uint_eq(hist_quantile(&hist, 500), 1);
    ck_assert_uint_eq(hist_quantile(&hist, 50000), 100);
    ck_assert_uint_eq(hist_quantile(&hist, 99000), 198);
    ck_assert_uint_eq(hist_quantile(&hist, 99900), 200);
}
END_TEST

/* Around every power of two, where the parts change their width. */
START_TEST(a_value_is_reported_at_or_above_by_less_than_a_128th)
{
    uint64_t power = UINT64_C(1) << _i;
    for (int64_t step = -2; step <= 2; step++) {
        uint64_t value = power + (uint64_t)step;
        if (value > (UINT64_C(1) << HIST_VALUE_BITS) - 1)
            continue;
        setup();
        hist_add(&hist, value);
        hist_add(&hist, UINT64_C(1) << 62); /* so that the maximum doesn't correct it */
        uint64_t said = hist_quantile(&hist, 50000);
        ck_assert_uint_ge(said, value);
        ck_assert_uint_lt((said - value) * 128, value);
    }
}
END_TEST

/* The last of every bucket and the first of the next must not be mixed up: count each side. */
START_TEST(no_value_leaves_its_rank)
{
    enum { COUNT = 20000 };
    for (uint64_t i = 1; i <= COUNT; i++)
        hist_add(&hist, i * 9973);
    for (unsigned per_100k = 1; per_100k <= 100000; per_100k += 37) {
        uint64_t rank = ((uint64_t)COUNT * per_100k + 99999) / 100000;
        uint64_t exact = rank * 9973;
        uint64_t said = hist_quantile(&hist, per_100k);
        ck_assert_uint_ge(said, exact);
        ck_assert_uint_le((said - exact) * 128, exact);
    }
}
END_TEST

START_TEST(what_is_too_large_counts_last_and_the_maximum_is_exact)
{
    hist_add(&hist, 5);
    hist_add(&hist, UINT64_C(1) << HIST_VALUE_BITS);
    hist_add(&hist, UINT64_MAX);
    ck_assert_uint_eq(hist_quantile(&hist, 33000), 5);
    ck_assert_uint_eq(hist_quantile(&hist, 66000), (UINT64_C(1) << HIST_VALUE_BITS) - 1);
    ck_assert_uint_eq(hist_quantile(&hist, 100000), UINT64_MAX);
}
END_TEST

START_TEST(a_rare_stall_shows_at_its_own_percentile)
{
    for (int i = 0; i < 9990; i++)
        hist_add(&hist, 1000);
    for (int i = 0; i < 10; i++)
        hist_add(&hist, 1000000);
    ck_assert_uint_lt(hist_quantile(&hist, 99900), 1008);
    ck_assert_uint_eq(hist_quantile(&hist, 99901), 1000000);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("hist");
    TCase *tc = tcase_create("quantiles");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, an_empty_histogram_says_nothing);
    tcase_add_test(tc, one_value_is_every_quantile);
    tcase_add_test(tc, small_values_are_exact);
    tcase_add_loop_test(tc, a_value_is_reported_at_or_above_by_less_than_a_128th, 2,
                        HIST_VALUE_BITS + 1);
    tcase_add_test(tc, no_value_leaves_its_rank);
    tcase_add_test(tc, what_is_too_large_counts_last_and_the_maximum_is_exact);
    tcase_add_test(tc, a_rare_stall_shows_at_its_own_percentile);
    suite_add_tcase(suite, tc);
    return suite;
}
