#include "roomlog/redis_url.h"

#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

enum { REASON = 128 };

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

/* NULL: absent. A unix socket's path is its host, and its port 0. */
static const struct {
    const char *text, *host, *user, *password;
    unsigned port, db;
    const char *address;
} GOOD[] = {
    {"redis://localhost", "localhost", NULL, NULL, 6379, 0, "localhost:6379"},
    {"redis://localhost/", "localhost", NULL, NULL, 6379, 0, "localhost:6379"},
    {"REDIS://h", "h", NULL, NULL, 6379, 0, "h:6379"},
    {"redis://10.0.0.1:7000", "10.0.0.1", NULL, NULL, 7000, 0, "10.0.0.1:7000"},
    {"redis://r-1.example_x.com:65535/15", "r-1.example_x.com", NULL, NULL, 65535, 15,
     "r-1.example_x.com:65535"},
    {"redis://[::1]", "::1", NULL, NULL, 6379, 0, "[::1]:6379"},
    {"redis://[::ffff:10.0.0.1]:1/65535", "::ffff:10.0.0.1", NULL, NULL, 1, 65535,
     "[::ffff:10.0.0.1]:1"},
    {"redis://bob:secret@h:1", "h", "bob", "secret", 1, 0, "h:1"},
    {"redis://:secret@h", "h", NULL, "secret", 6379, 0, "h:6379"},
    {"redis://b%40b:p%3a%25%2F@h", "h", "b@b", "p:%/", 6379, 0, "h:6379"},
    {"redis://bob:a@b:c@h", "h", "bob", "a@b:c", 6379, 0, "h:6379"},
    {"redis://bob:p@[fe80::1]:7/2", "fe80::1", "bob", "p", 7, 2, "[fe80::1]:7"},
    {"unix:///run/redis.sock", "/run/redis.sock", NULL, NULL, 0, 0, "unix:/run/redis.sock"},
    {"unix:///a%20b?db=3", "/a b", NULL, NULL, 0, 3, "unix:/a b"},
    {"UNIX:///x?DB=0", "/x", NULL, NULL, 0, 0, "unix:/x"},
};

static void assert_text(const char *got, const char *want)
{
    if (want == NULL)
        ck_assert_ptr_null(got);
    else
        ck_assert_str_eq(got, want);
}

START_TEST(a_url_says_where_and_as_whom)
{
    struct redis_url url;
    char reason[REASON];
    char address[REASON];
    ck_assert_msg(redis_url_parse(GOOD[_i].text, &url, reason, sizeof(reason)), "%s: %s",
                  GOOD[_i].text, reason);
    ck_assert_int_eq(url.kind, REDIS_URL_ONE);
    ck_assert(!url.tls);
    ck_assert_uint_eq(url.count, 1);
    ck_assert_str_eq(url.places[0].host, GOOD[_i].host);
    assert_text(url.user, GOOD[_i].user);
    assert_text(url.password, GOOD[_i].password);
    ck_assert_uint_eq(url.places[0].port, GOOD[_i].port);
    ck_assert_uint_eq(url.db, GOOD[_i].db);
    redis_url_address(&url, address, sizeof(address));
    ck_assert_str_eq(address, GOOD[_i].address);
    redis_url_fini(&url);
}
END_TEST

/* Who is behind several hosts, and how one gets there. */
static const struct {
    const char *text;
    enum redis_url_kind kind;
    bool tls;
    unsigned count;
    const char *service, *sentinel_user, *sentinel_password;
    const char *password;
    unsigned db;
    const char *address;
} MANY[] = {
    {"rediss://u:p@h", REDIS_URL_ONE, true, 1, NULL, NULL, NULL, "p", 0, "h:6379"},
    {"redis+cluster://a", REDIS_URL_CLUSTER, false, 1, NULL, NULL, NULL, NULL, 0, "a:6379"},
    {"rediss+cluster://:p,q@a:1,[::1]:2,c/0", REDIS_URL_CLUSTER, true, 3, NULL, NULL, NULL, "p,q",
     0, "a:1,[::1]:2,c:6379"},
    {"redis+sentinel://a,b:7/mymaster", REDIS_URL_SENTINEL, false, 2, "mymaster", NULL, NULL, NULL,
     0, "mymaster at a:26379,b:7"},
    {"REDISS+SENTINEL://u:p@a/m%20x/3?sentinel_user=s%26&sentinel_password=t%3d",
     REDIS_URL_SENTINEL, true, 1, "m x", "s&", "t=", "p", 3, "m x at a:26379"},
    {"redis+sentinel://a/m?sentinel_password=t", REDIS_URL_SENTINEL, false, 1, "m", NULL, "t", NULL,
     0, "m at a:26379"},
};

START_TEST(a_url_may_name_several_hosts)
{
    struct redis_url url;
    char reason[REASON];
    char address[REASON];
    ck_assert_msg(redis_url_parse(MANY[_i].text, &url, reason, sizeof(reason)), "%s: %s",
                  MANY[_i].text, reason);
    ck_assert_int_eq(url.kind, MANY[_i].kind);
    ck_assert_int_eq(url.tls, MANY[_i].tls);
    ck_assert_uint_eq(url.count, MANY[_i].count);
    assert_text(url.service, MANY[_i].service);
    assert_text(url.sentinel_user, MANY[_i].sentinel_user);
    assert_text(url.sentinel_password, MANY[_i].sentinel_password);
    assert_text(url.password, MANY[_i].password);
    ck_assert_uint_eq(url.db, MANY[_i].db);
    redis_url_address(&url, address, sizeof(address));
    ck_assert_str_eq(address, MANY[_i].address);
    redis_url_fini(&url);
}
END_TEST

#define SCHEME                                                                                     \
    "a Redis URL begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
#define SENTINEL_ONCE "sentinel_user and sentinel_password are given once, and not empty"
#define SENTINEL_QUERY "after the ? only sentinel_user and sentinel_password may follow"
#define CLUSTER_END "after the nodes of a cluster nothing may follow: it has database 0 alone"
#define USER                                                                                       \
    "before the @ both a user and a password are needed (user:password@, or :password@ for the "   \
    "default user)"
#define PORT "the port must be a number from 1 to 65535"
#define DB "the database must be a number from 0 to 65535"
#define A_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *text, *reason;
} BAD[] = {
    {"", SCHEME},
    {"localhost:6379", SCHEME},
    {"http://localhost", SCHEME},
    {"redis:/localhost", SCHEME},
    {"rediss+unix:///x", SCHEME},
    {"rediss://", "the host is missing"},
    {"redis+cluster://a,", "the host is missing"},
    {"redis+cluster://a,b:0", PORT},
    {"redis+cluster://a/1", CLUSTER_END},
    {"redis+cluster://a?x", CLUSTER_END},
    {"redis+sentinel://a", "after the sentinels the service's name must follow (/service)"},
    {"redis+sentinel://a/", "after the sentinels the service's name must follow (/service)"},
    {"redis+sentinel://a/%", "the service has a % that is not followed by two hexadecimal digits"},
    {"redis+sentinel://a/m/x", DB},
    {"redis+sentinel://a/m/1/2", DB},
    {"redis+sentinel://a/m#x", "after the service only /db and ?sentinel_user=...&"
                               "sentinel_password=... may follow"},
    {"redis+sentinel://a/m?x=1", SENTINEL_QUERY},
    {"redis+sentinel://a/m?", SENTINEL_QUERY},
    {"redis+sentinel://a/m?sentinel_password=p&", SENTINEL_QUERY},
    {"redis+sentinel://a/m?sentinel_password=", SENTINEL_ONCE},
    {"redis+sentinel://a/m?sentinel_password=p&sentinel_password=q", SENTINEL_ONCE},
    {"redis+sentinel://a/m?sentinel_user=p", "sentinel_user needs a sentinel_password"},
    {"redis+sentinel://a/m?sentinel_password=%", "what belongs to the sentinels has a % that is "
                                                 "not followed by two hexadecimal digits"},
    {"redis://", "the host is missing"},
    {"redis://:1", "the host is missing"},
    {"redis://[]", "the host is missing"},
    {"redis://u:p@", "the host is missing"},
    {"redis://a b", "the host has a character that no host name has"},
    {"redis://h%41", "the host has a character that no host name has"},
    {"redis://h\n", "the host has a character that no host name has"},
    {"redis://" A_64 A_64 A_64 A_64, "the host is longer than 253 bytes"},
    {"redis://[::1", "the IPv6 address lacks its closing bracket"},
    {"redis://[host]", "the brackets hold something that is no IPv6 address"},
    {"redis://[::1]1", "after the host only a port may follow (host:port)"},
    {"redis://h:", PORT},
    {"redis://h:0", PORT},
    {"redis://h:65536", PORT},
    {"redis://h:-1", PORT},
    {"redis://h:+1", PORT},
    {"redis://h:1x", PORT},
    {"redis://h:1:2", PORT},
    {"redis://::1", "the host is missing"},
    {"redis://h:99999999999999999999", PORT},
    {"redis://h/x", DB},
    {"redis://h/1/2", DB},
    {"redis://h/-1", DB},
    {"redis://h/65536", DB},
    {"redis://h/1?x", DB},
    {"redis://h?db=1", "after the host and port only /db may follow"},
    {"redis://h#1", "after the host and port only /db may follow"},
    {"redis://secret@h", USER},
    {"redis://@h", USER},
    {"redis://bob:@h", "the password before the @ is empty"},
    {"redis://b%4:p@h", "the user has a % that is not followed by two hexadecimal digits"},
    {"redis://b:p%@h", "the password has a % that is not followed by two hexadecimal digits"},
    {"redis://b:p%g0@h", "the password has a % that is not followed by two hexadecimal digits"},
    {"redis://b:p%00@h", "the password has a % that is not followed by two hexadecimal digits"},
    {"unix://relative", "the socket's path must be absolute (unix:///path)"},
    {"unix://", "the socket's path must be absolute (unix:///path)"},
    {"unix:///a%2", "the path has a % that is not followed by two hexadecimal digits"},
    {"unix:///" A_64 A_64, "the socket's path is longer than 106 bytes"},
    {"unix:///x?", "after the path only ?db=N may follow"},
    {"unix:///x?name=1", "after the path only ?db=N may follow"},
    {"unix:///x?db=", DB},
    {"unix:///x?db=1&db=2", DB},
};

START_TEST(a_bad_url_says_what_is_wrong)
{
    struct redis_url url;
    char reason[REASON];
    ck_assert(!redis_url_parse(BAD[_i].text, &url, reason, sizeof(reason)));
    ck_assert_str_eq(reason, BAD[_i].reason);
    ck_assert_ptr_null(url.places);
    ck_assert_ptr_null(url.service);
    ck_assert_ptr_null(url.sentinel_password);
    ck_assert_ptr_null(url.user);
    ck_assert_ptr_null(url.password);
}
END_TEST

START_TEST(a_reason_is_cut_to_the_space_there_is)
{
    struct redis_url url;
    char reason[8];
    ck_assert(!redis_url_parse("x", &url, reason, sizeof(reason)));
    ck_assert_str_eq(reason, "a Redis");
}
END_TEST

START_TEST(a_path_may_have_as_many_bytes_as_a_socket_takes)
{
    struct redis_url url;
    char reason[REASON];
    char text[] = "unix:///" A_64 "012345678901234567890123456789012345678901";
    text[sizeof("unix://") - 1 + REDIS_URL_PATH_MAX] = '\0';
    ck_assert(redis_url_parse(text, &url, reason, sizeof(reason)));
    ck_assert_uint_eq(strlen(url.places[0].host), REDIS_URL_PATH_MAX);
    redis_url_fini(&url);
}
END_TEST

/* count hosts, each another. */
static bool parse_hosts(size_t count, struct redis_url *url, char *reason)
{
    char text[4096] = "redis+cluster://";
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, "%sh%zu", i == 0 ? "" : ",", i);
    }
    return redis_url_parse(text, url, reason, REASON);
}

START_TEST(no_more_hosts_than_the_ceiling)
{
    struct redis_url url;
    char reason[REASON];
    ck_assert(parse_hosts(REDIS_URL_PLACES_MAX, &url, reason));
    ck_assert_uint_eq(url.count, REDIS_URL_PLACES_MAX);
    redis_url_fini(&url);
    ck_assert(!parse_hosts(REDIS_URL_PLACES_MAX + 1, &url, reason));
    ck_assert_str_eq(reason, "more than 64 hosts");
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_url");
    TCase *tc = tcase_create("parse");
    tcase_add_loop_test(tc, a_url_says_where_and_as_whom, 0, COUNT_OF(GOOD));
    tcase_add_loop_test(tc, a_url_may_name_several_hosts, 0, COUNT_OF(MANY));
    tcase_add_loop_test(tc, a_bad_url_says_what_is_wrong, 0, COUNT_OF(BAD));
    tcase_add_test(tc, a_reason_is_cut_to_the_space_there_is);
    tcase_add_test(tc, no_more_hosts_than_the_ceiling);
    tcase_add_test(tc, a_path_may_have_as_many_bytes_as_a_socket_takes);
    suite_add_tcase(suite, tc);
    return suite;
}
