/* The log on a Redis behind real sentinels, whose master dies, stalls and is demoted, and whose
 * sentinels are down, mute or wrong. See traffic.h for what is held against the log at the end.
 */
#include "roomlog/roomlog_redis.h"

#include "tests/fault/traffic.h"
#include "tests/lib/sentinel_servers.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_MS = 20000, ROOMS = 12, TIMEOUT_S = 30 };

static struct sentinel_servers servers;
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *the_log;
static struct traffic traffic;
static int master; /* which of the servers */

/* --- fixture -------------------------------------------------------------------------------- */

static struct redis_server *server_of(const char *key)
{
    (void)key;
    return &servers.data[master];
}

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    sentinel_servers_start(&servers);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    master = 0;
}

static void teardown(void)
{
    if (the_log != NULL) {
        roomlog_close(the_log);
        the_log = NULL;
        ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    }
    poll_loop_fini(&loop);
    sentinel_servers_end(&servers);
}

static bool is_ready(void *arg)
{
    return roomlog_ready(the_log) == *(const bool *)arg;
}

static void wait_ready(bool ready)
{
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, is_ready, &ready), "still %sready",
                  ready ? "not " : "");
}

static void open_log_at(const char *url)
{
    the_log = traffic_log(&loop, &metrics, url);
}

static void open_log(void)
{
    open_log_at(servers.url);
    wait_ready(true);
    traffic_open(&traffic, &loop, the_log, ROOMS, true);
    traffic_start(&traffic);
    traffic_more(&traffic, 10, LIMIT_MS);
}

static bool another_is_master(void *arg)
{
    int now = sentinel_servers_master(&servers);
    (void)arg;
    if (now < 0 || now == master)
        return false;
    master = now;
    return true;
}

static void wait_failover(void)
{
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, another_is_master, NULL), "no failover");
}

static void check_lossy(void)
{
    for (size_t i = 0; i < ROOMS; i++)
        (void)traffic_check_lossy(&traffic, i, server_of);
    traffic_close(&traffic);
}

static void check_all(void)
{
    for (size_t i = 0; i < ROOMS; i++)
        traffic_check(&traffic, i, server_of);
    traffic_close(&traffic);
}

/* --- masters -------------------------------------------------------------------------------- */

START_TEST(the_next_master_is_found_when_one_was_killed)
{
    open_log();
    redis_server_stop(&servers.data[0], false);
    wait_ready(false);
    wait_failover();
    traffic_more(&traffic, 10, LIMIT_MS);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    check_lossy();
}
END_TEST

START_TEST(the_next_master_is_found_when_one_stalls)
{
    open_log();
    pid_t stopped = servers.data[0].pid;
    (void)kill(stopped, SIGSTOP);
    servers.data[0].pid = 0; /* not to be asked meanwhile */
    wait_failover();
    traffic_more(&traffic, 10, LIMIT_MS);
    servers.data[0].pid = stopped;
    (void)kill(stopped, SIGCONT); /* it comes back, and is made a replica */
    traffic_more(&traffic, 10, LIMIT_MS);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    check_lossy();
}
END_TEST

/* Its last entries never reached the replicas, which are told to take over without them. */
START_TEST(a_tail_that_a_failover_loses_is_said)
{
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    poll_loop_pass(&loop, 200);
    for (size_t i = 1; i < SENTINEL_SERVERS_DATA; i++)
        (void)kill(servers.data[i].pid, SIGSTOP);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    redis_server_stop(&servers.data[0], false);
    for (size_t i = 1; i < SENTINEL_SERVERS_DATA; i++)
        (void)kill(servers.data[i].pid, SIGCONT);
    wait_failover();
    wait_ready(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    for (size_t i = 0; i < ROOMS; i++)
        if (traffic_check_lossy(&traffic, i, server_of) != 0)
            ck_assert_uint_ge(traffic.room[i].follower.broken, 1);
    traffic_close(&traffic);
}
END_TEST

START_TEST(a_failover_that_was_asked_for_is_followed)
{
    open_log();
    redis_server_do(&servers.watch[0], "SENTINEL FAILOVER main");
    wait_failover();
    traffic_more(&traffic, 10, LIMIT_MS);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    check_lossy();
}
END_TEST

/* Nobody kills its connections, and no sentinel says a word: it answers a write with READONLY. */
START_TEST(a_master_that_was_demoted_is_left)
{
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    for (size_t i = 1; i < SENTINEL_SERVERS_WATCH; i++)
        redis_server_do(&servers.watch[i], "SENTINEL REMOVE main");
    redis_server_do(&servers.data[1], "REPLICAOF NO ONE");
    redis_server_do(&servers.data[0], "REPLICAOF 127.0.0.1 %u", servers.port[1]);
    redis_server_do(&servers.watch[0], "SENTINEL REMOVE main");
    redis_server_do(&servers.watch[0], "SENTINEL MONITOR main 127.0.0.1 %u 1", servers.port[1]);
    master = 1;
    traffic_start(&traffic);
    traffic_more(&traffic, 10, LIMIT_MS);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

/* --- sentinels ------------------------------------------------------------------------------ */

START_TEST(one_sentinel_is_enough)
{
    redis_server_stop(&servers.watch[0], false);
    redis_server_stop(&servers.watch[1], false);
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

/* Has the server ever been given this command? */
static bool was_asked(struct redis_server *server, const char *command)
{
    char wanted[64];
    const char *words[] = {"INFO", "commandstats"};
    redisReply *reply = redis_server_ask(server, 2, words, NULL);
    (void)snprintf(wanted, sizeof(wanted), "cmdstat_%s:", command);
    bool asked = strstr(reply->str, wanted) != NULL;
    freeReplyObject(reply);
    return asked;
}

START_TEST(a_sentinel_that_names_a_replica_is_passed_over)
{
    redis_server_do(&servers.watch[0], "SENTINEL REMOVE main");
    redis_server_do(&servers.watch[0], "SENTINEL MONITOR main 127.0.0.1 %u 3", servers.port[1]);
    redis_server_do(&servers.data[1], "CONFIG RESETSTAT");
    open_log();
    ck_assert(was_asked(&servers.data[1], "role"));
    ck_assert(!was_asked(&servers.data[1], "get")); /* no probe ever read there */
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

/* It is cut off from the others, and does not know who took over. */
START_TEST(a_sentinel_that_names_a_dead_server_is_passed_over)
{
    redis_server_do(&servers.watch[0], "SENTINEL REMOVE main");
    redis_server_do(&servers.watch[0], "SENTINEL MONITOR main 127.0.0.1 %u 3",
                    redis_server_free_port());
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(a_sentinel_that_names_a_server_that_stalls_is_passed_over)
{
    redis_server_do(&servers.watch[0], "SENTINEL REMOVE main");
    redis_server_do(&servers.watch[0], "SENTINEL MONITOR main 127.0.0.1 %u 3", servers.port[1]);
    (void)kill(servers.data[1].pid, SIGSTOP);
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
    (void)kill(servers.data[1].pid, SIGCONT);
}
END_TEST

START_TEST(a_sentinel_that_does_not_know_the_service_is_passed_over)
{
    redis_server_do(&servers.watch[0], "SENTINEL REMOVE main");
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(without_sentinels_what_is_connected_goes_on)
{
    open_log();
    for (size_t i = 0; i < SENTINEL_SERVERS_WATCH; i++)
        redis_server_stop(&servers.watch[i], false);
    traffic_more(&traffic, 10, LIMIT_MS);
    ck_assert(roomlog_ready(the_log));
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(a_sentinel_that_stalls_is_passed_over)
{
    (void)kill(servers.watch[0].pid, SIGSTOP);
    open_log();
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(sentinels_may_have_a_password_of_their_own)
{
    char url[256];
    for (size_t i = 0; i < SENTINEL_SERVERS_DATA; i++) {
        redis_server_do(&servers.data[i], "CONFIG SET masterauth data");
        redis_server_do(&servers.data[i], "CONFIG SET requirepass data");
    }
    for (size_t i = 0; i < SENTINEL_SERVERS_WATCH; i++)
        redis_server_do(&servers.watch[i], "ACL SETUSER default resetpass >watch");
    (void)snprintf(url, sizeof(url),
                   "redis+sentinel://:data@127.0.0.1:%u/main?sentinel_password=watch",
                   servers.watch_port[2]);
    open_log_at(url);
    wait_ready(true);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_sentinel");
    TCase *tc = tcase_create("masters");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, TIMEOUT_S);
    tcase_add_test(tc, the_next_master_is_found_when_one_was_killed);
    tcase_add_test(tc, the_next_master_is_found_when_one_stalls);
    tcase_add_test(tc, a_tail_that_a_failover_loses_is_said);
    tcase_add_test(tc, a_failover_that_was_asked_for_is_followed);
    tcase_add_test(tc, a_master_that_was_demoted_is_left);
    suite_add_tcase(suite, tc);

    tc = tcase_create("sentinels");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, TIMEOUT_S);
    tcase_add_test(tc, one_sentinel_is_enough);
    tcase_add_test(tc, a_sentinel_that_names_a_replica_is_passed_over);
    tcase_add_test(tc, a_sentinel_that_names_a_dead_server_is_passed_over);
    tcase_add_test(tc, a_sentinel_that_names_a_server_that_stalls_is_passed_over);
    tcase_add_test(tc, a_sentinel_that_does_not_know_the_service_is_passed_over);
    tcase_add_test(tc, without_sentinels_what_is_connected_goes_on);
    tcase_add_test(tc, a_sentinel_that_stalls_is_passed_over);
    tcase_add_test(tc, sentinels_may_have_a_password_of_their_own);
    suite_add_tcase(suite, tc);
    return suite;
}
