#include "base/logger.h"

#include "protocol/json.h"
#include "tests/lib/suite.h"

#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* Standard error is a socket that keeps writes apart, so that one event is seen to be one write. */
static int near_end, far_end, saved;
static char line[2 * LOGGER_LINE_MAX];

static void make(void)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    far_end = ends[0];
    near_end = ends[1];
    saved = dup(STDERR_FILENO);
    ck_assert_int_ge(saved, 0);
    ck_assert_int_eq(dup2(near_end, STDERR_FILENO), STDERR_FILENO);
    logger_setup(LOGGER_INFO, LOGGER_LOGFMT);
}

static void unmake(void)
{
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)close(near_end);
    (void)close(far_end);
}

/* The next write, or "" where there was none. */
static const char *next_line(void)
{
    ssize_t len = recv(far_end, line, sizeof(line) - 1, MSG_DONTWAIT);
    line[len < 0 ? 0 : len] = '\0';
    return line;
}

/* The text of field x alone, as it comes out. */
static const char *escaped(struct str text)
{
    static const char BEFORE[] = "level=warn msg=\"m\" x=";
    logger_warn("m", KV_STR("x", text));
    const char *got = next_line();
    ck_assert_uint_gt(strlen(got), sizeof(BEFORE));
    ck_assert_mem_eq(got, BEFORE, sizeof(BEFORE) - 1);
    line[strlen(line) - 1] = '\0'; /* the newline */
    return got + sizeof(BEFORE) - 1;
}

START_TEST(one_event_is_one_write_of_one_line)
{
    logger_warn("slow consumer closed", KV_NUM("session", 7), KV_TEXT("room", "lobby"));
    ck_assert_str_eq(next_line(),
                     "level=warn msg=\"slow consumer closed\" session=7 room=\"lobby\"\n");
    ck_assert_str_eq(next_line(), "");
}
END_TEST

START_TEST(as_json_it_is_one_object)
{
    logger_setup(LOGGER_INFO, LOGGER_JSON);
    logger_error("log away", KV_NUM("errno", -5), KV_TEXT("why", "re\"set"));
    ck_assert_str_eq(
        next_line(),
        "{\"level\":\"error\",\"msg\":\"log away\",\"errno\":-5,\"why\":\"re\\\"set\"}\n");
}
END_TEST

START_TEST(what_is_below_the_level_is_not_printed)
{
    logger_debug("d", KV_NUM("x", 1));
    ck_assert_str_eq(next_line(), "");
    logger_info("i", KV_NUM("x", 1));
    ck_assert_str_eq(next_line(), "level=info msg=\"i\" x=1\n");
    logger_setup(LOGGER_ERROR, LOGGER_LOGFMT);
    logger_warn("w", KV_NUM("x", 1));
    ck_assert_str_eq(next_line(), "");
    logger_setup(LOGGER_DEBUG, LOGGER_LOGFMT);
    logger_debug("d", KV_NUM("x", 1));
    ck_assert_str_eq(next_line(), "level=debug msg=\"d\" x=1\n");
}
END_TEST

START_TEST(numbers_are_whole_and_signed)
{
    logger_info("n", KV_NUM("a", INT64_MIN), KV_NUM("b", INT64_MAX));
    ck_assert_str_eq(next_line(),
                     "level=info msg=\"n\" a=-9223372036854775808 b=9223372036854775807\n");
}
END_TEST

static const struct {
    struct str raw;
    const char *want;
} ESCAPES[] = {
    {{"", 0}, "\"\""},
    {{NULL, 0}, "null"},
    {{"null", 4}, "\"null\""},
    {{"a\nlevel=error", 13}, "\"a\\nlevel=error\""}, /* no second line can be forged */
    {{"\r\t", 2}, "\"\\r\\t\""},
    {{"\"\\", 2}, "\"\\\"\\\\\""},
    {{"\0\x1b[31m\x7f", 7}, "\"\\u0000\\u001b[31m\\u007f\""}, /* nor a terminal be led */
    {{"\xc2\x9b", 2}, "\"\\u009b\""},
    {{"\xc2\xa0\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 11},
     "\"\xc2\xa0\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
    {{"\xff\x80", 2}, "\"\\ufffd\\ufffd\""},
    {{"\xc3", 1}, "\"\\ufffd\""}, /* cut short */
    {{"\xc2", 1}, "\"\\ufffd\""},
    {{"\xe2\x82", 2}, "\"\\ufffd\\ufffd\""},
    {{"\xed\xa0\x80", 3}, "\"\\ufffd\\ufffd\\ufffd\""}, /* a surrogate */
    {{"\xc0\xaf", 2}, "\"\\ufffd\\ufffd\""},            /* overlong */
};

START_TEST(a_peers_text_is_escaped)
{
    /* In a block of exactly its size, so that one byte too far is caught. */
    struct str raw = ESCAPES[_i].raw;
    char *copy = raw.p == NULL ? NULL : malloc(raw.len + (raw.len == 0));
    if (raw.len != 0)
        memcpy(copy, raw.p, raw.len);
    ck_assert_str_eq(escaped((struct str){copy, raw.len}), ESCAPES[_i].want);
    free(copy);
}
END_TEST

/* Where a line of one-byte or of six-byte characters comes to its end. */
static bool near_a_cut(size_t len)
{
    return (len > LOGGER_LINE_MAX / 6 - 30 && len < LOGGER_LINE_MAX / 6 + 10) ||
           (len > LOGGER_LINE_MAX - 100 && len < LOGGER_LINE_MAX + 10);
}

/* Of every length around where a line must be cut, in both formats. */
START_TEST(a_long_line_is_cut_says_so_and_stays_well_formed)
{
    enum { LONG = 2 * LOGGER_LINE_MAX };
    static char text[LONG];
    const char *pattern = _i % 2 == 0 ? "x" : "\x01"; /* one byte out for each, or six */
    memset(text, pattern[0], sizeof(text));
    logger_setup(LOGGER_INFO, _i < 2 ? LOGGER_LOGFMT : LOGGER_JSON);

    size_t cuts = 0;
    for (size_t len = 0; len < LONG; len += near_a_cut(len) ? 1 : 50) {
        struct logger_site site = {0, 0, 0};
        const struct logger_kv fields[] = {KV_STR("a", ((struct str){text, len})), KV_NUM("b", 1),
                                           KV_TEXT("c", "end")};
        logger_write(&site, LOGGER_INFO, "m", fields, 3);
        const char *got = next_line();
        size_t got_len = strlen(got);
        ck_assert_uint_gt(got_len, 0);
        ck_assert_uint_le(got_len, LOGGER_LINE_MAX);
        ck_assert_int_eq(got[got_len - 1], '\n');
        ck_assert_ptr_eq(strchr(got, '\n'), got + got_len - 1);
        bool cut = strstr(got, _i < 2 ? " cut=true\n" : ",\"cut\":true}\n") != NULL;
        bool whole = strstr(got, _i < 2 ? " b=1 c=\"end\"\n" : ",\"b\":1,\"c\":\"end\"}\n") != NULL;
        ck_assert(cut != whole);
        cuts += cut;
        if (_i >= 2)
            ck_assert_int_eq(json_check((struct str){got, got_len}, 2), JSON_OK);
    }
    ck_assert_uint_gt(cuts, 0);
}
END_TEST

START_TEST(one_site_prints_its_burst_then_a_line_a_second_and_says_how_many_were_left_out)
{
    enum { EVENTS = 3 * LOGGER_BURST };
    struct logger_site site = {0, 0, 0};
    const struct logger_kv field = KV_NUM("x", 1);
    unsigned printed = 0;
    for (int i = 0; i < EVENTS; i++) {
        logger_write(&site, LOGGER_WARN, "m", &field, 1);
        printed += next_line()[0] != '\0';
    }
    /* A few more where seconds went by on the way. */
    ck_assert_uint_ge(printed, LOGGER_BURST);
    ck_assert_uint_lt(printed, LOGGER_BURST + 10);

    ck_assert_uint_le(site.dropped, EVENTS - printed);

    site = (struct logger_site){.second = site.second - 1, .printed = LOGGER_BURST, .dropped = 7};
    logger_write(&site, LOGGER_WARN, "m", &field, 1);
    ck_assert_str_eq(next_line(), "level=warn msg=\"m\" suppressed=7 x=1\n");
    printed = 0;
    for (int i = 0; i < EVENTS; i++) {
        logger_write(&site, LOGGER_WARN, "m", &field, 1);
        printed += next_line()[0] != '\0';
    }
    ck_assert_uint_lt(printed, 10);

    site = (struct logger_site){.second = site.second - 1000, .printed = LOGGER_BURST};
    for (int i = 0; i < LOGGER_BURST; i++) {
        logger_write(&site, LOGGER_WARN, "m", &field, 1);
        ck_assert_str_eq(next_line(), "level=warn msg=\"m\" x=1\n");
    }
}
END_TEST

START_TEST(sites_do_not_use_up_each_others_burst)
{
    for (int i = 0; i < 2 * LOGGER_BURST; i++)
        logger_warn("noisy", KV_NUM("i", i));
    logger_warn("quiet", KV_NUM("x", 1));
    bool heard = false;
    while (next_line()[0] != '\0')
        heard = heard || strcmp(line, "level=warn msg=\"quiet\" x=1\n") == 0;
    ck_assert(heard);
}
END_TEST

START_TEST(where_nobody_listens_the_line_is_lost_and_no_more)
{
    (void)close(STDERR_FILENO);
    logger_warn("m", KV_NUM("x", 1));
    ck_assert_str_eq(next_line(), "");
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("logger");
    TCase *tc = tcase_create("logger");
    tcase_add_checked_fixture(tc, make, unmake);
    tcase_add_test(tc, one_event_is_one_write_of_one_line);
    tcase_add_test(tc, as_json_it_is_one_object);
    tcase_add_test(tc, what_is_below_the_level_is_not_printed);
    tcase_add_test(tc, numbers_are_whole_and_signed);
    tcase_add_loop_test(tc, a_peers_text_is_escaped, 0, sizeof(ESCAPES) / sizeof(ESCAPES[0]));
    tcase_add_loop_test(tc, a_long_line_is_cut_says_so_and_stays_well_formed, 0, 4);
    tcase_add_test(tc,
                   one_site_prints_its_burst_then_a_line_a_second_and_says_how_many_were_left_out);
    tcase_add_test(tc, sites_do_not_use_up_each_others_burst);
    tcase_add_test(tc, where_nobody_listens_the_line_is_lost_and_no_more);
    suite_add_tcase(suite, tc);
    return suite;
}
