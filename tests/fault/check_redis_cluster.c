/* The log on a real Redis Cluster whose slots move and whose nodes die, while rooms are written to,
 * followed and read. See traffic.h for what is held against the logs at the end.
 */
#include "roomlog/redis_redirect.h"
#include "roomlog/roomlog_redis.h"

#include "tests/fault/traffic.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 20000, ROOMS = 24, TIMEOUT_S = 30 };

static struct cluster_servers cluster;
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *the_log;
static struct traffic traffic;

/* --- fixture -------------------------------------------------------------------------------- */

static struct redis_server *server_of(const char *key)
{
    return cluster_servers_of(&cluster, key);
}

static void open_cluster(size_t masters, size_t replicas, bool partial)
{
    (void)signal(SIGPIPE, SIG_IGN);
    cluster_servers_start(&cluster, masters, replicas, partial);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
}

static void setup(void)
{
    open_cluster(3, 0, false);
}

static void setup_partial(void)
{
    open_cluster(3, 0, true);
}

static void setup_with_replicas(void)
{
    open_cluster(3, 3, false);
}

static void close_log(void)
{
    if (the_log == NULL)
        return;
    roomlog_close(the_log);
    the_log = NULL;
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
}

static void teardown(void)
{
    close_log();
    poll_loop_fini(&loop);
    cluster_servers_end(&cluster);
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

static void open_log(bool refs)
{
    open_log_at(cluster.url);
    wait_ready(true);
    traffic_open(&traffic, &loop, the_log, ROOMS, refs);
}

static unsigned slot_of_room(size_t i)
{
    char key[48];
    (void)snprintf(key, sizeof(key), "room:%s", traffic.room[i].name);
    return redis_slot_of(str_from(key));
}

static void check_all(void)
{
    for (size_t i = 0; i < ROOMS; i++)
        traffic_check(&traffic, i, server_of);
    traffic_close(&traffic);
}

/* --- slots that move ------------------------------------------------------------------------ */

START_TEST(a_room_whose_slot_moves_misses_nothing)
{
    open_log(false);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    for (size_t i = 0; i < 4; i++) {
        unsigned slot = slot_of_room(i);
        size_t to = (cluster.owner[slot] + 1U) % 3;
        uint64_t redirects = metrics.v[M_LOG_REDIRECTS];
        cluster_servers_move_begin(&cluster, slot, to);
        traffic_more(&traffic, 5, LIMIT_MS); /* the room is still where it was */
        cluster_servers_move_keys(&cluster, slot, to);
        traffic_more(&traffic, 10, LIMIT_MS); /* it has gone ahead: ASK */
        ck_assert_uint_gt(metrics.v[M_LOG_REDIRECTS], redirects);
        cluster_servers_move_end(&cluster, slot, to);
        traffic_more(&traffic, 5, LIMIT_MS); /* MOVED */
    }
    for (size_t i = 0; i < ROOMS; i++) {
        ck_assert_uint_eq(traffic.room[i].refused, 0);
        ck_assert_uint_gt(traffic.room[i].joined, 0);
    }
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(a_room_that_went_ahead_is_heard_from_other_programs_too)
{
    char key[48];
    open_log(false);
    unsigned slot = slot_of_room(0);
    size_t to = (cluster.owner[slot] + 1U) % 3;
    struct witness_follower *w = &traffic.room[0].follower;
    (void)snprintf(key, sizeof(key), "room:%s", traffic.room[0].name);
    redis_server_do(server_of(key), "XADD %s * type n data 0", key);
    cluster_servers_move_begin(&cluster, slot, to);
    cluster_servers_move_keys(&cluster, slot, to);
    for (unsigned i = 1; i < 5; i++) {
        poll_loop_pass(&loop, 50);
        redis_server_do(&cluster.node[to], "ASKING");
        redis_server_do(&cluster.node[to], "XADD %s * type n data %u", key, i);
        poll_loop_pass(&loop, 100);
        ck_assert_uint_eq(w->count, i + 1);
    }
    cluster_servers_move_end(&cluster, slot, to);
    redis_server_do(&cluster.node[to], "XADD %s * type n data 5", key);
    poll_loop_pass(&loop, 200);
    ck_assert_uint_eq(w->count, 6);
    traffic.room[0].next = 6;
    check_all();
}
END_TEST

/* What armed it there is gone with the connection. */
START_TEST(a_room_that_went_ahead_is_heard_over_a_new_connection)
{
    char key[48];
    open_log(false);
    unsigned slot = slot_of_room(0);
    size_t to = (cluster.owner[slot] + 1U) % 3;
    struct witness_follower *w = &traffic.room[0].follower;
    (void)snprintf(key, sizeof(key), "room:%s", traffic.room[0].name);
    redis_server_do(server_of(key), "XADD %s * type n data 0", key);
    cluster_servers_move_begin(&cluster, slot, to);
    cluster_servers_move_keys(&cluster, slot, to);
    poll_loop_pass(&loop, 100);
    ck_assert_uint_eq(w->count, 1);
    ck_assert_uint_eq(redis_server_kill(&cluster.node[to], "roomd-live"), 1);
    wait_ready(false);
    redis_server_do(&cluster.node[to], "ASKING");
    redis_server_do(&cluster.node[to], "XADD %s * type n data 1", key);
    wait_ready(true);
    redis_server_do(&cluster.node[to], "ASKING");
    redis_server_do(&cluster.node[to], "XADD %s * type n data 2", key);
    poll_loop_pass(&loop, 500);
    ck_assert_uint_eq(w->count, 3);
    cluster_servers_move_end(&cluster, slot, to);
    traffic.room[0].next = 3;
    check_all();
}
END_TEST

/* A slot with many keys takes its time, and until it has moved the node serves nothing. */
START_TEST(a_new_node_that_a_room_went_ahead_to_is_kept)
{
    char key[48];
    open_log(false);
    unsigned slot = slot_of_room(0);
    size_t to = cluster_servers_add(&cluster);
    struct witness_follower *w = &traffic.room[0].follower;
    (void)snprintf(key, sizeof(key), "room:%s", traffic.room[0].name);
    redis_server_do(server_of(key), "XADD %s * type n data 0", key);
    poll_loop_pass(&loop, 50);
    cluster_servers_move_begin(&cluster, slot, to);
    cluster_servers_move_keys(&cluster, slot, to);
    poll_loop_pass(&loop, 5500); /* longer than it would be kept for nothing */
    for (size_t i = 0; i < 3; i++)
        (void)redis_server_kill(&cluster.node[i], "roomd-map"); /* another map, now */
    poll_loop_pass(&loop, 500);
    redis_server_do(&cluster.node[to], "ASKING");
    redis_server_do(&cluster.node[to], "XADD %s * type n data 1", key);
    poll_loop_pass(&loop, 500);
    ck_assert_uint_eq(w->count, 2);
    ck_assert_uint_eq(metrics.v[M_LOG_NODES], 4);
    cluster_servers_move_end(&cluster, slot, to);
    traffic.room[0].next = 2;
    check_all();
}
END_TEST

static bool heard_something(void *arg)
{
    const struct witness_follower *w = arg;
    return w->count != 0;
}

/* The first entry goes to where the slot is on its way to, and changes nothing where it was. */
START_TEST(the_first_entry_of_a_room_on_its_way_is_heard)
{
    open_log(false);
    unsigned slot = slot_of_room(0);
    size_t to = (cluster.owner[slot] + 1U) % 3;
    cluster_servers_move_begin(&cluster, slot, to);
    traffic_start(&traffic);
    traffic_more(&traffic, 3, LIMIT_MS);
    cluster_servers_move_end(&cluster, slot, to);
    traffic_more(&traffic, 3, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

/* Nobody told us: its key was nowhere, so no bell rings and no node answers. The next map does. */
START_TEST(the_first_entry_of_a_room_that_moved_unnoticed_is_heard)
{
    open_log(false);
    unsigned slot = slot_of_room(0);
    size_t to = (cluster.owner[slot] + 1U) % 3;
    cluster_servers_move_begin(&cluster, slot, to);
    cluster_servers_move_end(&cluster, slot, to);
    redis_server_do(&cluster.node[to], "XADD room:%s * type n data 0", traffic.room[0].name);
    traffic.room[0].next = 1;
    ck_assert(poll_loop_run(&loop, LIMIT_MS, heard_something, &traffic.room[0].follower));
    check_all();
}
END_TEST

/* An append with a ref has two keys; while one of them is on its way, Redis won't have it. */
START_TEST(an_append_with_a_ref_is_made_once_whatever_moves)
{
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    for (size_t i = 0; i < 8; i++) {
        unsigned slot = slot_of_room(i);
        size_t to = (cluster.owner[slot] + 1U) % 3;
        cluster_servers_move_begin(&cluster, slot, to);
        poll_loop_pass(&loop, 50);
        cluster_servers_move_keys(&cluster, slot, to);
        poll_loop_pass(&loop, 50);
        cluster_servers_move_end(&cluster, slot, to);
        traffic_more(&traffic, 5, LIMIT_MS);
    }
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

/* As operators do it, many slots at a time. */
START_TEST(rooms_live_through_a_reshard)
{
    char seed[32];
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    (void)snprintf(seed, sizeof(seed), "127.0.0.1:%u", cluster.port[0]);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)freopen("/dev/null", "w", stdout);
        (void)execlp("redis-cli", "redis-cli", "--cluster", "reshard", seed, "--cluster-from",
                     cluster.id[0], "--cluster-to", cluster.id[1], "--cluster-slots", "1500",
                     "--cluster-yes", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    while (waitpid(pid, &status, WNOHANG) == 0)
        poll_loop_pass(&loop, 20);
    ck_assert_int_eq(status, 0);
    for (unsigned slot = 0; slot < 1500; slot++)
        cluster.owner[slot] = 1; /* the lowest of the node's go first */
    traffic_more(&traffic, 10, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(a_node_that_is_added_gets_rooms)
{
    open_log(false);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    size_t to = cluster_servers_add(&cluster);
    for (size_t i = 0; i < ROOMS; i += 3) {
        unsigned slot = slot_of_room(i);
        cluster_servers_move_begin(&cluster, slot, to);
        cluster_servers_move_keys(&cluster, slot, to);
        cluster_servers_move_end(&cluster, slot, to);
    }
    traffic_more(&traffic, 10, LIMIT_MS);
    ck_assert_uint_eq(metrics.v[M_LOG_NODES], 4);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

static bool answered(void *arg)
{
    return *(const unsigned *)arg != 0;
}

START_TEST(nodes_that_send_us_round_in_circles_are_given_up)
{
    struct witness_append append = {.then = NULL};
    struct witness_read read = {
        .read = {.from = ROOMLOG_ALL, .max_entries = 10, .max_bytes = 1000}};
    open_log(false);
    unsigned slot = slot_of_room(0);
    size_t from = cluster.owner[slot];
    size_t to = (from + 1U) % 3;
    redis_server_do(&cluster.node[from], "CLUSTER SETSLOT %u NODE %s", slot, cluster.id[to]);
    ck_assert_int_eq(witness_append(the_log, &append, str_from(traffic.room[0].name),
                                    &(struct roomlog_publish){.data = STR("1")}),
                     RD_OK);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, &append.answers));
    ck_assert_int_eq(append.err, RD_EUNAVAIL);
    ck_assert_uint_ge(metrics.v[M_LOG_REDIRECTS], REDIS_REDIRECTS_MAX);
    if (witness_read(the_log, &read, str_from(traffic.room[0].name)) == RD_OK) {
        ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, &read.answers));
        ck_assert_int_eq(read.err, RD_EUNAVAIL);
    }
    /* It is no storm: a live read that goes round waits. */
    uint64_t redirects = metrics.v[M_LOG_REDIRECTS];
    poll_loop_pass(&loop, 500);
    ck_assert_uint_le(metrics.v[M_LOG_REDIRECTS] - redirects, 200);
    redis_server_do(&cluster.node[from], "CLUSTER SETSLOT %u NODE %s", slot, cluster.id[from]);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    witness_read_fini(&read);
    check_all();
}
END_TEST

/* --- nodes that die ------------------------------------------------------------------------- */

static bool promoted(void *arg)
{
    return cluster_servers_promoted(&cluster, *(const size_t *)arg);
}

/* The replica of master 0 is its heir. */
static void wait_promoted(size_t heir)
{
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, promoted, &heir), "no failover");
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        if (cluster.owner[slot] == heir - cluster.masters)
            cluster.owner[slot] = (unsigned char)heir;
}

/* Asks for it until it is done: a failover that the other masters don't hear of in time, or that
 * they won't have so soon after another, is dropped without a word. */
static void fail_over_to(size_t heir)
{
    for (int i = 0; i < 10 && !cluster_servers_promoted(&cluster, heir); i++) {
        if (!cluster_servers_is_master(&cluster, heir))
            redis_server_do(&cluster.node[heir], "CLUSTER FAILOVER");
        (void)poll_loop_run(&loop, LIMIT_MS / 10, promoted, &heir);
    }
}

/* Rooms of other nodes lost nothing at all. Returns how many acknowledged appends are lost. */
static unsigned long check_after_failover(size_t heir)
{
    unsigned long lost = 0;
    for (size_t i = 0; i < ROOMS; i++) {
        if (cluster.owner[slot_of_room(i)] == heir)
            lost += traffic_check_lossy(&traffic, i, server_of);
        else
            traffic_check(&traffic, i, server_of);
    }
    traffic_close(&traffic);
    return lost;
}

START_TEST(a_replica_takes_over_from_a_master_that_was_killed)
{
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 10, LIMIT_MS);
    cluster_servers_kill(&cluster, 0);
    wait_ready(false);
    wait_promoted(3);
    wait_ready(true);
    traffic_more(&traffic, 10, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    (void)check_after_failover(3);
}
END_TEST

static bool has_nodes(void *arg)
{
    return metrics.v[M_LOG_NODES] == *(const uint64_t *)arg;
}

/* The rooms that it had are followed elsewhere; its connections are wanted no more. */
START_TEST(a_node_that_serves_nothing_any_more_is_left)
{
    uint64_t nodes = 3;
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    fail_over_to(3);
    wait_promoted(3);
    traffic_more(&traffic, 5, LIMIT_MS);
    ck_assert_uint_eq(metrics.v[M_LOG_NODES], 4);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, has_nodes, &nodes));
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], 2); /* tracking: that of the others */
    poll_loop_pass(&loop, 200);
    ck_assert_uint_eq(redis_server_kill(&cluster.node[0], "roomd-append"), 0);
    ck_assert_uint_eq(redis_server_kill(&cluster.node[0], "roomd-live"), 0);
    fail_over_to(0); /* and it comes back */
    ck_assert(cluster_servers_promoted(&cluster, 0));
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        if (cluster.owner[slot] == 3)
            cluster.owner[slot] = 0;
    traffic_more(&traffic, 5, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    check_all();
}
END_TEST

START_TEST(a_failover_that_was_asked_for_loses_nothing)
{
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 10, LIMIT_MS);
    fail_over_to(3);
    wait_promoted(3);
    traffic_more(&traffic, 10, LIMIT_MS);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    for (size_t i = 0; i < ROOMS; i++)
        ck_assert_uint_eq(traffic.room[i].follower.broken, 0);
    ck_assert_uint_eq(check_after_failover(3), 0);
}
END_TEST

START_TEST(a_master_that_stalls_is_left_and_may_come_back_as_a_replica)
{
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 10, LIMIT_MS);
    (void)kill(cluster.node[0].pid, SIGSTOP);
    pid_t stopped = cluster.node[0].pid;
    cluster.node[0].pid = 0; /* not to be asked meanwhile */
    wait_promoted(3);
    cluster.node[0].pid = stopped;
    traffic_more(&traffic, 10, LIMIT_MS);
    (void)kill(stopped, SIGCONT);
    traffic_more(&traffic, 10, LIMIT_MS);
    wait_ready(true);
    traffic_stop(&traffic, LIMIT_MS);
    (void)check_after_failover(3);
}
END_TEST

START_TEST(without_a_shard_the_others_go_on)
{
    open_log(true);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    cluster_servers_kill(&cluster, 0);
    wait_ready(false);
    unsigned long refused[ROOMS];
    for (size_t i = 0; i < ROOMS; i++) {
        traffic.room[i].muted = cluster.owner[slot_of_room(i)] == 0;
        refused[i] = traffic.room[i].refused;
    }
    traffic_more(&traffic, 20, LIMIT_MS);
    for (size_t i = 0; i < ROOMS; i++)
        traffic.room[i].muted = false;
    poll_loop_pass(&loop, 2500); /* longer than an append may wait */
    for (size_t i = 0; i < ROOMS; i++) {
        bool gone = cluster.owner[slot_of_room(i)] == 0;
        traffic.room[i].muted = gone;
        ck_assert(gone == (traffic.room[i].refused > refused[i]));
        ck_assert(gone != roomlog_readable(the_log, str_from(traffic.room[i].name)));
    }
    ck_assert(!roomlog_ready(the_log));
    traffic_stop(&traffic, LIMIT_MS);
    for (size_t i = 0; i < ROOMS; i++)
        if (!traffic.room[i].muted)
            traffic_check(&traffic, i, server_of);
    traffic_close(&traffic);
}
END_TEST

/* --- finding it ----------------------------------------------------------------------------- */

START_TEST(any_node_of_the_url_will_do)
{
    char url[128];
    (void)snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%u,127.0.0.1:%u,localhost:%u",
                   redis_server_free_port(), redis_server_free_port(), cluster.port[1]);
    open_log_at(url);
    wait_ready(true);
    traffic_open(&traffic, &loop, the_log, ROOMS, true);
    traffic_start(&traffic);
    traffic_more(&traffic, 5, LIMIT_MS);
    traffic_stop(&traffic, LIMIT_MS);
    ck_assert_uint_eq(metrics.v[M_LOG_SLOTS], REDIS_SLOTS);
    check_all();
}
END_TEST

START_TEST(a_password_is_every_nodes)
{
    char url[128];
    for (size_t i = 0; i < cluster.count; i++)
        redis_server_do(&cluster.node[i], "CONFIG SET requirepass secret");
    (void)snprintf(url, sizeof(url), "redis+cluster://:secret@127.0.0.1:%u", cluster.port[0]);
    open_log_at(url);
    wait_ready(true);
    ck_assert_uint_eq(metrics.v[M_LOG_NODES], 3);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, SFun start)
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, start, teardown);
    tcase_set_timeout(tc, TIMEOUT_S);
    suite_add_tcase(suite, tc);
    return tc;
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_cluster");
    TCase *tc = add_case(suite, "slots", setup);
    tcase_add_test(tc, a_room_whose_slot_moves_misses_nothing);
    tcase_add_test(tc, a_room_that_went_ahead_is_heard_from_other_programs_too);
    tcase_add_test(tc, a_room_that_went_ahead_is_heard_over_a_new_connection);
    tcase_add_test(tc, a_new_node_that_a_room_went_ahead_to_is_kept);
    tcase_add_test(tc, the_first_entry_of_a_room_on_its_way_is_heard);
    tcase_add_test(tc, the_first_entry_of_a_room_that_moved_unnoticed_is_heard);
    tcase_add_test(tc, an_append_with_a_ref_is_made_once_whatever_moves);
    tcase_add_test(tc, rooms_live_through_a_reshard);
    tcase_add_test(tc, a_node_that_is_added_gets_rooms);
    tcase_add_test(tc, nodes_that_send_us_round_in_circles_are_given_up);
    tcase_add_test(tc, any_node_of_the_url_will_do);
    tcase_add_test(tc, a_password_is_every_nodes);

    tc = add_case(suite, "shards", setup_partial);
    tcase_add_test(tc, without_a_shard_the_others_go_on);

    tc = add_case(suite, "failovers", setup_with_replicas);
    tcase_add_test(tc, a_replica_takes_over_from_a_master_that_was_killed);
    tcase_add_test(tc, a_failover_that_was_asked_for_loses_nothing);
    tcase_add_test(tc, a_node_that_serves_nothing_any_more_is_left);
    tcase_add_test(tc, a_master_that_stalls_is_left_and_may_come_back_as_a_replica);
    return suite;
}
