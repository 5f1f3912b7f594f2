#include "protocol/stream_id.h"

#include "tests/lib/suite.h"
#include "tests/lib/vectors.h"

static cJSON *root;

static void load(void)
{
    root = vectors_load("stream_id.json");
}

static void unload(void)
{
    cJSON_Delete(root);
}

START_TEST(canonical_ids_parse_to_both_numbers)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "ok"))
    {
        struct str text = vectors_bytes(item, "text");
        struct stream_id id;
        ck_assert_msg(stream_id_parse(text, &id), "refused: %.*s", (int)text.len, text.p);
        ck_assert_uint_eq(id.ms, strtoull(vectors_str(item, "ms").p, NULL, 10));
        ck_assert_uint_eq(id.seq, strtoull(vectors_str(item, "seq").p, NULL, 10));
        vectors_free(text);
    }
}
END_TEST

START_TEST(format_gives_back_the_text_and_fits)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "ok"))
    {
        struct stream_id id = vectors_id(item, "text");
        struct str want = vectors_str(item, "text");
        char *dst = malloc(want.len); /* exactly: one byte too many is caught */
        ck_assert_uint_le(want.len, STREAM_ID_TEXT_MAX);
        ck_assert_uint_eq(stream_id_format(id, dst), want.len);
        ck_assert_mem_eq(dst, want.p, want.len);
        free(dst);
    }
}
END_TEST

START_TEST(the_longest_id_fills_text_max_exactly)
{
    char dst[STREAM_ID_TEXT_MAX];
    ck_assert_uint_eq(stream_id_format(STREAM_ID_MAX, dst), STREAM_ID_TEXT_MAX);
}
END_TEST

START_TEST(malformed_ids_are_refused_and_leave_the_out_parameter)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "bad"))
    {
        struct str text = vectors_copy(str_from(item->valuestring));
        struct stream_id id = {7, 8};
        ck_assert_msg(!stream_id_parse(text, &id), "taken: %.*s", (int)text.len, text.p);
        ck_assert_uint_eq(id.ms, 7);
        ck_assert_uint_eq(id.seq, 8);
        vectors_free(text);
    }
}
END_TEST

START_TEST(a_nul_anywhere_is_refused)
{
    static const struct str TEXTS[] = {{"\0", 1},    {"1\0-0", 4},   {"1-\0", 3},
                                       {"1-0\0", 4}, {"\0001-0", 4}, {NULL, 0}};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        struct stream_id id;
        ck_assert(!stream_id_parse(TEXTS[i], &id));
    }
}
END_TEST

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

START_TEST(ids_compare_as_two_numbers)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "compare"))
    {
        struct stream_id a, b;
        int want = cJSON_GetArrayItem(item, 2)->valueint;
        ck_assert(stream_id_parse(str_from(cJSON_GetArrayItem(item, 0)->valuestring), &a));
        ck_assert(stream_id_parse(str_from(cJSON_GetArrayItem(item, 1)->valuestring), &b));
        ck_assert_int_eq(sign(stream_id_cmp(a, b)), want);
        ck_assert_int_eq(sign(stream_id_cmp(b, a)), -want);
        ck_assert_int_eq(stream_id_eq(a, b), want == 0);
    }
}
END_TEST

START_TEST(only_zero_is_zero)
{
    ck_assert(stream_id_is_zero(STREAM_ID_ZERO));
    ck_assert(!stream_id_is_zero((struct stream_id){0, 1}));
    ck_assert(!stream_id_is_zero((struct stream_id){1, 0}));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("stream_id");
    TCase *tc = tcase_create("text");
    tcase_add_checked_fixture(tc, load, unload);
    tcase_add_test(tc, canonical_ids_parse_to_both_numbers);
    tcase_add_test(tc, format_gives_back_the_text_and_fits);
    tcase_add_test(tc, the_longest_id_fills_text_max_exactly);
    tcase_add_test(tc, malformed_ids_are_refused_and_leave_the_out_parameter);
    tcase_add_test(tc, a_nul_anywhere_is_refused);
    suite_add_tcase(suite, tc);

    tc = tcase_create("order");
    tcase_add_checked_fixture(tc, load, unload);
    tcase_add_test(tc, ids_compare_as_two_numbers);
    tcase_add_test(tc, only_zero_is_zero);
    suite_add_tcase(suite, tc);
    return suite;
}
