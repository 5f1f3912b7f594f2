#include "roomlog/state_value.h"

#include "tests/lib/suite.h"

#include <stdio.h>

#define KEY STR("card:7")

static struct roomlog_publish all(void)
{
    return (struct roomlog_publish){.type = STR("mo\"ve"),
                                    .data = STR("{\"x\": 1.50}"),
                                    .from = STR("ann"),
                                    .ref = STR("r"),
                                    .key = KEY};
}

START_TEST(the_head_is_json_up_to_the_data)
{
    struct roomlog_publish what = all();
    struct str head = state_value_head(&what);
    ck_assert(str_eq(head, STR("{\"type\":\"mo\\\"ve\",\"from\":\"ann\",\"data\":")));
    free((char *)head.p);
    what.type.p = what.from.p = NULL;
    head = state_value_head(&what);
    ck_assert(str_eq(head, STR("{\"data\":")));
    free((char *)head.p);
}
END_TEST

START_TEST(a_value_is_read_as_it_was_written)
{
    struct roomlog_publish what = all();
    struct roomlog_entry entry;
    char text[128], scratch[128];
    struct str head = state_value_head(&what);
    int len = snprintf(text, sizeof(text), "17-3 %.*s%.*s}", (int)head.len, head.p,
                       (int)what.data.len, what.data.p);
    free((char *)head.p);
    ck_assert_uint_eq(state_value_bytes(KEY, (struct stream_id){17, 3}, &what),
                      KEY.len + (size_t)len);
    ck_assert(state_value_parse(KEY, (struct str){text, (size_t)len}, scratch, &entry));
    ck_assert_uint_eq(entry.id.ms, 17);
    ck_assert_uint_eq(entry.id.seq, 3);
    ck_assert(str_eq(entry.key, KEY));
    ck_assert(str_eq(entry.type, what.type));
    ck_assert(str_eq(entry.from, what.from));
    ck_assert(str_eq(entry.data, what.data));
    ck_assert(!str_present(entry.ref) && !entry.prev_known);
}
END_TEST

static const struct {
    const char *text;
    bool good;
} VALUES[] = {
    {"1-0 {\"data\":1}", true},
    {"1-0 {\"data\": [ ] , \"more\":2}", true},
    {"1-0 {\"data\":\"null\"}", true},
    {"1-0 {\"type\":\"\\u0061\",\"data\":1}", true},
    {"", false},
    {"1-0", false},
    {"1-0 ", false},
    {" {\"data\":1}", false},
    {"0-0 {\"data\":1}", false},
    {"01-0 {\"data\":1}", false},
    {"1-0 {}", false},
    {"1-0 [1]", false},
    {"1-0 {\"data\":null}", false},
    {"1-0 {\"data\":1", false},
    {"1-0 {\"data\":1}x", false},
    {"1-0 {\"type\":1,\"data\":1}", false},
    {"1-0 {\"from\":null,\"data\":1}", false},
    {"1-0 {\"data\":1,\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1}", false},
};

START_TEST(what_others_write_is_read_where_it_is_one)
{
    struct roomlog_entry entry;
    size_t len = strlen(VALUES[_i].text);
    char *text = malloc(len + (len == 0)); /* to its last byte and no further */
    char *scratch = malloc(len + (len == 0));
    memcpy(text, VALUES[_i].text, len);
    ck_assert(state_value_parse(KEY, (struct str){text, len}, scratch, &entry) == VALUES[_i].good);
    free(scratch);
    free(text);
}
END_TEST

START_TEST(null_and_nothing_delete)
{
    ck_assert(state_value_deletes(STR("null")));
    ck_assert(state_value_deletes((struct str){NULL, 0}));
    ck_assert(!state_value_deletes(STR("\"null\"")));
    ck_assert(!state_value_deletes(STR("0")));
}
END_TEST

START_TEST(names_that_begin_with_a_nul_are_the_states_own)
{
    ck_assert(state_value_has_place(STR("k")));
    ck_assert(state_value_has_place(STR("")));
    ck_assert(state_value_has_place(STR("k\0")));
    ck_assert(!state_value_has_place(STR("\0id")));
    ck_assert(!state_value_has_place((struct str){NULL, 0}));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("state_value");
    TCase *tc = tcase_create("state_value");
    tcase_add_test(tc, the_head_is_json_up_to_the_data);
    tcase_add_test(tc, a_value_is_read_as_it_was_written);
    tcase_add_loop_test(tc, what_others_write_is_read_where_it_is_one, 0,
                        sizeof(VALUES) / sizeof(VALUES[0]));
    tcase_add_test(tc, null_and_nothing_delete);
    tcase_add_test(tc, names_that_begin_with_a_nul_are_the_states_own);
    suite_add_tcase(suite, tc);
    return suite;
}
