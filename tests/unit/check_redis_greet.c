#include "roomlog/redis_greet.h"

#include "roomlog/redis_reply.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

static const struct {
    const char *url;
    bool wants_master;
    const char *said; /* commands; "|" between those that go together, "; " between turns */
} GREETINGS[] = {
    {"redis://h", false, "CLIENT SETNAME me|PING"},
    {"redis://h/3", false, "SELECT 3; CLIENT SETNAME me|PING"},
    {"redis://:secret@h", false, "AUTH secret; CLIENT SETNAME me|PING"},
    {"redis://bob:secret@h", true, "AUTH bob secret; ROLE; CLIENT SETNAME me|PING"},
    {"unix:///s?db=12", true, "ROLE; SELECT 12; CLIENT SETNAME me|PING"},
    {"redis://b%20ob:p%7C@h/65535", true,
     "AUTH b ob p|; ROLE; SELECT 65535; CLIENT SETNAME me|PING"},
};

static void put(char *dst, size_t cap, const char *between, struct str text)
{
    size_t len = strlen(dst);
    (void)snprintf(dst + len, cap - len, "%s%.*s", len == 0 ? "" : between, (int)text.len, text.p);
}

START_TEST(who_we_are_is_said_step_by_step)
{
    struct redis_url url;
    struct redis_greet greet = {.said = 0};
    char reason[128];
    char said[256] = "";
    size_t count;
    ck_assert(redis_url_parse(GREETINGS[_i].url, &url, reason, sizeof(reason)));
    for (;;) {
        const struct redis_words *commands =
            redis_greet_next(&greet, &url, "me", GREETINGS[_i].wants_master, &count);
        if (count == 0)
            break;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < commands[i].count; k++)
                put(said, sizeof(said), k != 0 ? " " : i != 0 ? "|" : "; ", commands[i].p[k]);
    }
    ck_assert_str_eq(said, GREETINGS[_i].said);
    redis_url_fini(&url);
}
END_TEST

static const struct {
    const char *resp;
    enum redis_greet_verdict as_role, as_ping;
    const char *reason;
} ANSWERS[] = {
    {"+OK\r\n", REDIS_GREET_ELSEWHERE, REDIS_GREET_FINE, "it is no master"},
    {"*1\r\n$6\r\nmaster\r\n", REDIS_GREET_FINE, REDIS_GREET_FINE, ""},
    {"*1\r\n$5\r\nslave\r\n", REDIS_GREET_ELSEWHERE, REDIS_GREET_FINE, "it is no master"},
    {"-LOADING it\r\n", REDIS_GREET_NOT_YET, REDIS_GREET_NOT_YET, "LOADING it"},
    {"-MASTERDOWN x\r\n", REDIS_GREET_NOT_YET, REDIS_GREET_NOT_YET, "MASTERDOWN x"},
    {"-WRONGPASS x\r\n", REDIS_GREET_REFUSED, REDIS_GREET_REFUSED, "WRONGPASS x"},
    {"-NOAUTH x\r\n", REDIS_GREET_REFUSED, REDIS_GREET_REFUSED, "NOAUTH x"},
    {"-NOPERM x\r\n", REDIS_GREET_REFUSED, REDIS_GREET_REFUSED, "NOPERM x"},
    {"-ERR max number of clients reached\r\n", REDIS_GREET_REFUSED, REDIS_GREET_REFUSED,
     "ERR max number of clients reached"},
};

START_TEST(each_answer_is_judged)
{
    struct redis_url url;
    struct redis_greet greet = {.said = 0};
    struct redis_scan scan;
    char reason[REDIS_GREET_REASON_MAX] = "";
    size_t count;
    struct str resp = str_from(ANSWERS[_i].resp);
    redis_scan_init(&scan);
    ck_assert_int_eq(redis_scan_run(&scan, resp), REDIS_SCAN_WHOLE);
    struct redis_reply reply = redis_reply_of(&scan, resp.p);
    ck_assert(redis_url_parse("redis://h", &url, reason, sizeof(reason)));

    (void)redis_greet_next(&greet, &url, "me", true, &count);
    ck_assert_int_eq(redis_greet_judge(&greet, &reply, reason), ANSWERS[_i].as_role);
    ck_assert_str_eq(reason, ANSWERS[_i].reason);
    (void)redis_greet_next(&greet, &url, "me", true, &count);
    ck_assert_int_eq(redis_greet_judge(&greet, &reply, reason), ANSWERS[_i].as_ping);
    redis_url_fini(&url);
    redis_scan_fini(&scan);
}
END_TEST

/* Some that don't know AUTH repeat what they were told, and reasons are logged. */
START_TEST(a_password_that_is_repeated_is_not_told)
{
    static const char *const REPEATED[] = {
        "-ERR unknown command `AUTH`, with args beginning with: `bob`, `secret`, \r\n",
        "-ERR unknown command 'AUTH', with args beginning with: 'bob' 'secret' \r\n",
        "-ERR AUTH bob secret is not for us\r\n",
    };
    struct redis_url url;
    struct redis_scan scan;
    char reason[REDIS_GREET_REASON_MAX] = "";
    size_t count;
    ck_assert(redis_url_parse("redis://bob:secret@h", &url, reason, sizeof(reason)));
    for (int i = 0; i < COUNT_OF(REPEATED); i++) {
        struct redis_greet greet = {.said = 0};
        struct str resp = str_from(REPEATED[i]);
        redis_scan_init(&scan);
        ck_assert_int_eq(redis_scan_run(&scan, resp), REDIS_SCAN_WHOLE);
        struct redis_reply reply = redis_reply_of(&scan, resp.p);
        (void)redis_greet_next(&greet, &url, "me", true, &count);
        ck_assert_int_eq(redis_greet_judge(&greet, &reply, reason), REDIS_GREET_REFUSED);
        ck_assert_ptr_null(strstr(reason, "secret"));
        ck_assert_ptr_nonnull(strstr(reason, "AUTH"));
        redis_scan_fini(&scan);
    }
    redis_url_fini(&url);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_greet");
    TCase *tc = tcase_create("greet");
    tcase_add_loop_test(tc, who_we_are_is_said_step_by_step, 0, COUNT_OF(GREETINGS));
    tcase_add_loop_test(tc, each_answer_is_judged, 0, COUNT_OF(ANSWERS));
    tcase_add_test(tc, a_password_that_is_repeated_is_not_told);
    suite_add_tcase(suite, tc);
    return suite;
}
