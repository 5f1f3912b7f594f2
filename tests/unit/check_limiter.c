#include "session/limiter.h"
#include "tests/lib/suite.h"

static struct limiter limiter;

static unsigned take_all(uint64_t now_ms)
{
    unsigned taken = 0;
    while (limiter_take(&limiter, now_ms))
        taken++;
    return taken;
}

START_TEST(it_begins_full)
{
    limiter_init(&limiter, 10, 5, 1000);
    ck_assert_uint_eq(take_all(1000), 5);
}
END_TEST

START_TEST(it_gains_its_rate_and_never_more_than_its_burst)
{
    limiter_init(&limiter, 10, 5, 1000);
    (void)take_all(1000);
    ck_assert_uint_eq(take_all(1099), 0);
    ck_assert_uint_eq(take_all(1100), 1);
    ck_assert_uint_eq(take_all(1300), 2);
    ck_assert_uint_eq(take_all(900000), 5);
    ck_assert_uint_eq(take_all(UINT64_MAX), 5);
}
END_TEST

START_TEST(a_rate_of_0_is_no_limit)
{
    limiter_init(&limiter, 0, 1, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert(limiter_take(&limiter, 0));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("limiter");
    TCase *tc = tcase_create("limiter");
    tcase_add_test(tc, it_begins_full);
    tcase_add_test(tc, it_gains_its_rate_and_never_more_than_its_burst);
    tcase_add_test(tc, a_rate_of_0_is_no_limit);
    suite_add_tcase(suite, tc);
    return suite;
}
