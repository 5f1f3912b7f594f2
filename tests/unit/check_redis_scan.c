#include "roomlog/redis_scan.h"

#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

static struct redis_scan scan;

static void set_up(void)
{
    redis_scan_init(&scan);
}

static void tear_down(void)
{
    redis_scan_fini(&scan);
}

/* --- replies -------------------------------------------------------------------------------- */

START_TEST(a_reply_is_one_array_of_nodes_in_the_order_of_its_bytes)
{
    struct str text = STR("*4\r\n$3\r\nabc\r\n*2\r\n:-7\r\n$-1\r\n-no\r\n+yes\r\n:1\r\n");
    static const struct redis_scan_node nodes[] = {
        {.type = REDIS_SCAN_ARRAY, .next = 7},  {.type = REDIS_SCAN_TEXT, .next = 2},
        {.type = REDIS_SCAN_ARRAY, .next = 5},  {.type = REDIS_SCAN_INTEGER, .next = 4},
        {.type = REDIS_SCAN_NIL, .next = 5},    {.type = REDIS_SCAN_ERROR, .next = 6},
        {.type = REDIS_SCAN_STATUS, .next = 7},
    };
    ck_assert_int_eq(redis_scan_run(&scan, text), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.at, text.len - 4); /* the next reply isn't looked at */
    ck_assert_uint_eq(scan.count, COUNT_OF(nodes));
    for (int i = 0; i < COUNT_OF(nodes); i++) {
        ck_assert_uint_eq(scan.nodes[i].type, nodes[i].type);
        ck_assert_uint_eq(scan.nodes[i].next, nodes[i].next);
    }
    ck_assert_uint_eq(scan.nodes[0].count, 4);
    ck_assert_uint_eq(scan.nodes[2].count, 2);
    ck_assert_int_eq(scan.nodes[3].integer, -7);
    ck_assert_mem_eq(text.p + scan.nodes[1].text.at, "abc", 3);
    ck_assert_uint_eq(scan.nodes[1].text.len, 3);
    ck_assert_mem_eq(text.p + scan.nodes[5].text.at, "no", 2);
    ck_assert_mem_eq(text.p + scan.nodes[6].text.at, "yes", 3);
}
END_TEST

static const struct {
    const char *resp;
    enum redis_scan_type type;
    long long number; /* INTEGER: itself; ARRAY, TEXT: how many */
} SMALL[] = {
    {":0\r\n", REDIS_SCAN_INTEGER, 0},
    {":9223372036854775807\r\n", REDIS_SCAN_INTEGER, INT64_MAX},
    {":-9223372036854775808\r\n", REDIS_SCAN_INTEGER, INT64_MIN},
    {"$0\r\n\r\n", REDIS_SCAN_TEXT, 0},
    {"$4\r\n\r\n\r\n\r\n", REDIS_SCAN_TEXT, 4},
    {"+\r\n", REDIS_SCAN_STATUS, 0},
    {"+a\rb\r\n", REDIS_SCAN_STATUS, 3},
    {"-a\nb\r\r\n", REDIS_SCAN_ERROR, 4},
    {"*0\r\n", REDIS_SCAN_ARRAY, 0},
    {"*1\r\n*1\r\n*0\r\n", REDIS_SCAN_ARRAY, 1},
    {"*-1\r\n", REDIS_SCAN_NIL, 0},
    {"$-1\r\n", REDIS_SCAN_NIL, 0},
};

/* In a block of exactly their size, so that one byte too far is caught. */
static enum redis_scan_verdict run_block(const char *resp, size_t len)
{
    char *block = malloc(len);
    ck_assert_ptr_nonnull(block);
    memcpy(block, resp, len);
    enum redis_scan_verdict verdict = redis_scan_run(&scan, (struct str){block, len});
    free(block);
    return verdict;
}

START_TEST(a_reply_is_whole_with_its_last_byte_and_not_before)
{
    size_t len = strlen(SMALL[_i].resp);
    for (size_t i = 1; i < len; i++)
        ck_assert_int_eq(run_block(SMALL[_i].resp, i), REDIS_SCAN_MORE);
    ck_assert_int_eq(run_block(SMALL[_i].resp, len), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.at, len);
    ck_assert_uint_eq(scan.nodes[0].type, SMALL[_i].type);
    if (SMALL[_i].type == REDIS_SCAN_INTEGER)
        ck_assert_int_eq(scan.nodes[0].integer, SMALL[_i].number);
    else if (SMALL[_i].type == REDIS_SCAN_ARRAY)
        ck_assert_int_eq(scan.nodes[0].count, SMALL[_i].number);
    else if (SMALL[_i].type != REDIS_SCAN_NIL)
        ck_assert_int_eq(scan.nodes[0].text.len, SMALL[_i].number);
}
END_TEST

START_TEST(replies_follow_each_other)
{
    static const char two[] = ":1\r\n*1\r\n+x\r\n";
    struct str text = {two, sizeof(two) - 1};
    ck_assert_int_eq(redis_scan_run(&scan, text), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.at, 4);
    redis_scan_next(&scan);
    ck_assert_int_eq(redis_scan_run(&scan, (struct str){two + 4, text.len - 4}), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.count, 2);
    ck_assert_uint_eq(scan.nodes[1].text.len, 1);
}
END_TEST

static const char *const BROKEN[] = {
    "x",
    "\r\n",
    "%1\r\n",
    "_\r\n",
    "HTTP/1.1 400\r\n",
    ":\r\n",
    ":x\r\n",
    ":1x\r\n",
    ":+1\r\n",
    ":-\r\n",
    ":-0\r\n",
    ":01\r\n",
    ": 1\r\n",
    ":1\rx",
    ":9223372036854775808\r\n",
    ":-9223372036854775809\r\n",
    ":12345678901234567890",
    "$-2\r\n",
    "$x\r\n",
    "$\r\n",
    "$3\r\nabcde",
    "$3\r\nabc\rx",
    "$3\r\nabc\n\r",
    "*-2\r\n",
    "*2147483648\r\n",
    "*1\r\n*1\r\n$3\r\nabcde",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*"
    "1\r\n"
    "*1\r\n",
};

START_TEST(what_is_no_resp2_is_refused_with_a_reason)
{
    ck_assert_int_eq(run_block(BROKEN[_i], strlen(BROKEN[_i])), REDIS_SCAN_BROKEN);
    ck_assert_ptr_nonnull(scan.reason);
}
END_TEST

/* --- ceilings ------------------------------------------------------------------------------- */

START_TEST(arrays_nest_up_to_the_ceiling)
{
    char text[REDIS_SCAN_DEPTH_MAX * 4 + 4];
    for (size_t i = 0; i < REDIS_SCAN_DEPTH_MAX; i++)
        memcpy(text + i * 4, "*1\r\n", 4);
    memcpy(text + sizeof(text) - 4, "*0\r\n", 4);
    ck_assert_int_eq(redis_scan_run(&scan, (struct str){text, sizeof(text)}), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.count, REDIS_SCAN_DEPTH_MAX + 1);
}
END_TEST

START_TEST(a_line_ends_before_the_ceiling)
{
    static char text[REDIS_SCAN_LINE_MAX + 4];
    memset(text, 'x', sizeof(text));
    text[0] = '-';
    memcpy(text + REDIS_SCAN_LINE_MAX + 1, "\r\n", 2);
    ck_assert_int_eq(run_block(text, REDIS_SCAN_LINE_MAX + 3), REDIS_SCAN_WHOLE);
    redis_scan_next(&scan);
    text[REDIS_SCAN_LINE_MAX + 1] = 'x';
    ck_assert_int_eq(run_block(text, REDIS_SCAN_LINE_MAX + 1), REDIS_SCAN_MORE);
    ck_assert_int_eq(run_block(text, REDIS_SCAN_LINE_MAX + 2), REDIS_SCAN_BROKEN);
}
END_TEST

START_TEST(what_is_announced_allocates_nothing)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "*2147483647\r\n$%d\r\nab", REDIS_SCAN_BYTES_MAX / 2);
    ck_assert_int_eq(redis_scan_run(&scan, (struct str){text, (size_t)len}), REDIS_SCAN_MORE);
    ck_assert_uint_le(scan.capacity, 64);
}
END_TEST

/* A text that is too large inside an array, then a reply that isn't, given in pieces of this size
 * of which what needn't be kept is dropped. */
START_TEST(a_reply_that_is_too_large_is_passed_over_piece_by_piece)
{
    static const size_t pieces[] = {1, 2, 7, 100000};
    enum { LEN = REDIS_SCAN_BYTES_MAX };
    char head[64];
    size_t head_len = (size_t)snprintf(head, sizeof(head), "*3\r\n:1\r\n$%d\r\n", LEN);
    static const char tail[] = "\r\n*1\r\n-x\r\n+next\r\n";
    size_t tail_len = sizeof(tail) - 1;
    /* The long middle comes as what it is: bytes that the scan never looks at. */
    static char middle[1 << 20];
    size_t piece = pieces[_i];

    for (size_t i = 1; i < head_len; i++)
        ck_assert_int_eq(run_block(head, i), REDIS_SCAN_MORE);
    ck_assert_int_eq(run_block(head, head_len), REDIS_SCAN_MORE);
    ck_assert_uint_eq(redis_scan_drop(&scan), head_len);
    for (size_t left = LEN; left != 0;) {
        size_t len = left < sizeof(middle) ? left : sizeof(middle);
        ck_assert_int_eq(redis_scan_run(&scan, (struct str){middle, len}), REDIS_SCAN_MORE);
        ck_assert_uint_eq(redis_scan_drop(&scan), len);
        left -= len;
    }
    size_t begin = 0;
    size_t end = 0;
    enum redis_scan_verdict verdict = REDIS_SCAN_MORE;
    while (verdict == REDIS_SCAN_MORE) {
        ck_assert_uint_lt(end, tail_len);
        end = tail_len - end < piece ? tail_len : end + piece;
        verdict = run_block(tail + begin, end - begin);
        if (verdict == REDIS_SCAN_MORE)
            begin += redis_scan_drop(&scan);
    }
    ck_assert_int_eq(verdict, REDIS_SCAN_OVER);
    begin += scan.at;
    ck_assert_str_eq(tail + begin, "+next\r\n");
    redis_scan_next(&scan);
    ck_assert_int_eq(run_block(tail + begin, tail_len - begin), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.nodes[0].type, REDIS_SCAN_STATUS);
}
END_TEST

START_TEST(a_reply_of_too_many_parts_is_passed_over)
{
    char head[32];
    int head_len = snprintf(head, sizeof(head), "*%d\r\n", REDIS_SCAN_NODES_MAX);
    size_t len = (size_t)head_len + 4 * (size_t)REDIS_SCAN_NODES_MAX;
    char *text = malloc(len);
    ck_assert_ptr_nonnull(text);
    memcpy(text, head, (size_t)head_len);
    for (size_t i = 0; i < REDIS_SCAN_NODES_MAX; i++)
        memcpy(text + head_len + 4 * i, ":1\r\n", 4);
    ck_assert_int_eq(redis_scan_run(&scan, (struct str){text, len}), REDIS_SCAN_OVER);
    ck_assert_uint_eq(scan.at, len);
    redis_scan_next(&scan);
    redis_scan_trim(&scan, 1024);
    ck_assert_uint_eq(scan.capacity, 0);

    head_len = snprintf(head, sizeof(head), "*%d\r\n", REDIS_SCAN_NODES_MAX - 1);
    memcpy(text, head, (size_t)head_len);
    ck_assert_int_eq(redis_scan_run(&scan, (struct str){text, len - 4}), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.count, REDIS_SCAN_NODES_MAX);
    free(text);
}
END_TEST

/* --- cost ----------------------------------------------------------------------------------- */

/* Ten thousand texts that arrive byte by byte: what is scanned isn't scanned again, or this would
 * take hours. */
START_TEST(a_scan_goes_on_where_it_stopped)
{
    enum { TEXTS = 10000, EACH = 12, HEAD = 8 };
    size_t len = HEAD + (size_t)TEXTS * EACH;
    char *text = malloc(len);
    ck_assert_ptr_nonnull(text);
    memcpy(text, "*10000\r\n", HEAD);
    for (size_t i = 0; i < TEXTS; i++)
        memcpy(text + HEAD + i * EACH, "$6\r\n123456\r\n", EACH);
    for (size_t i = 1; i < len; i++)
        ck_assert_int_eq(redis_scan_run(&scan, (struct str){text, i}), REDIS_SCAN_MORE);
    ck_assert_int_eq(redis_scan_run(&scan, (struct str){text, len}), REDIS_SCAN_WHOLE);
    ck_assert_uint_eq(scan.count, TEXTS + 1);
    free(text);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_scan");
    TCase *tc = tcase_create("replies");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_reply_is_one_array_of_nodes_in_the_order_of_its_bytes);
    tcase_add_loop_test(tc, a_reply_is_whole_with_its_last_byte_and_not_before, 0, COUNT_OF(SMALL));
    tcase_add_test(tc, replies_follow_each_other);
    tcase_add_loop_test(tc, what_is_no_resp2_is_refused_with_a_reason, 0, COUNT_OF(BROKEN));
    tcase_add_test(tc, arrays_nest_up_to_the_ceiling);
    tcase_add_test(tc, a_line_ends_before_the_ceiling);
    tcase_add_test(tc, what_is_announced_allocates_nothing);
    tcase_add_loop_test(tc, a_reply_that_is_too_large_is_passed_over_piece_by_piece, 0, 4);
    tcase_add_test(tc, a_reply_of_too_many_parts_is_passed_over);
    tcase_add_test(tc, a_scan_goes_on_where_it_stopped);
    suite_add_tcase(suite, tc);
    return suite;
}
