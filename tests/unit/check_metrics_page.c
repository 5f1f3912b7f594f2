#include "bench/metrics_page.h"
#include "tests/lib/suite.h"

#include <string.h>

static struct metrics_page page;

static void setup(void)
{
    strcpy(page.text, "HTTP/1.1 200 OK\r\n\r\n# HELP roomd_pages_total pages\n"
                      "# TYPE roomd_pages_total counter\nroomd_pages_total 41\n"
                      "roomd_pages_shared_total 18446744073709551615\n");
}

START_TEST(a_value_is_found_by_its_whole_name)
{
    ck_assert_uint_eq(metrics_page_value(&page, "pages_total"), 41);
    ck_assert_uint_eq(metrics_page_value(&page, "pages_shared_total"), UINT64_MAX);
}
END_TEST

START_TEST(what_is_not_there_is_zero)
{
    ck_assert_uint_eq(metrics_page_value(&page, "pages"), 0);
    ck_assert_uint_eq(metrics_page_value(&page, "total"), 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("metrics_page");
    TCase *tc = tcase_create("values");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, a_value_is_found_by_its_whole_name);
    tcase_add_test(tc, what_is_not_there_is_zero);
    suite_add_tcase(suite, tc);
    return suite;
}
