#include "bench/bench_log_sheet.h"
#include "tests/lib/suite.h"

START_TEST(the_median_is_the_middle_whatever_the_order)
{
    double odd[] = {5, 1, 9};
    double even[] = {4, 1, 3, 2};
    double one[] = {7};
    ck_assert(bench_log_sheet_median(odd, 3) == 5);
    ck_assert(bench_log_sheet_median(even, 4) == 2.5);
    ck_assert(bench_log_sheet_median(one, 1) == 7);
    ck_assert(bench_log_sheet_median(one, 0) == 0);
}
END_TEST

START_TEST(values_of_one_name_come_together)
{
    struct bench_log_sheet *sheet = calloc(1, sizeof(*sheet));
    bench_log_sheet_add(sheet, "a", 1, 0);
    bench_log_sheet_add(sheet, "b", 2, 0);
    bench_log_sheet_add(sheet, "a", 3, 0);
    ck_assert_uint_eq(sheet->count, 2);
    ck_assert_uint_eq(sheet->rows[0].count, 2);
    ck_assert(sheet->rows[0].values[1] == 3);
    ck_assert_uint_eq(sheet->rows[1].count, 1);
    free(sheet);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("bench_log_sheet");
    TCase *tc = tcase_create("sheet");
    tcase_add_test(tc, the_median_is_the_middle_whatever_the_order);
    tcase_add_test(tc, values_of_one_name_come_together);
    suite_add_tcase(suite, tc);
    return suite;
}
