#include "edge/upgrade.h"

#include "tests/lib/suite.h"

static const char *const LISTED[] = {"https://one.example", "https://two.example:8443"};
static const char *const ANY[] = {"*"};

static const struct {
    const char *const *origins;
    size_t count;
    const char *origin; /* NULL: no such header */
    const char *host;
    bool allowed;
} CASES[] = {
    {NULL, 0, NULL, "a.example", true}, /* no browser's page */
    {NULL, 0, NULL, NULL, true},
    {NULL, 0, "http://a.example", "a.example", true},
    {NULL, 0, "https://A.example", "a.EXAMPLE", true},
    {NULL, 0, "http://a.example:8080", "a.example:8080", true},
    {NULL, 0, "http://[::1]:8080", "[::1]:8080", true},
    {NULL, 0, "http://a.example:80", "a.example", true},
    {NULL, 0, "http://a.example", "a.example:80", true},
    {NULL, 0, "https://a.example", "a.example:443", true},
    {NULL, 0, "https://a.example", "a.example:80", false},
    {NULL, 0, "http://a.example", "a.example:8080", false},
    {NULL, 0, "http://a.example:8081", "a.example:8080", false},
    {NULL, 0, "http://b.example", "a.example", false},
    {NULL, 0, "http://a.example.evil", "a.example", false},
    {NULL, 0, "http://evil.a.example", "a.example", false},
    {NULL, 0, "ftp://a.example", "a.example", false},
    {NULL, 0, "a.example", "a.example", false},
    {NULL, 0, "null", "a.example", false},
    {NULL, 0, "", "a.example", false},
    {NULL, 0, "http://", "", true}, /* both name nothing: whoever sends this is no browser */
    {NULL, 0, "http://a.example", NULL, false},
    {LISTED, 2, "https://one.example", "a.example", true},
    {LISTED, 2, "https://ONE.example", "a.example", true},
    {LISTED, 2, "https://two.example:8443", "a.example", true},
    {LISTED, 2, "https://two.example", "a.example", false},
    {LISTED, 2, "http://one.example", "a.example", false},
    {LISTED, 2, "http://a.example", "a.example", true},
    {LISTED, 2, "null", "a.example", false},
    {ANY, 1, "https://whatever.example", "a.example", true},
    {ANY, 1, "null", "a.example", true},
};
enum { CASE_COUNT = sizeof(CASES) / sizeof(CASES[0]) };

START_TEST(an_origin_is_allowed_where_it_is_our_own_or_listed)
{
    struct upgrade_rules rules = {.origins = CASES[_i].origins, .origin_count = CASES[_i].count};
    ck_assert_int_eq(
        upgrade_origin_allowed(&rules, str_from(CASES[_i].origin), str_from(CASES[_i].host)),
        CASES[_i].allowed);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("upgrade");
    TCase *tc = tcase_create("origin");
    tcase_add_loop_test(tc, an_origin_is_allowed_where_it_is_our_own_or_listed, 0, CASE_COUNT);
    suite_add_tcase(s, tc);
    return s;
}
