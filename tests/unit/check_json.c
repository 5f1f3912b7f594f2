#include "protocol/json.h"

#include "tests/lib/suite.h"
#include "tests/lib/vectors.h"

#include <stdint.h>

/* --- check ---------------------------------------------------------------------------------- */

/* A string literal that may hold NUL. */
#define T(literal)                                                                                 \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* After the naming of the well-known test suites: y must be taken, n must be refused. */
static const struct str Y[] = {
    /* scalars, alone and with blanks */
    T("null"),
    T("true"),
    T("false"),
    T("0"),
    T("\"\""),
    T(" \t\r\n1 \t\r\n"),
    T("[]"),
    T("{}"),
    T("[ ]"),
    T("{ \n}"),
    T("[[]]"),
    T("[{}]"),
    T("[[],{}]"),
    T("{\"\":{}}"),
    T("[null,1,\"1\",{}]"),
    /* numbers */
    T("-0"),
    T("-1"),
    T("0.0"),
    T("-0.0"),
    T("10"),
    T("123e65"),
    T("0e1"),
    T("0e+1"),
    T("0E-0"),
    T("1E22"),
    T("1.5E-2"),
    T("[1e1000]"),
    T("-1e-9999"),
    T("18446744073709551616"),
    T("-9223372036854775809"),
    T("0.00000000000000000000000000000000000000000000000000000000001"),
    T("123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"),
    /* strings */
    T("\"a\""),
    T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    T("\"\\u0000\""),
    T("\"\\uABCD\\uabcd\""),
    T("\"\\\\u0000\""),
    T("\"\\\\\""),
    T("\"\\\\\\\"\""),
    T("\"[{,:}]\""),
    T("\"\x7f\""),
    T("\"\\ud83d\\ude00\""),
    T("\"\\ud800\""),
    T("\"\\udc00\""),
    T("\"\\ud800\\ud800\""),
    T("\"\\udc00\\ud800\""),
    T("\"\\uFFFF\\uFFFE\""),
    T("\"\xc2\x80\""),
    T("\"\xdf\xbf\""),
    T("\"\xe0\xa0\x80\""),
    T("\"\xed\x9f\xbf\""),
    T("\"\xee\x80\x80\""),
    T("\"\xef\xbf\xbf\""),
    T("\"\xf0\x90\x80\x80\""),
    T("\"\xf4\x8f\xbf\xbf\""),
    T("\"\xe2\x80\xa8\xe2\x80\xa9\""),
    T("\"\xef\xbb\xbf\""),
    T("\"0123456789abcdef0123456789abcdef\""),
    T("\"0123456\xc3\xa9"
      "01234567\xc3\xa9\""),
    /* objects and arrays */
    T("{\"a\":1,\"a\":1}"),
    T("{\"\\u0000\":1}"),
    T("{\"a\":[]}"),
    T("{ \"a\" : 1 , \"b\" : [ 2 , 3 ] }"),
    T("[1,\n2\n,\t3]"),
    T("{\"a\":{\"b\":{\"c\":[{}]}}}"),
    T("[[1],[2]]"),
    T("[{\"a\":1},{\"a\":2}]"),
};

static const struct str N[] = {
    /* nothing, or not one value */
    T(""),
    T(" "),
    T("\n"),
    T("1 2"),
    T("[] []"),
    T("{}{}"),
    T("[],"),
    T("nullnull"),
    T("1,"),
    T("\"a\"\"b\""),
    T("\"a\" x"),
    T("null\0"),
    T("\0"),
    T("1\0"),
    T("\xef\xbb\xbf{}"),
    T("\f1"),
    T("\v1"),
    T("\xc2\xa0"
      "1"),
    T("1\xc2\xa0"),
    T("1//x"),
    T("/**/1"),
    T("#1"),
    T(";"),
    /* words */
    T("nul"),
    T("nulL"),
    T("Null"),
    T("TRUE"),
    T("tru"),
    T("truee"),
    T("t"),
    T("f"),
    T("n"),
    T("fals"),
    T("undefined"),
    T("NaN"),
    T("nan"),
    T("Infinity"),
    T("-Infinity"),
    T("inf"),
    T("-"),
    T("+"),
    /* numbers */
    T("01"),
    T("-01"),
    T("00"),
    T("-00"),
    T("+1"),
    T("++1"),
    T("--1"),
    T("-a"),
    T(".5"),
    T("-.5"),
    T("1."),
    T("1.e1"),
    T("-1."),
    T("0.e1"),
    T("1e"),
    T("1e+"),
    T("1e+-1"),
    T("1e-+1"),
    T("1e-"),
    T("1E"),
    T("1e1.5"),
    T("1ee1"),
    T("0e"),
    T("0x1"),
    T("0b1"),
    T("1_000"),
    T("1 000"),
    T("1,5"),
    T("1.2.3"),
    T("1-2"),
    T("1+2"),
    T("- 1"),
    T("1f"),
    T("1L"),
    T("0 0"),
    T("0.1.2"),
    T("1\xef\xbc\x91"),
    T("\xef\xbc\x91"),
    /* strings */
    T("\""),
    T("\"a"),
    T("a\""),
    T("'a'"),
    T("`a`"),
    T("\"\\\""),
    T("\"\\"),
    T("\"\\\\\\\""),
    T("\"\\a\""),
    T("\"\\x41\""),
    T("\"\\0\""),
    T("\"\\'\""),
    T("\"\\U0041\""),
    T("\"\\u\""),
    T("\"\\u1\""),
    T("\"\\u12\""),
    T("\"\\u123\""),
    T("\"\\u123g\""),
    T("\"\\u 123\""),
    T("\"\\u+123\""),
    T("\"\\u12"),
    T("\"\\\n\""),
    T("\"\\\0\""),
    T("\"\0\""),
    T("\"\n\""),
    T("\"\t\""),
    T("\"\x1f\""),
    T("\"abcdefgh\x01\""),
    T("\"abcdefghijklmnop\r\""),
    /* UTF-8 */
    T("\"\x80\""),
    T("\"\xbf\""),
    T("\"\xc0\x80\""),
    T("\"\xc1\xbf\""),
    T("\"\xc2\""),
    T("\"\xc2"),
    T("\"\xc3\x28\""),
    T("\"\xe0\x80\x80\""),
    T("\"\xe0\x9f\xbf\""),
    T("\"\xe2\x82\""),
    T("\"\xe2\x28\xa1\""),
    T("\"\xe2\x82"),
    T("\"\xed\xa0\x80\""),
    T("\"\xed\xbf\xbf\""),
    T("\"\xf0\x80\x80\x80\""),
    T("\"\xf0\x8f\xbf\xbf\""),
    T("\"\xf0\x9f\x98\""),
    T("\"\xf0\x9f\x98"),
    T("\"\xf4\x90\x80\x80\""),
    T("\"\xf5\x80\x80\x80\""),
    T("\"\xf8\x88\x80\x80\x80\""),
    T("\"\xfe\""),
    T("\"\xff\""),
    T("\"caf\xe9\""),
    T("\"abcdefgh\xff\""),
    T("{\"\xff\":1}"),
    T("[\xc3\xa9]"),
    /* arrays */
    T("["),
    T("]"),
    T("[1"),
    T("[1,"),
    T("[1,]"),
    T("[,1]"),
    T("[,]"),
    T("[1,,2]"),
    T("[1 2]"),
    T("[1:2]"),
    T("[\"a\":1]"),
    T("[1}"),
    T("[}"),
    T("[[]"),
    T("[]]"),
    T("[[[["),
    T("[1]]"),
    T("[\"a\""),
    T("[-]"),
    T("[nul]"),
    T("[1\0]"),
    T("(1)"),
    T("<null>"),
    T("[\f]"),
    /* objects */
    T("{"),
    T("}"),
    T("{]"),
    T("{\"a\""),
    T("{\"a\":"),
    T("{\"a\":1"),
    T("{\"a\":1,"),
    T("{\"a\":1,}"),
    T("{,}"),
    T("{,\"a\":1}"),
    T("{\"a\"}"),
    T("{\"a\":}"),
    T("{:1}"),
    T("{\"a\"::1}"),
    T("{\"a\" 1}"),
    T("{\"a\",1}"),
    T("{\"a\":1 \"b\":2}"),
    T("{\"a\":1,,\"b\":2}"),
    T("{a:1}"),
    T("{'a':1}"),
    T("{1:1}"),
    T("{null:1}"),
    T("{[]:1}"),
    T("{\"a\":1}}"),
    T("{\"a\":1]"),
    T("{\"a\":[1}"),
    T("{\"a\":1:2}"),
    T("{\"a\\\":1}"),
    T("{\"a\":/**/1}"),
    T("{\"a\":1}#"),
    T("{\"a\":b}"),
    T("{\"\n\":1}"),
    T("{\"a\":\"b}"),
};

static enum json_verdict check(struct str text, unsigned depth)
{
    struct str copy = vectors_copy(text);
    enum json_verdict verdict = json_check(copy, depth);
    vectors_free(copy);
    return verdict;
}

START_TEST(what_the_rfc_allows_is_taken)
{
    ck_assert_msg(check(Y[_i], 5) == JSON_OK, "refused: %.*s", (int)Y[_i].len, Y[_i].p);
}
END_TEST

START_TEST(what_the_rfc_forbids_is_refused)
{
    ck_assert_msg(check(N[_i], 5) == JSON_BAD, "not refused: %.*s", (int)N[_i].len, N[_i].p);
}
END_TEST

START_TEST(no_beginning_of_a_value_is_a_value)
{
    /* Of a number it may be: "12" begins with "1". Closed texts have no such beginning. */
    char first = Y[_i].p[0];
    if (first != '{' && first != '[' && first != '"')
        return;
    for (size_t len = 0; len < Y[_i].len; len++)
        ck_assert_int_eq(check((struct str){Y[_i].p, len}, 5), JSON_BAD);
}
END_TEST

START_TEST(a_broken_byte_in_a_string_is_found_at_every_place)
{
    /* Eight bytes are looked at together: each place among them, and the rest behind them. */
    static const char BROKEN[] = {'\0', '\x1f', '\n', '\x80', '\xff', '"'};
    char text[40];
    memset(text, 'a', sizeof(text));
    text[0] = text[sizeof(text) - 1] = '"';
    ck_assert_int_eq(check((struct str){text, sizeof(text)}, 0), JSON_OK);
    for (size_t at = 1; at < sizeof(text) - 1; at++) {
        for (size_t i = 0; i < sizeof(BROKEN); i++) {
            text[at] = BROKEN[i];
            ck_assert_int_eq(check((struct str){text, sizeof(text)}, 0), JSON_BAD);
        }
        text[at] = 'a';
    }
}
END_TEST

/* depth containers: all arrays, all objects, or taking turns. */
static struct str nest(unsigned depth, const char *kind)
{
    static char text[8 * (JSON_DEPTH_MAX + 2)];
    size_t len = 0;
    for (unsigned i = 0; i < depth; i++) {
        bool object = kind[i % strlen(kind)] == '{';
        memcpy(text + len, object ? "{\"a\":" : "[", object ? 5 : 1);
        len += object ? 5 : 1;
    }
    text[len++] = '1';
    for (unsigned i = depth; i-- > 0;)
        text[len++] = kind[i % strlen(kind)] == '{' ? '}' : ']';
    return (struct str){text, len};
}

START_TEST(depth_is_held_against_the_limit_exactly)
{
    static const char *const KINDS[] = {"[", "{", "[{", "{[[", "[[{{{"};
    static const unsigned DEPTHS[] = {1, 2, 32, 63, 64, 65, 128, 200, JSON_DEPTH_MAX};
    const char *kind = KINDS[_i];
    for (size_t i = 0; i < sizeof(DEPTHS) / sizeof(DEPTHS[0]); i++) {
        unsigned depth = DEPTHS[i];
        ck_assert_int_eq(check(nest(depth, kind), depth), JSON_OK);
        ck_assert_int_eq(check(nest(depth, kind), depth - 1), JSON_TOO_DEEP);
        ck_assert_int_eq(check(nest(depth + 1, kind), depth), JSON_TOO_DEEP);
    }
}
END_TEST

START_TEST(brackets_of_the_wrong_kind_are_found_at_every_depth)
{
    struct str text = nest(200, "[{");
    for (size_t at = text.len - 200; at < text.len; at++) {
        char *p = (char *)text.p + at;
        char was = *p;
        *p = was == ']' ? '}' : ']';
        ck_assert_int_eq(check(text, JSON_DEPTH_MAX), JSON_BAD);
        *p = was;
    }
    ck_assert_int_eq(check(text, JSON_DEPTH_MAX), JSON_OK);
}
END_TEST

START_TEST(depth_counts_what_is_open_and_not_what_was)
{
    ck_assert_int_eq(check(STR("[[],[],[[]],{}]"), 3), JSON_OK);
    ck_assert_int_eq(check(STR("[[],[],[[]],{}]"), 2), JSON_TOO_DEEP);
    ck_assert_int_eq(check(STR("1"), 0), JSON_OK);
    ck_assert_int_eq(check(STR("[]"), 0), JSON_TOO_DEEP);
    ck_assert_int_eq(check(STR("\"[[[[\""), 0), JSON_OK);
}
END_TEST

START_TEST(an_absent_text_is_no_value)
{
    ck_assert_int_eq(json_check((struct str){NULL, 0}, 5), JSON_BAD);
}
END_TEST

/* --- members -------------------------------------------------------------------------------- */

START_TEST(members_are_the_texts_between_the_blanks)
{
    static const struct {
        const char *key, *value;
    } WANT[] = {{"a", "1"},        {"", "\"\""},         {"\\\"k\\\\", "[ 1 , {\"x\":\"]}\"} ]"},
                {"a", "-0.10e+2"}, {"n", "null"},        {"s", "\"\\\\\\\"}{,:\""},
                {"o", "{}"},       {"\xc3\xa9", "false"}};
    struct str text =
        vectors_copy(STR("\n{ \"a\" : 1 ,\"\":\"\",\r\n\"\\\"k\\\\\":[ 1 , {\"x\":\"]}\"} ]\t,"
                         "\"a\":-0.10e+2 , \"n\":null,\"s\": \"\\\\\\\"}{,:\" ,\"o\":{}"
                         ",\"\xc3\xa9\":false } "));
    struct json_member members[8];
    ck_assert_int_eq(json_check(text, 5), JSON_OK);
    ck_assert_uint_eq(json_members(text, members, 8), 8);
    for (size_t i = 0; i < 8; i++) {
        ck_assert(str_eq(members[i].key, str_from(WANT[i].key)));
        ck_assert(str_eq(members[i].value, str_from(WANT[i].value)));
    }
    vectors_free(text);
}
END_TEST

START_TEST(members_beyond_the_cap_are_counted_and_not_written)
{
    struct str text = STR("{\"a\":1,\"b\":2,\"c\":3}");
    struct json_member members[2] = {0};
    ck_assert_uint_eq(json_members(text, members, 1), 3);
    ck_assert(str_eq(members[0].key, STR("a")));
    ck_assert(!str_present(members[1].key));
    ck_assert_uint_eq(json_members(text, NULL, 0), 3);
}
END_TEST

START_TEST(only_an_object_has_members)
{
    static const char *const OTHERS[] = {"[]", "[{}]", "1", "\"{}\"", "null", " true "};
    struct json_member member;
    for (size_t i = 0; i < sizeof(OTHERS) / sizeof(OTHERS[0]); i++)
        ck_assert_uint_eq(json_members(str_from(OTHERS[i]), &member, 1), SIZE_MAX);
    ck_assert_uint_eq(json_members(STR("{}"), &member, 1), 0);
    ck_assert_uint_eq(json_members(STR(" { \n} "), &member, 1), 0);
}
END_TEST

/* --- UTF-8 ---------------------------------------------------------------------------------- */

/* Unicode table 3-7, from the code point's side: encode, and say whether that may be. */
static size_t encode(uint32_t c, unsigned len, char *dst)
{
    static const unsigned char LEADS[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (unsigned i = len; i-- > 1;) {
        dst[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    dst[0] = (char)(len == 1 ? c : LEADS[len] | c);
    return len;
}

START_TEST(each_code_point_is_valid_in_its_shortest_form_alone)
{
    static const uint32_t LIMITS[] = {0, 0x80, 0x800, 0x10000, 0x200000};
    for (unsigned len = 1; len <= 4; len++) {
        for (uint32_t c = 0; c < (len == 4 ? 0x140000 : LIMITS[len]); c += len == 4 ? 13 : 1) {
            char text[4];
            bool want = c >= LIMITS[len - 1] && !(c >= 0xd800 && c < 0xe000) && c <= 0x10ffff;
            struct str s = {text, encode(c, len, text)};
            ck_assert_msg(json_utf8_valid(s) == want, "U+%04X in %u bytes", (unsigned)c, len);
        }
    }
}
END_TEST

START_TEST(utf8_is_checked_to_the_last_byte)
{
    struct str text = vectors_copy(STR("0123456789abcdef \"\\ \x01 \xf0\x9f\x98\x80"));
    ck_assert(json_utf8_valid(text));
    for (size_t cut = 1; cut < 4; cut++)
        ck_assert(!json_utf8_valid((struct str){text.p, text.len - cut}));
    ck_assert(json_utf8_valid((struct str){text.p, text.len - 4}));
    ck_assert(json_utf8_valid((struct str){NULL, 0}));
    ck_assert(json_utf8_valid((struct str){"\0", 1}));
    vectors_free(text);
}
END_TEST

/* --- quote ---------------------------------------------------------------------------------- */

static const struct {
    struct str raw;
    const char *want;
} QUOTES[] = {
    {T(""), "\"\""},
    {T("abc"), "\"abc\""},
    {T("\"\\/"), "\"\\\"\\\\/\""},
    {T("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\""},
    {T("\0\x01\x1f\x7f"), "\"\\u0000\\u0001\\u001f\x7f\""},
    {T("01234567\n01234567\""), "\"01234567\\n01234567\\\"\""},
    {T("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
    {T("\xff"), "\"\xef\xbf\xbd\""},
    {T("a\x80z"), "\"a\xef\xbf\xbdz\""},
    {T("\xe2\x82"), "\"\xef\xbf\xbd\""},
    {T("\xe2\x82x"), "\"\xef\xbf\xbdx\""},
    {T("\xf0\x9f\x98"), "\"\xef\xbf\xbd\""},
    {T("\xf0\x9f\xf0\x9f\x98\x80"), "\"\xef\xbf\xbd\xf0\x9f\x98\x80\""},
    {T("\xc0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    {T("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {T("\xf4\x90\x80\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
};

START_TEST(quoting_escapes_what_json_demands_and_replaces_what_is_no_utf8)
{
    struct str raw = vectors_copy(QUOTES[_i].raw);
    struct str want = str_from(QUOTES[_i].want);
    for (size_t cap = 0; cap <= want.len; cap++) {
        char *dst = malloc(cap + (cap == 0));
        ck_assert_uint_eq(json_quote(dst, cap, raw), want.len);
        ck_assert_mem_eq(dst, want.p, cap);
        free(dst);
    }
    ck_assert_int_eq(json_check(want, 0), JSON_OK);
    vectors_free(raw);
}
END_TEST

START_TEST(every_byte_and_every_pair_of_bytes_quotes_to_a_json_string)
{
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        char raw[2] = {(char)(pair >> 8), (char)pair};
        char dst[32];
        size_t len = json_quote(dst, sizeof(dst), (struct str){raw, 2});
        ck_assert_uint_le(len, sizeof(dst));
        ck_assert_int_eq(json_check((struct str){dst, len}, 0), JSON_OK);
    }
}
END_TEST

/* --- unquote -------------------------------------------------------------------------------- */

static const struct {
    const char *quoted;
    struct str want;
} UNQUOTES[] = {
    {"\"\"", T("")},
    {"\"abc\"", T("abc")},
    {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", T("a\"\\/\b\f\n\r\tz")},
    {"\"\\u0000\\u001f\\u007f\"", T("\0\x1f\x7f")},
    {"\"\\u00e9\\u07ff\\u0800\\u20AC\\uffff\"",
     T("\xc3\xa9\xdf\xbf\xe0\xa0\x80\xe2\x82\xac\xef\xbf\xbf")},
    {"\"\\ud83d\\ude00\\uDBFF\\uDFFF\"", T("\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf")},
    {"\"\\ud83d\"", T("\xef\xbf\xbd")},
    {"\"\\ude00x\"", T("\xef\xbf\xbdx")},
    {"\"\\ud83d\\u0041\"", T("\xef\xbf\xbd"
                             "A")},
    {"\"\\ud83d\\n\"", T("\xef\xbf\xbd\n")},
    {"\"\\ud83d\\ud83d\\ude00\"", T("\xef\xbf\xbd\xf0\x9f\x98\x80")},
    {"\"\xc3\xa9\"", T("\xc3\xa9")},
};

START_TEST(unquoting_says_what_a_string_means)
{
    struct str quoted = vectors_copy(str_from(UNQUOTES[_i].quoted));
    struct str want = UNQUOTES[_i].want;
    ck_assert_int_eq(json_check(quoted, 0), JSON_OK);
    char *dst = malloc(quoted.len - 1);
    ck_assert_uint_eq(json_unquote(dst, quoted), want.len);
    ck_assert_mem_eq(dst, want.p, want.len);
    free(dst);
    vectors_free(quoted);
}
END_TEST

START_TEST(what_was_quoted_comes_back)
{
    for (unsigned c = 0; c <= 0x10ffff; c += c < 0x900 ? 1 : 61) {
        char raw[8], quoted[32], dst[32];
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        size_t len = 0;
        if (c < 0x80) {
            raw[len++] = (char)c;
        } else {
            unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            raw[len++] = (char)((0xff00 >> (more + 1)) | (c >> 6 * more));
            while (more-- > 0)
                raw[len++] = (char)(0x80 | (c >> 6 * more & 0x3f));
        }
        size_t quoted_len = json_quote(quoted, sizeof(quoted), (struct str){raw, len});
        ck_assert_uint_eq(json_unquote(dst, (struct str){quoted, quoted_len}), len);
        ck_assert_mem_eq(dst, raw, len);
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("json");
    TCase *tc = tcase_create("check");
    tcase_add_loop_test(tc, what_the_rfc_allows_is_taken, 0, sizeof(Y) / sizeof(Y[0]));
    tcase_add_loop_test(tc, what_the_rfc_forbids_is_refused, 0, sizeof(N) / sizeof(N[0]));
    tcase_add_loop_test(tc, no_beginning_of_a_value_is_a_value, 0, sizeof(Y) / sizeof(Y[0]));
    tcase_add_test(tc, a_broken_byte_in_a_string_is_found_at_every_place);
    tcase_add_loop_test(tc, depth_is_held_against_the_limit_exactly, 0, 5);
    tcase_add_test(tc, brackets_of_the_wrong_kind_are_found_at_every_depth);
    tcase_add_test(tc, depth_counts_what_is_open_and_not_what_was);
    tcase_add_test(tc, an_absent_text_is_no_value);
    suite_add_tcase(suite, tc);

    tc = tcase_create("members");
    tcase_add_test(tc, members_are_the_texts_between_the_blanks);
    tcase_add_test(tc, members_beyond_the_cap_are_counted_and_not_written);
    tcase_add_test(tc, only_an_object_has_members);
    suite_add_tcase(suite, tc);

    tc = tcase_create("utf8");
    tcase_add_test(tc, each_code_point_is_valid_in_its_shortest_form_alone);
    tcase_add_test(tc, utf8_is_checked_to_the_last_byte);
    suite_add_tcase(suite, tc);

    tc = tcase_create("quote");
    tcase_add_loop_test(tc, quoting_escapes_what_json_demands_and_replaces_what_is_no_utf8, 0,
                        sizeof(QUOTES) / sizeof(QUOTES[0]));
    tcase_add_test(tc, every_byte_and_every_pair_of_bytes_quotes_to_a_json_string);
    suite_add_tcase(suite, tc);

    tc = tcase_create("unquote");
    tcase_add_loop_test(tc, unquoting_says_what_a_string_means, 0,
                        sizeof(UNQUOTES) / sizeof(UNQUOTES[0]));
    tcase_add_test(tc, what_was_quoted_comes_back);
    suite_add_tcase(suite, tc);
    return suite;
}
