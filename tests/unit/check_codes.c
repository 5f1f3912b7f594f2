#include "protocol/codes.h"

#include "tests/lib/suite.h"
#include "tests/lib/vectors.h"

#include <ctype.h>

struct row {
    const char *symbol;
    int number;
    const char *text; /* an error's name, a close code's reason */
    bool again;       /* retry, resume */
};

#define AS_ROW(symbol, number, text, again) {#symbol, number, text, again},
static const struct row ERRORS[] = {CODES_ERRORS(AS_ROW)};
static const struct row CLOSES[] = {CODES_CLOSES(AS_ROW)};

enum {
    ERROR_COUNT = sizeof(ERRORS) / sizeof(ERRORS[0]),
    CLOSE_COUNT = sizeof(CLOSES) / sizeof(CLOSES[0])
};

/* Is name the symbol in small letters without its CODE_ or CLOSE_, or does it begin so? */
static bool begins_with_symbol(const char *name, const char *symbol)
{
    const char *p = strchr(symbol, '_') + 1;
    while (*p != '\0') {
        if (*name++ != tolower((unsigned char)*p++))
            return false;
    }
    return true;
}

static bool flag(const cJSON *item, const char *member)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, member);
    ck_assert(cJSON_IsBool(value));
    return cJSON_IsTrue(value);
}

START_TEST(the_error_vectors_are_the_list)
{
    cJSON *root = vectors_load("codes.json");
    const cJSON *items = vectors_array(root, "errors");
    ck_assert_int_eq(cJSON_GetArraySize(items), ERROR_COUNT);
    for (int i = 0; i < ERROR_COUNT; i++) {
        const cJSON *item = cJSON_GetArrayItem(items, i);
        ck_assert_int_eq(vectors_number(item, "code"), ERRORS[i].number);
        ck_assert_str_eq(vectors_str(item, "name").p, ERRORS[i].text);
        ck_assert_int_eq(flag(item, "retry"), ERRORS[i].again);
        ck_assert(begins_with_symbol(ERRORS[i].text, ERRORS[i].symbol));
    }
    cJSON_Delete(root);
}
END_TEST

START_TEST(the_close_vectors_are_the_list)
{
    cJSON *root = vectors_load("codes.json");
    const cJSON *items = vectors_array(root, "close");
    ck_assert_int_eq(cJSON_GetArraySize(items), CLOSE_COUNT);
    for (int i = 0; i < CLOSE_COUNT; i++) {
        const cJSON *item = cJSON_GetArrayItem(items, i);
        ck_assert_int_eq(vectors_number(item, "code"), CLOSES[i].number);
        ck_assert_str_eq(vectors_str(item, "reason").p, CLOSES[i].text);
        ck_assert_int_eq(flag(item, "resume"), CLOSES[i].again);
        ck_assert(begins_with_symbol(vectors_str(item, "name").p, CLOSES[i].symbol));
    }
    cJSON_Delete(root);
}
END_TEST

START_TEST(each_close_code_has_its_reason_and_it_fits_a_close_frame)
{
    for (int i = 0; i < CLOSE_COUNT; i++) {
        const char *reason = codes_close_reason((enum code_close)CLOSES[i].number);
        ck_assert_str_eq(reason, CLOSES[i].text);
        /* RFC 6455: a control frame holds 125 bytes, two of them the code. */
        ck_assert_uint_le(strlen(reason), 123);
    }
}
END_TEST

START_TEST(codes_differ_and_close_codes_may_be_sent)
{
    for (int i = 0; i < ERROR_COUNT; i++) {
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(ERRORS[i].number, ERRORS[j].number);
    }
    for (int i = 0; i < CLOSE_COUNT; i++) {
        int code = CLOSES[i].number;
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(code, CLOSES[j].number);
        /* 1004 to 1006 and 1015 never go over the wire; 4000 to 4999 are an application's. */
        ck_assert((code >= 1000 && code <= 1014 && (code < 1004 || code > 1006)) ||
                  (code >= 4000 && code <= 4999));
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("codes");
    TCase *tc = tcase_create("list");
    tcase_add_test(tc, the_error_vectors_are_the_list);
    tcase_add_test(tc, the_close_vectors_are_the_list);
    tcase_add_test(tc, each_close_code_has_its_reason_and_it_fits_a_close_frame);
    tcase_add_test(tc, codes_differ_and_close_codes_may_be_sent);
    suite_add_tcase(suite, tc);
    return suite;
}
