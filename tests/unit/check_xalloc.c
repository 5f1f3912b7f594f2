#include "base/xalloc.h"

#include "base/rd.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdint.h>

START_TEST(zeroed_memory_is_zero)
{
    unsigned char *p = xalloc_zero(100);
    for (size_t i = 0; i < 100; i++)
        ck_assert_int_eq(p[i], 0);
    free(p);
}
END_TEST

START_TEST(an_array_grows_and_keeps_what_it_held)
{
    uint64_t *p = xalloc_array(NULL, 2, sizeof(*p));
    p[0] = 7;
    p[1] = 8;
    p = xalloc_array(p, 1000, sizeof(*p));
    ck_assert_uint_eq(p[0], 7);
    ck_assert_uint_eq(p[1], 8);
    free(p);
}
END_TEST

START_TEST(a_copied_text_has_a_nul_behind_it)
{
    char *p = xalloc_str((struct str){"abcd", 2});
    ck_assert_str_eq(p, "ab");
    free(p);
    p = xalloc_str((struct str){NULL, 0});
    ck_assert_str_eq(p, "");
    free(p);
}
END_TEST

/* volatile: the compiler would tell us at once that it can't work. */
static volatile size_t huge = SIZE_MAX / 2;

START_TEST(a_product_that_wraps_ends_the_process)
{
    free(xalloc_array(NULL, huge, 4));
}
END_TEST

START_TEST(every_error_has_a_text_of_its_own)
{
    for (int i = 0; i < RD_ERR_COUNT; i++)
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(rd_err_text((enum rd_err)i), rd_err_text((enum rd_err)j));
    ck_assert_str_eq(rd_err_text(RD_OK), "ok");
    ck_assert_str_eq(rd_err_text(RD_ERR_COUNT), "unknown error");
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("xalloc");
    TCase *tc = tcase_create("xalloc");
    tcase_add_test(tc, zeroed_memory_is_zero);
    tcase_add_test(tc, an_array_grows_and_keeps_what_it_held);
    tcase_add_test(tc, a_copied_text_has_a_nul_behind_it);
    tcase_add_test_raise_signal(tc, a_product_that_wraps_ends_the_process, SIGABRT);
    tcase_add_test(tc, every_error_has_a_text_of_its_own);
    suite_add_tcase(suite, tc);
    return suite;
}
