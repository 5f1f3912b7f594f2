#include "base/metrics.h"

#include "tests/lib/suite.h"

#include <stdio.h>

static struct metrics m;
static char text[65536];

static void make(void)
{
    memset(&m, 0, sizeof(m));
}

static void print(void)
{
    size_t len = metrics_print(&m, text, sizeof(text));
    ck_assert_uint_lt(len, sizeof(text));
    ck_assert_uint_eq(strlen(text), len);
}

START_TEST(each_has_its_help_its_type_and_its_value)
{
    metrics_add(&m, M_JOINS, 40);
    metrics_inc(&m, M_JOINS);
    metrics_set(&m, M_ROOMS, 8);
    metrics_dec(&m, M_ROOMS);
    print();
    ck_assert_ptr_nonnull(strstr(text, "# HELP roomd_joins_total joins answered with joined\n"
                                       "# TYPE roomd_joins_total counter\n"
                                       "roomd_joins_total 41\n"));
    ck_assert_ptr_nonnull(strstr(text, "# TYPE roomd_rooms gauge\nroomd_rooms 7\n"));
}
END_TEST

START_TEST(every_line_is_one_of_the_three_and_no_name_comes_twice)
{
    static char names[METRICS_COUNT][64];
    size_t count = 0;
    print();
    for (char *at = text; *at != '\0';) {
        char help[64], type[64], kind[16], name[64];
        unsigned long long value;
        int len = 0;
        ck_assert_int_eq(sscanf(at, "# HELP %63[a-z_] %*[^\n]\n# TYPE %63s %15s\n%63s %llu\n%n",
                                help, type, kind, name, &value, &len),
                         5);
        ck_assert_str_eq(help, name);
        ck_assert_str_eq(type, name);
        ck_assert(strcmp(kind, "counter") == 0 || strcmp(kind, "gauge") == 0);
        /* Prometheus' own rule: a counter ends in _total, and nothing else does. */
        const char *end = strstr(name, "_total");
        ck_assert((end != NULL && end[6] == '\0') == (strcmp(kind, "counter") == 0));
        for (size_t i = 0; i < count; i++)
            ck_assert_str_ne(names[i], name);
        ck_assert_uint_lt(count, METRICS_COUNT);
        (void)snprintf(names[count++], sizeof(names[0]), "%s", name);
        at += len;
    }
    ck_assert_uint_eq(count, METRICS_COUNT);
}
END_TEST

START_TEST(the_largest_number_is_printed_whole)
{
    metrics_set(&m, M_BYTES_OUT, UINT64_MAX);
    print();
    ck_assert_ptr_nonnull(strstr(text, "roomd_bytes_out_total 18446744073709551615\n"));
}
END_TEST

START_TEST(too_little_room_gets_what_fits_and_the_length_needed)
{
    print();
    size_t need = strlen(text);
    for (size_t cap = 0; cap <= need + 1; cap += cap < 300 || cap + 300 > need ? 1 : 97) {
        char *dst = malloc(cap + (cap == 0)); /* exactly: the sanitizer watches */
        ck_assert_uint_eq(metrics_print(&m, dst, cap), need);
        if (cap != 0) {
            ck_assert_uint_eq(strlen(dst), cap - 1 < need ? cap - 1 : need);
            ck_assert_mem_eq(dst, text, strlen(dst));
        }
        free(dst);
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = tcase_create("metrics");
    tcase_add_checked_fixture(tc, make, NULL);
    tcase_add_test(tc, each_has_its_help_its_type_and_its_value);
    tcase_add_test(tc, every_line_is_one_of_the_three_and_no_name_comes_twice);
    tcase_add_test(tc, the_largest_number_is_printed_whole);
    tcase_add_test(tc, too_little_room_gets_what_fits_and_the_length_needed);
    suite_add_tcase(suite, tc);
    return suite;
}
