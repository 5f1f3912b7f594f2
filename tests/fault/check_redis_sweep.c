/* Idle rooms on a real Redis are cut by age, by one process at a time. */
#include "roomlog/roomlog_redis.h"

#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdio.h>

enum { LIMIT_MS = 10000, ROOMS = 500, AGE_MS = 5000, INTERVAL_MS = 1000 };

static struct redis_server server;
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *logs[3];
static struct roomlog_redis_config config;

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    redis_server_start(&server, NULL);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    memset(logs, 0, sizeof(logs));
    config = (struct roomlog_redis_config){.url = server.url,
                                           .prefix = "room[*]:",
                                           .poll_ms = 60000,
                                           .max_age_ms = AGE_MS,
                                           .connect_ms = 2000,
                                           .command_ms = 2000,
                                           .max_appends = 100,
                                           .max_reads = 100};
}

static void teardown(void)
{
    for (size_t i = 0; i < 3; i++)
        roomlog_close(logs[i]);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    poll_loop_fini(&loop);
    redis_server_end(&server);
}

static void open_log(size_t at)
{
    logs[at] = roomlog_redis_create(&loop.loop, &metrics, &config);
    ck_assert_ptr_nonnull(logs[at]);
}

static long long number(const char *command, const char *key)
{
    const char *words[] = {command, key};
    redisReply *reply = redis_server_ask(&server, 2, words, NULL);
    long long n = reply->integer;
    freeReplyObject(reply);
    return n;
}

static bool swept(void *arg)
{
    return metrics.v[M_SWEPT] >= *(const uint64_t *)arg;
}

static bool begun(void *arg)
{
    return metrics.v[M_SWEEPS] >= *(const uint64_t *)arg;
}

START_TEST(old_entries_of_idle_rooms_go_and_nothing_else)
{
    uint64_t all = ROOMS;
    for (int i = 0; i < ROOMS; i++)
        redis_server_do(&server, "XADD room[*]:%d 1-%d data 1", i, i + 1);
    redis_server_do(&server, "XADD room[*]:0 * data 1");
    redis_server_do(&server, "XADD other:0 1-1 data 1");
    redis_server_do(&server, "XADD roomx:0 1-1 data 1"); /* [*] is no pattern */
    redis_server_do(&server, "SET room[*]:text x");
    redis_server_do(&server, "CONFIG SET stream-node-max-entries 1");
    /* Of one node of the stream, all or nothing is cut: so this is another. */
    redis_server_do(&server, "XADD room[*]:0 * data 2");
    open_log(0);
    all = ROOMS - 1;
    ck_assert(poll_loop_run(&loop, LIMIT_MS, swept, &all));
    poll_loop_pass(&loop, 200);
    ck_assert_uint_ge(metrics.v[M_SWEEPS], 1);
    ck_assert_int_ge(number("XLEN", "room[*]:0"), 2);
    ck_assert_int_eq(number("XLEN", "room[*]:1"), 0);
    ck_assert_int_eq(number("EXISTS", "room[*]:1"), 1); /* its last id is still known */
    ck_assert_int_eq(number("XLEN", "room[*]:499"), 0);
    ck_assert_int_eq(number("XLEN", "other:0"), 1);
    ck_assert_int_eq(number("XLEN", "roomx:0"), 1);
    ck_assert_int_eq(number("EXISTS", "room[*]:text"), 1);
}
END_TEST

/* They would sweep at the same moments. */
START_TEST(of_many_one_sweeps)
{
    uint64_t first = 1;
    for (size_t i = 0; i < 3; i++)
        open_log(i);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, begun, &first));
    uint64_t began = loop.now_ms;
    poll_loop_pass(&loop, 3 * INTERVAL_MS);
    uint64_t intervals = (loop.now_ms - began) / INTERVAL_MS + 1;
    ck_assert_uint_ge(metrics.v[M_SWEEPS], 2);
    ck_assert_uint_le(metrics.v[M_SWEEPS], intervals + 1);
}
END_TEST

START_TEST(who_loses_the_lock_stops_and_another_goes_on)
{
    uint64_t all = ROOMS;
    redis_server_do(&server, "SET roomd:sweep:0 somebody");
    for (int i = 0; i < ROOMS; i++)
        redis_server_do(&server, "XADD room[*]:%d 1-1 data 1", i);
    open_log(0);
    poll_loop_pass(&loop, 3 * INTERVAL_MS);
    ck_assert_uint_eq(metrics.v[M_SWEEPS], 0);
    redis_server_do(&server, "DEL roomd:sweep:0");
    uint64_t first = 1;
    ck_assert(poll_loop_run(&loop, LIMIT_MS, begun, &first));
    poll_loop_pass(&loop, 20);
    redis_server_do(&server, "SET roomd:sweep:0 somebody PX 500");
    poll_loop_pass(&loop, 300);
    ck_assert_uint_lt(metrics.v[M_SWEPT], ROOMS);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, swept, &all));
    ck_assert_uint_eq(metrics.v[M_SWEPT], ROOMS);
}
END_TEST

START_TEST(a_connection_that_dies_ends_the_sweep_and_the_next_one_does_it)
{
    uint64_t first = 1, all = ROOMS;
    for (int i = 0; i < ROOMS; i++)
        redis_server_do(&server, "XADD room[*]:%d 1-1 data 1", i);
    open_log(0);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, begun, &first));
    ck_assert_uint_eq(redis_server_kill(&server, "roomd-append"), 1);
    redis_server_do(&server, "DEL roomd:sweep:0"); /* or wait for the lease to run out */
    ck_assert(poll_loop_run(&loop, LIMIT_MS, swept, &all));
}
END_TEST

START_TEST(without_the_right_to_look_it_says_so_and_the_log_works)
{
    redis_server_do(&server, "ACL SETUSER default -scan");
    open_log(0);
    poll_loop_pass(&loop, 2 * INTERVAL_MS);
    ck_assert(roomlog_ready(logs[0]));
    ck_assert_uint_eq(metrics.v[M_SWEPT], 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_sweep");
    TCase *tc = tcase_create("redis_sweep");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, old_entries_of_idle_rooms_go_and_nothing_else);
    tcase_add_test(tc, of_many_one_sweeps);
    tcase_add_test(tc, who_loses_the_lock_stops_and_another_goes_on);
    tcase_add_test(tc, a_connection_that_dies_ends_the_sweep_and_the_next_one_does_it);
    tcase_add_test(tc, without_the_right_to_look_it_says_so_and_the_log_works);
    suite_add_tcase(suite, tc);
    return suite;
}
