#include "roomlog/redis_map.h"

#include "roomlog/redis_reply.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

static const struct redis_place TELLER = {"10.0.0.9", 7009};

/* Parses RESP text. */
static bool parse(const char *resp, struct redis_map *map)
{
    struct redis_scan scan;
    redis_scan_init(&scan);
    ck_assert_int_eq(redis_scan_run(&scan, str_from(resp)), REDIS_SCAN_WHOLE);
    struct redis_reply reply = redis_reply_of(&scan, resp);
    bool whole = redis_map_parse(&reply, &TELLER, map);
    redis_scan_fini(&scan);
    return whole;
}

static void assert_place(const struct redis_place *place, const char *want)
{
    char text[REDIS_PLACE_TEXT_MAX];
    ck_assert_str_eq(redis_place_format(place, text), want);
}

#define NODE(len, host, port)                                                                      \
    "*4\r\n$" #len "\r\n" host "\r\n:" #port "\r\n$2\r\nid\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n"
#define HERE(port) "*3\r\n$-1\r\n:" #port "\r\n$2\r\nid\r\n"

START_TEST(a_map_says_who_serves_which_slot)
{
    struct redis_map map;
    ck_assert(parse("*3\r\n"
                    "*4\r\n:0\r\n:99\r\n" NODE(8, "10.0.0.1", 7001)
                        NODE(8, "10.0.0.2", 7002) "*3\r\n:100\r\n:100\r\n" NODE(
                            1, "b", 1) "*3\r\n:16000\r\n:16383\r\n" NODE(8, "10.0.0.1", 7001),
                    &map));
    ck_assert_uint_eq(map.masters, 2);
    ck_assert_uint_eq(map.count, 3);
    assert_place(&map.places[0], "10.0.0.1:7001");
    assert_place(&map.places[1], "b:1");
    assert_place(&map.places[2], "10.0.0.2:7002");
    ck_assert_uint_eq(map.covered, 100 + 1 + 384);
    ck_assert_uint_eq(map.owner[0], 1);
    ck_assert_uint_eq(map.owner[99], 1);
    ck_assert_uint_eq(map.owner[100], 2);
    ck_assert_uint_eq(map.owner[101], 0);
    ck_assert_uint_eq(map.owner[16383], 1);
    ck_assert_uint_eq(map.left_out, 0);
    redis_map_fini(&map);
}
END_TEST

START_TEST(a_node_without_a_name_is_where_the_answer_came_from)
{
    struct redis_map map;
    ck_assert(
        parse("*2\r\n*3\r\n:0\r\n:1\r\n" HERE(7009) "*3\r\n:2\r\n:3\r\n" NODE(0, "", 7010), &map));
    assert_place(&map.places[0], "10.0.0.9:7009");
    assert_place(&map.places[1], "10.0.0.9:7010");
    redis_map_fini(&map);
}
END_TEST

START_TEST(a_cluster_without_slots_has_an_empty_map)
{
    struct redis_map map;
    ck_assert(parse("*0\r\n", &map));
    ck_assert_uint_eq(map.covered, 0);
    ck_assert_uint_eq(map.count, 0);
    redis_map_fini(&map);
}
END_TEST

START_TEST(a_strange_replica_is_left_out)
{
    struct redis_map map;
    ck_assert(parse("*1\r\n*5\r\n:0\r\n:9\r\n" NODE(1, "a", 1) "+what\r\n" NODE(1, "c", 3), &map));
    ck_assert_uint_eq(map.count, 2);
    assert_place(&map.places[1], "c:3");
    redis_map_fini(&map);
}
END_TEST

static const char *const BAD[] = {
    "-ERR This instance has cluster support disabled\r\n",
    "+OK\r\n",
    "*1\r\n+x\r\n",
    "*1\r\n*2\r\n:0\r\n:1\r\n",
    "*1\r\n*3\r\n:0\r\n:16384\r\n" NODE(1, "a", 1),
    "*1\r\n*3\r\n:-1\r\n:1\r\n" NODE(1, "a", 1),
    "*1\r\n*3\r\n:2\r\n:1\r\n" NODE(1, "a", 1),
    "*1\r\n*3\r\n+0\r\n:1\r\n" NODE(1, "a", 1),
    "*1\r\n*3\r\n:0\r\n:1\r\n" NODE(1, "a", 0),
    "*1\r\n*3\r\n:0\r\n:1\r\n" NODE(1, "a", 65536),
    "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:1\r\n",
    "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
    "*2\r\n*3\r\n:0\r\n:1\r\n" NODE(1, "a", 1) "*0\r\n",
};

START_TEST(what_is_no_map_is_refused_whole)
{
    struct redis_map map;
    ck_assert(!parse(BAD[_i], &map));
    ck_assert_ptr_null(map.places);
    ck_assert_uint_eq(map.covered, 0);
}
END_TEST

/* A slot a master, each another. */
START_TEST(no_more_masters_than_the_ceiling)
{
    enum { MASTERS = REDIS_MAP_PLACES_MAX + 2, EACH = 80 };
    struct redis_map map;
    char *text = malloc((size_t)MASTERS * EACH + EACH);
    ck_assert_ptr_nonnull(text);
    char *at = text + snprintf(text, EACH, "*%d\r\n", MASTERS);
    for (int i = 0; i < MASTERS; i++)
        at += snprintf(at, EACH, "*3\r\n:%d\r\n:%d\r\n*2\r\n$1\r\na\r\n:%d\r\n", i, i, i + 1);
    ck_assert(parse(text, &map));
    ck_assert_uint_eq(map.masters, REDIS_MAP_PLACES_MAX);
    ck_assert_uint_eq(map.covered, REDIS_MAP_PLACES_MAX);
    ck_assert_uint_eq(map.left_out, 2);
    ck_assert_uint_eq(map.owner[REDIS_MAP_PLACES_MAX - 1], REDIS_MAP_PLACES_MAX);
    ck_assert_uint_eq(map.owner[REDIS_MAP_PLACES_MAX], 0);
    redis_map_fini(&map);
    free(text);
}
END_TEST

static const struct {
    const char *text;
    bool whole, ok;
    uint64_t epoch;
} INFOS[] = {
    {"cluster_state:ok\r\ncluster_slots_ok:5\r\ncluster_current_epoch:12\r\ncluster_x:1\r\n", true,
     true, 12},
    {"cluster_state:fail\r\ncluster_current_epoch:3\r\n", true, false, 3},
    {"cluster_current_epoch:18446744073709551615", false, false, 0},
    {"cluster_state:ok\r\ncluster_current_epoch:", false, false, 0},
    {"cluster_state:ok\r\ncluster_current_epoch:18446744073709551615", true, true, UINT64_MAX},
    {"cluster_current_epoch:7\r\ncluster_state:", true, false, 7},
    {"", false, false, 0},
};

START_TEST(info_says_whether_the_cluster_works_and_how_new_it_is)
{
    struct redis_map_info info = {.epoch = 0};
    size_t len = strlen(INFOS[_i].text);
    char *exact = malloc(len + 1); /* not one byte more may be looked at; malloc(0) may be NULL */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact + 1, INFOS[_i].text, len);
    bool whole = redis_map_parse_info((struct str){exact + 1, len}, &info);
    free(exact);
    ck_assert_int_eq(whole, INFOS[_i].whole);
    if (!whole)
        return;
    ck_assert_int_eq(info.ok, INFOS[_i].ok);
    ck_assert_uint_eq(info.epoch, INFOS[_i].epoch);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_map");
    TCase *tc = tcase_create("parse");
    tcase_add_test(tc, a_map_says_who_serves_which_slot);
    tcase_add_test(tc, a_node_without_a_name_is_where_the_answer_came_from);
    tcase_add_test(tc, a_cluster_without_slots_has_an_empty_map);
    tcase_add_test(tc, a_strange_replica_is_left_out);
    tcase_add_loop_test(tc, what_is_no_map_is_refused_whole, 0, COUNT_OF(BAD));
    tcase_add_test(tc, no_more_masters_than_the_ceiling);
    tcase_add_loop_test(tc, info_says_whether_the_cluster_works_and_how_new_it_is, 0,
                        COUNT_OF(INFOS));
    suite_add_tcase(suite, tc);
    return suite;
}
