#include "roomlog/redis_redirect.h"

#include "tests/lib/suite.h"

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

static const struct {
    const char *text;
    enum redis_redirect_kind kind;
    unsigned slot;
    const char *host;
    unsigned port;
} GOOD[] = {
    {"MOVED 3999 127.0.0.1:6381", REDIS_REDIRECT_MOVED, 3999, "127.0.0.1", 6381},
    {"MOVED 0 ::1:1", REDIS_REDIRECT_MOVED, 0, "::1", 1},
    {"MOVED 16383 :65535", REDIS_REDIRECT_MOVED, 16383, "", 65535},
    {"ASK 7 node-2.example.com:7000", REDIS_REDIRECT_ASK, 7, "node-2.example.com", 7000},
    {"TRYAGAIN Multiple keys request during rehashing of slot", REDIS_REDIRECT_TRYAGAIN, 0, "", 0},
    {"TRYAGAIN", REDIS_REDIRECT_TRYAGAIN, 0, "", 0},
};

START_TEST(a_redirect_says_who_is_to_be_asked)
{
    struct redis_redirect got = {.slot = 0};
    ck_assert(redis_redirect_parse(GOOD[_i].text, &got));
    ck_assert_int_eq(got.kind, GOOD[_i].kind);
    ck_assert_uint_eq(got.slot, GOOD[_i].slot);
    ck_assert_str_eq(got.place.host, GOOD[_i].host);
    ck_assert_uint_eq(got.place.port, GOOD[_i].port);
}
END_TEST

#define A_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char *const BAD[] = {
    "",
    "ERR",
    "MOVED",
    "MOVED ",
    "MOVED 1",
    "MOVED 1 ",
    "MOVED 1 h",
    "MOVED 1 h:",
    "MOVED 1 h:0",
    "MOVED 1 h:65536",
    "MOVED 1 h:1x",
    "MOVED 16384 h:1",
    "MOVED -1 h:1",
    "MOVED  1 h:1",
    "MOVED 99999999999999999999 h:1",
    "MOVED 1 " A_64 A_64 A_64 A_64 ":1",
    "MOVEDX 1 h:1",
    "ASKING 1 h:1",
    "moved 1 h:1",
    "TRYAGAINST",
};

START_TEST(anything_else_is_none)
{
    struct redis_redirect got;
    ck_assert(!redis_redirect_parse(BAD[_i], &got));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_redirect");
    TCase *tc = tcase_create("parse");
    tcase_add_loop_test(tc, a_redirect_says_who_is_to_be_asked, 0, COUNT_OF(GOOD));
    tcase_add_loop_test(tc, anything_else_is_none, 0, COUNT_OF(BAD));
    suite_add_tcase(suite, tc);
    return suite;
}
