/* Every way of hearing that something has changed, on a real Redis, where it does not work: bells
 * that are muted, refused, swallowed or cut, keys that silence the others, changes that ring
 * nothing. Whatever happens to the bells, entries are delivered once each, in order: the witness of
 * each room fails the test where they aren't chained.
 */
#include "roomlog/roomlog_redis.h"

#include "roomlog/redis_bell.h"
#include "tests/contract/witness.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_proxy.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LIMIT_MS = 8000,
    LIVE_MS = 1000,   /* what comes live comes within this */
    NEVER_MS = 60000, /* between polls that must not hide what bells should have said */
    PROBE_MS = 300,
    ROOMS = 40,
    NAME_MAX_LEN = 32
};

/* M_FEED_SOURCE */
enum { NONE, POLL, TRACKING, KEYSPACE, XREAD, PUBSUB };

static struct redis_server server;
static struct redis_proxy proxy;
static bool proxied;
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *the_log;
static struct roomlog_redis_config config;

#define ROOM STR("lobby")

/* --- fixture -------------------------------------------------------------------------------- */

static void setup(void)
{
    static const char *const events[] = {"--notify-keyspace-events", "Kgxet", NULL};
    (void)signal(SIGPIPE, SIG_IGN);
    redis_server_start(&server, events);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    config = (struct roomlog_redis_config){
        .url = server.url,
        .prefix = "room:",
        .live = ROOMLOG_REDIS_AUTO,
        .poll_ms = NEVER_MS,
        .probe_ms = PROBE_MS,
        .max_entries = 10000,
        .dedupe_ms = 60000,
        .connect_ms = 2000,
        .command_ms = 2000,
        .max_appends = 1000,
        .max_reads = 1000,
    };
}

static void go_through_proxy(void)
{
    redis_proxy_open(&proxy, &loop.loop, &server);
    config.url = proxy.url;
    proxied = true;
}

static void teardown(void)
{
    roomlog_close(the_log);
    if (the_log != NULL)
        poll_loop_pass(&loop, 50);
    if (proxied)
        redis_proxy_close(&proxy);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    poll_loop_fini(&loop);
    redis_server_end(&server);
}

struct at_least {
    const void *p;
    size_t want;
};

static bool counted(void *arg)
{
    const struct at_least *a = arg;
    return *(const unsigned *)a->p >= a->want;
}

static void wait_for(const unsigned *count, unsigned want)
{
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, counted, &(struct at_least){count, want}),
                  "never came");
}

static bool counted_size(void *arg)
{
    const struct at_least *a = arg;
    return *(const size_t *)a->p >= a->want;
}

static void wait_heard_within(const struct witness_follower *w, size_t want, uint64_t ms)
{
    bool heard = poll_loop_run(&loop, ms, counted_size, &(struct at_least){&w->count, want});
    ck_assert_msg(heard, "%zu of %zu heard", w->count, want);
}

static void wait_heard(const struct witness_follower *w, size_t want)
{
    wait_heard_within(w, want, LIMIT_MS);
}

static bool is_metric(void *arg)
{
    const struct at_least *a = arg;
    return *(const uint64_t *)a->p == a->want;
}

static void wait_source(uint64_t source)
{
    struct at_least want = {&metrics.v[M_FEED_SOURCE], source};
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, is_metric, &want),
                  "the source is %d instead of %d", (int)metrics.v[M_FEED_SOURCE], (int)source);
}

static bool has_reconnected(void *arg)
{
    return metrics.v[M_LOG_RECONNECTS] > *(const uint64_t *)arg;
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

static void create_log(void)
{
    the_log = roomlog_redis_create(&loop.loop, &metrics, &config);
    ck_assert_ptr_nonnull(the_log);
}

static void open_log(void)
{
    create_log();
    wait_ready(true);
}

static void add(const char *room)
{
    redis_server_do(&server, "XADD room:%s * type message data 1", room);
}

/* --- rooms that must miss nothing ----------------------------------------------------------- */

static struct witness_follower crowd[ROOMS];
static size_t crowd_added;

static const char *crowd_name(size_t i)
{
    static char name[NAME_MAX_LEN];
    (void)snprintf(name, sizeof(name), "r%zu", i);
    return name;
}

static void crowd_follow(void)
{
    memset(crowd, 0, sizeof(crowd));
    crowd_added = 0;
    for (size_t i = 0; i < ROOMS; i++)
        witness_follow(the_log, &crowd[i], str_from(crowd_name(i)));
    for (size_t i = 0; i < ROOMS; i++)
        wait_for(&crowd[i].started, 1);
}

static void crowd_add(void)
{
    for (size_t i = 0; i < ROOMS; i++)
        add(crowd_name(i));
    crowd_added++;
}

/* All of them, in order, and no break. */
static void crowd_wait_within(uint64_t ms)
{
    for (size_t i = 0; i < ROOMS; i++) {
        wait_heard_within(&crowd[i], crowd_added, ms);
        ck_assert_uint_eq(crowd[i].count, crowd_added);
        ck_assert_uint_eq(crowd[i].broken, 0);
    }
}

static void crowd_wait(void)
{
    crowd_wait_within(LIMIT_MS);
}

static void crowd_unfollow(void)
{
    for (size_t i = 0; i < ROOMS; i++) {
        roomlog_unfollow(the_log, &crowd[i].follower);
        witness_follower_fini(&crowd[i]);
    }
}

static void follow_room(struct witness_follower *w, struct str room)
{
    witness_follow(the_log, w, room);
    wait_for(&w->started, 1);
}

static void follow(struct witness_follower *w)
{
    follow_room(w, ROOM);
}

static void unfollow(struct witness_follower *w)
{
    roomlog_unfollow(the_log, &w->follower);
    witness_follower_fini(w);
}

/* --- each of them --------------------------------------------------------------------------- */

/* All that ring for a plain XADD. */
static const struct {
    enum roomlog_redis_live live;
    uint64_t source;
    const char *does; /* what BELL says, and only BELL */
} SOURCES[] = {
    {ROOMLOG_REDIS_TRACKING, TRACKING, "SUBSCRIBE"},
    {ROOMLOG_REDIS_KEYSPACE, KEYSPACE, "SUBSCRIBE"},
    {ROOMLOG_REDIS_XREAD, XREAD, "XREAD"},
};

START_TEST(a_plain_xadd_is_heard_at_once)
{
    struct witness_follower w = {.then = NULL};
    config.live = SOURCES[_i].live;
    open_log();
    wait_source(SOURCES[_i].source);
    follow(&w);
    for (size_t i = 1; i <= 20; i++) {
        add("lobby");
        wait_heard_within(&w, i, LIVE_MS);
    }
    unfollow(&w);
}
END_TEST

START_TEST(an_idle_room_is_not_read)
{
    struct witness_follower w = {.then = NULL};
    config.live = SOURCES[_i].live;
    open_log();
    wait_source(SOURCES[_i].source);
    follow(&w);
    add("lobby");
    wait_heard(&w, 1);
    poll_loop_pass(&loop, 100);
    uint64_t reads = metrics.v[M_FEED_READS];
    uint64_t bells = metrics.v[M_FEED_BELLS];
    unsigned long long commands = redis_server_info(&server, "total_commands_processed");
    poll_loop_pass(&loop, 500);
    ck_assert_uint_le(metrics.v[M_FEED_READS], reads + 1);  /* an audit's */
    ck_assert_uint_le(metrics.v[M_FEED_BELLS], bells + 10); /* the probe's */
    ck_assert_uint_le(redis_server_info(&server, "total_commands_processed"), commands + 30);
    unfollow(&w);
}
END_TEST

/* Whoever left meanwhile is gone, the answer isn't, and the source is. */
START_TEST(a_log_is_closed_while_it_is_being_read)
{
    struct witness_follower w = {.then = NULL};
    config.live = SOURCES[_i].live;
    open_log();
    wait_source(SOURCES[_i].source);
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    witness_follow(the_log, &w, ROOM);
    poll_loop_pass(&loop, 20);
    unfollow(&w);
    roomlog_close(the_log);
    the_log = NULL;
    bool closed = poll_loop_run_out(&loop, LIMIT_MS);
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    ck_assert(closed);
}
END_TEST

static const char *const CONNECTIONS[] = {"roomd-live", "roomd-bell"};

/* _i: source and connection. */
START_TEST(a_killed_connection_loses_nothing)
{
    config.live = SOURCES[_i / 2].live;
    open_log();
    crowd_follow();
    crowd_add();
    for (unsigned round = 1; round <= 3; round++) {
        wait_source(SOURCES[_i / 2].source);
        ck_assert_uint_eq(redis_server_kill(&server, CONNECTIONS[_i % 2]), 1);
        crowd_add();
        wait_ready(false);
        crowd_add();
        wait_ready(true);
        crowd_add();
        crowd_wait_within(LIVE_MS);
    }
    crowd_unfollow();
}
END_TEST

/* The connection is there, Redis is well, and nothing rings any more. */
START_TEST(a_bell_that_falls_silent_is_noticed_and_nothing_is_lost)
{
    config.live = SOURCES[_i].live;
    go_through_proxy();
    open_log();
    crowd_follow();
    wait_source(SOURCES[_i].source);
    crowd_add();
    crowd_wait_within(LIVE_MS);
    uint64_t reconnects = metrics.v[M_LOG_RECONNECTS];

    proxy.trick = REDIS_PROXY_MUTES;
    crowd_add();
    poll_loop_pass(&loop, 20);
    /* Whoever connects anew is heard again. */
    proxy.word = "nobody says this";
    crowd_wait(); /* by the probe; or by the audit, which may come before it */
    ck_assert(poll_loop_run(&loop, LIMIT_MS, has_reconnected, &reconnects));
    wait_source(SOURCES[_i].source);
    crowd_add();
    crowd_wait_within(LIVE_MS);
    crowd_unfollow();
}
END_TEST

/* Redis itself is frozen for a while, with all that it has to say. */
START_TEST(a_redis_that_stalls_loses_nothing)
{
    config.live = SOURCES[_i].live;
    open_log();
    crowd_follow();
    wait_source(SOURCES[_i].source);
    crowd_add();
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    poll_loop_pass(&loop, 600); /* probes go unanswered, no connection is given up yet */
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    crowd_add();
    crowd_wait();
    wait_ready(true);
    crowd_unfollow();
}
END_TEST

/* Joining and leaving while bells ring. */
START_TEST(rooms_that_come_and_go_hear_their_own)
{
    static struct witness_follower w[ROOMS];
    memset(w, 0, sizeof(w));
    config.live = SOURCES[_i].live;
    open_log();
    wait_source(SOURCES[_i].source);
    crowd_follow();
    for (unsigned round = 0; round < 10; round++) {
        for (size_t i = 0; i < ROOMS; i += 2)
            witness_follow(the_log, &w[i], str_from("other"));
        for (size_t i = 1; i < ROOMS; i += 2) {
            char name[NAME_MAX_LEN];
            (void)snprintf(name, sizeof(name), "x%zu", i);
            witness_follow(the_log, &w[i], str_from(name));
        }
        crowd_add();
        poll_loop_pass(&loop, round);
        for (size_t i = 0; i < ROOMS; i++)
            unfollow(&w[i]);
        memset(w, 0, sizeof(w));
    }
    crowd_wait();
    /* The newest is as well off as those that were there from the start. */
    follow_room(&w[0], STR("new"));
    poll_loop_pass(&loop, 100);
    add("new");
    wait_heard_within(&w[0], 1, LIVE_MS / 2);
    unfollow(&w[0]);
    crowd_unfollow();
}
END_TEST

/* --- auto ----------------------------------------------------------------------------------- */

/* What is taken from us, and what is left. */
static const struct {
    const char *rights, *events;
    uint64_t source;
} RIGHTS[] = {
    {"+@all", "Kgxet", TRACKING},
    {"-client|tracking", "Kgxet", KEYSPACE},
    {"-client|tracking", "KEA", KEYSPACE},
    {"-client|tracking", "", POLL},
    {"-client|tracking", "Kgxe", POLL}, /* all but those of streams */
    {"-client|tracking -config", "Kgxet", KEYSPACE},
    {"-subscribe", "Kgxet", POLL},
    {"-client|tracking resetchannels", "Kgxet", POLL},
    {"-client|tracking resetchannels &__keyspace@0__:roomd:*", "Kgxet", POLL},
    {"resetchannels &__redis__:invalidate", "", TRACKING},
};

START_TEST(auto_takes_the_first_that_works)
{
    char rights[128];
    (void)snprintf(rights, sizeof(rights), "ACL SETUSER default %s", RIGHTS[_i].rights);
    redis_server_do(&server, "CONFIG SET notify-keyspace-events %s", RIGHTS[_i].events);
    redis_server_do(&server, rights);
    config.poll_ms = RIGHTS[_i].source == POLL ? 20 : NEVER_MS;
    open_log();
    crowd_follow(); /* some rights are missed only once there is a room */
    wait_source(RIGHTS[_i].source);
    poll_loop_pass(&loop, RIGHTS[_i].source == POLL ? 3000 : 0);
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], RIGHTS[_i].source);
    for (unsigned round = 1; round <= 3; round++) {
        crowd_add();
        crowd_wait_within(LIVE_MS);
    }
    ck_assert(roomlog_ready(the_log));
    crowd_unfollow();
}
END_TEST

static const struct {
    enum redis_proxy_trick trick;
    const char *word;
    uint64_t source;
} TRICKS[] = {
    {REDIS_PROXY_SWALLOWS, "SUBSCRIBE", POLL},
    {REDIS_PROXY_HANGS_UP, "SUBSCRIBE", POLL},
    {REDIS_PROXY_MUTES, "SUBSCRIBE", POLL},
    {REDIS_PROXY_HANGS_UP, "__redis__:invalidate", KEYSPACE},
    {REDIS_PROXY_SWALLOWS, "__redis__:invalidate", KEYSPACE},
    {REDIS_PROXY_HANGS_UP, "__keyspace", TRACKING},
};

/* It reads and writes as it should, and bells don't get through. Meanwhile rooms are read. */
START_TEST(auto_finds_its_way_around_a_proxy)
{
    config.poll_ms = 20;
    config.command_ms = 400;
    go_through_proxy();
    proxy.trick = TRICKS[_i].trick;
    proxy.word = TRICKS[_i].word;
    uint64_t began = loop_now_ms(&loop.loop);
    open_log();
    crowd_follow();
    crowd_add();
    crowd_wait();
    ck_assert_uint_lt(loop_now_ms(&loop.loop) - began, 2500);
    wait_source(TRICKS[_i].source);
    for (unsigned round = 1; round <= 10; round++) {
        crowd_add();
        poll_loop_pass(&loop, 200);
        ck_assert(roomlog_ready(the_log));
    }
    crowd_wait_within(LIVE_MS);
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], TRICKS[_i].source);

    /* Once it is honest: by a new connection, or in a while. */
    proxy.trick = REDIS_PROXY_HONEST;
    if (TRICKS[_i].source == KEYSPACE)
        ck_assert_uint_eq(redis_server_kill(&server, "roomd-live"), 1);
    wait_source(TRACKING);
    crowd_add();
    crowd_wait_within(LIVE_MS);
    crowd_unfollow();
}
END_TEST

START_TEST(after_a_reconnect_auto_begins_with_the_best_again)
{
    redis_server_do(&server, "ACL SETUSER default -client|tracking");
    open_log();
    crowd_follow();
    wait_source(KEYSPACE);
    redis_server_do(&server, "ACL SETUSER default +client|tracking");
    poll_loop_pass(&loop, 500);
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], KEYSPACE);
    ck_assert_uint_eq(redis_server_kill(&server, "roomd-live"), 1);
    wait_source(TRACKING);
    crowd_add();
    crowd_wait_within(LIVE_MS);
    crowd_unfollow();
}
END_TEST

/* --- rights and settings that change meanwhile ----------------------------------------------- */

START_TEST(a_source_that_was_asked_for_and_is_refused_is_not_ready)
{
    redis_server_do(&server, "ACL SETUSER default resetchannels");
    redis_server_do(&server, "ACL SETUSER default -xread");
    config.live = SOURCES[_i].live;
    create_log();
    poll_loop_pass(&loop, 1000);
    ck_assert(!roomlog_ready(the_log));
    redis_server_do(&server, "ACL SETUSER default allchannels +xread");
    wait_ready(true);
    wait_source(SOURCES[_i].source);
}
END_TEST

/* Redis hangs up on a subscriber that mayn't hear its channels any more. */
START_TEST(channels_that_are_taken_away_lose_nothing)
{
    config.live = _i == 0 ? ROOMLOG_REDIS_KEYSPACE : ROOMLOG_REDIS_AUTO;
    if (_i == 1)
        config.poll_ms = 50;
    redis_server_do(&server, "ACL SETUSER default -client|tracking");
    open_log();
    crowd_follow();
    wait_source(KEYSPACE);
    crowd_add();
    redis_server_do(&server, "ACL SETUSER default resetchannels");
    crowd_add();
    if (_i == 0)
        wait_ready(false);
    else
        wait_source(POLL);
    crowd_add();
    redis_server_do(&server, "ACL SETUSER default allchannels");
    wait_source(KEYSPACE);
    wait_ready(true);
    crowd_add();
    crowd_wait();
    crowd_unfollow();
}
END_TEST

START_TEST(events_that_are_switched_off_and_on_lose_nothing)
{
    config.live = ROOMLOG_REDIS_KEYSPACE;
    config.poll_ms = 50;
    open_log();
    crowd_follow();
    wait_source(KEYSPACE);
    for (unsigned round = 1; round <= 2; round++) {
        redis_server_do(&server, "CONFIG SET notify-keyspace-events %s", "");
        crowd_add();
        wait_source(POLL); /* it says so, and reads again and again */
        crowd_add();
        crowd_wait_within(LIVE_MS);
        wait_ready(true);
        redis_server_do(&server, "CONFIG SET notify-keyspace-events Kgxet");
        crowd_add();
        wait_source(KEYSPACE);
        crowd_add();
        crowd_wait_within(LIVE_MS);
    }
    crowd_unfollow();
}
END_TEST

/* Between the last poll and the moment from which events are made again. */
START_TEST(what_came_just_before_bells_rang_again_is_not_lost)
{
    config.live = ROOMLOG_REDIS_KEYSPACE;
    redis_server_do(&server, "CONFIG SET notify-keyspace-events %s", "");
    open_log(); /* polls, but not before this test ends */
    crowd_follow();
    poll_loop_pass(&loop, 1500); /* a probe was not heard */
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], POLL);
    crowd_add();
    redis_server_do(&server, "CONFIG SET notify-keyspace-events Kgxet");
    wait_source(KEYSPACE);
    crowd_wait_within(LIVE_MS);
    crowd_unfollow();
}
END_TEST

/* --- tracking ------------------------------------------------------------------------------- */

START_TEST(a_tracking_table_that_is_too_small_loses_nothing)
{
    enum { MANY = 500 };
    static struct witness_follower w[MANY];
    memset(w, 0, sizeof(w));
    config.live = ROOMLOG_REDIS_TRACKING;
    redis_server_do(&server, "CONFIG SET tracking-table-max-keys 20");
    open_log();
    for (size_t i = 0; i < MANY; i++)
        witness_follow(the_log, &w[i], str_from(crowd_name(i)));
    for (size_t i = 0; i < MANY; i++)
        wait_for(&w[i].started, 1);
    wait_source(TRACKING);
    for (unsigned round = 1; round <= 5; round++) {
        for (size_t i = 0; i < MANY; i++)
            add(crowd_name(i));
        poll_loop_pass(&loop, 20);
    }
    for (size_t i = 0; i < MANY; i++) {
        wait_heard_within(&w[i], 5, LIVE_MS);
        ck_assert_uint_eq(w[i].count, 5);
        unfollow(&w[i]);
    }
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], TRACKING);
}
END_TEST

/* A replica that has lost its master and must not serve what it has: it says so, at once, to all.
 */
START_TEST(a_redis_that_serves_nothing_is_not_asked_all_the_time)
{
    enum { MANY = 2000 };
    static struct witness_follower w[MANY];
    memset(w, 0, sizeof(w));
    config.live = ROOMLOG_REDIS_TRACKING;
    redis_server_do(&server, "CONFIG SET replica-serve-stale-data no");
    open_log();
    wait_source(TRACKING);
    for (size_t i = 0; i < MANY; i++)
        witness_follow(the_log, &w[i], str_from(crowd_name(i)));
    for (size_t i = 0; i < MANY; i++)
        wait_for(&w[i].started, 1);
    for (size_t i = 0; i < MANY; i++)
        add(crowd_name(i));
    redis_server_do(&server, "REPLICAOF 127.0.0.1 1");
    poll_loop_pass(&loop, 500);
    uint64_t reads = metrics.v[M_FEED_READS];
    poll_loop_pass(&loop, 2000);
    ck_assert_uint_gt(metrics.v[M_FEED_READS] - reads, 100);
    ck_assert_uint_lt(metrics.v[M_FEED_READS] - reads, 3 * MANY);
    redis_server_do(&server, "REPLICAOF NO ONE");
    for (size_t i = 0; i < MANY; i++) {
        wait_heard_within(&w[i], 1, LIVE_MS);
        ck_assert_uint_eq(w[i].count, 1);
        unfollow(&w[i]);
    }
}
END_TEST

/* At most one bell waits for each room, however much comes. */
START_TEST(a_node_that_stalls_finds_few_bells)
{
    config.live = ROOMLOG_REDIS_TRACKING;
    open_log();
    crowd_follow();
    wait_source(TRACKING);
    poll_loop_pass(&loop, 50);
    uint64_t bells = metrics.v[M_FEED_BELLS];
    for (unsigned round = 1; round <= 50; round++)
        crowd_add(); /* our loop doesn't turn */
    poll_loop_pass(&loop, 1);
    ck_assert_uint_le(metrics.v[M_FEED_BELLS] - bells, ROOMS + 2);
    crowd_wait();
    crowd_unfollow();
}
END_TEST

/* --- keyspace ------------------------------------------------------------------------------- */

/* FLUSHALL makes no event. */
START_TEST(what_makes_no_event_is_found_by_the_audit)
{
    config.live = ROOMLOG_REDIS_KEYSPACE;
    open_log();
    crowd_follow();
    wait_source(KEYSPACE);
    crowd_add();
    crowd_wait();
    redis_server_do(&server, "FLUSHALL");
    uint64_t began = loop_now_ms(&loop.loop);
    for (size_t i = 0; i < ROOMS; i++) {
        while (crowd[i].broken == 0 && loop_now_ms(&loop.loop) - began < 11000)
            poll_loop_pass(&loop, 50);
        ck_assert_uint_eq(crowd[i].broken, 1);
        ck_assert_int_eq(crowd[i].why, VERDICT_RESET);
    }
    crowd_unfollow();
}
END_TEST

static const char *const WIPES[] = {"DEL room:lobby", "UNLINK room:lobby",
                                    "RENAME room:lobby elsewhere", "PEXPIRE room:lobby 1",
                                    "SET room:lobby x"};

START_TEST(a_log_that_vanishes_is_a_reset_at_once)
{
    struct witness_follower w = {.then = NULL};
    config.live = ROOMLOG_REDIS_KEYSPACE;
    if (_i == 4) /* SET is an event of strings */
        redis_server_do(&server, "CONFIG SET notify-keyspace-events KA");
    open_log();
    wait_source(KEYSPACE);
    follow(&w);
    add("lobby");
    wait_heard_within(&w, 1, LIVE_MS);
    redis_server_do(&server, WIPES[_i]);
    ck_assert(poll_loop_run(&loop, LIVE_MS, counted, &(struct at_least){&w.broken, 1}));
    ck_assert_int_eq(w.why, VERDICT_RESET);
    unfollow(&w);
}
END_TEST

/* Rooms that come and go while Redis doesn't answer are asked for only as far as it is already
 * under way. */
START_TEST(rooms_that_came_and_went_while_redis_did_not_answer_are_not_asked_for)
{
    enum { MANY = 20000, WINDOW = 512 };
    struct witness_follower w = {.then = NULL};
    config.live = ROOMLOG_REDIS_KEYSPACE;
    config.command_ms = 30000;
    open_log();
    crowd_follow();
    wait_source(KEYSPACE);
    unsigned long long commands = redis_server_info(&server, "total_commands_processed");
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    for (size_t i = 0; i < MANY; i++) {
        char name[NAME_MAX_LEN];
        (void)snprintf(name, sizeof(name), "left%zu", i);
        witness_follow(the_log, &w, str_from(name));
        unfollow(&w);
        w = (struct witness_follower){.then = NULL};
    }
    poll_loop_pass(&loop, 100);
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    crowd_add();
    crowd_wait_within(LIVE_MS);
    poll_loop_pass(&loop, 100);
    ck_assert_uint_le(redis_server_info(&server, "total_commands_processed"),
                      commands + 2 * WINDOW + 1000);
    crowd_unfollow();
}
END_TEST

/* --- xread ---------------------------------------------------------------------------------- */

/* One such key fails the whole call. */
START_TEST(a_room_that_cannot_be_read_does_not_silence_the_others)
{
    struct witness_follower w = {.then = NULL};
    config.live = ROOMLOG_REDIS_XREAD;
    open_log();
    crowd_follow();
    wait_source(XREAD);
    follow(&w);
    add("lobby");
    wait_heard_within(&w, 1, LIVE_MS);
    if (_i == 0)
        redis_server_do(&server, "SET room:lobby x");
    else
        redis_server_do(&server, "ACL SETUSER default resetkeys ~room:r* ~roomd:*");
    wait_for(&w.broken, 1);
    ck_assert_int_eq(w.why, VERDICT_RESET);
    for (unsigned round = 1; round <= 5; round++) {
        crowd_add();
        crowd_wait_within(LIVE_MS);
    }
    ck_assert_uint_eq(metrics.v[M_FEED_SOURCE], XREAD);

    /* And it is one of them again once it can be. */
    if (_i == 0)
        redis_server_do(&server, "DEL room:lobby");
    else
        redis_server_do(&server, "ACL SETUSER default allkeys");
    add("lobby");
    wait_heard(&w, 2);
    poll_loop_pass(&loop, 50);
    add("lobby");
    wait_heard_within(&w, 3, LIVE_MS / 2);
    unfollow(&w);
    crowd_unfollow();
}
END_TEST

START_TEST(a_log_that_began_anew_is_found_by_the_audit)
{
    struct witness_follower w = {.then = NULL};
    config.live = ROOMLOG_REDIS_XREAD;
    open_log();
    wait_source(XREAD);
    follow(&w);
    add("lobby");
    wait_heard(&w, 1);
    redis_server_do(&server, "DEL room:lobby");
    redis_server_do(&server, "XADD room:lobby 1-1 data 1");
    wait_for(&w.broken, 1);
    /* From where it is now. */
    poll_loop_pass(&loop, 50);
    redis_server_do(&server, "XADD room:lobby 1-2 data 1");
    wait_heard_within(&w, 2, LIVE_MS / 2);
    unfollow(&w);
}
END_TEST

START_TEST(who_may_not_unblock_waits_a_second)
{
    struct witness_follower w = {.then = NULL};
    redis_server_do(&server, "ACL SETUSER default -client|unblock");
    config.live = ROOMLOG_REDIS_XREAD;
    open_log();
    wait_source(XREAD);
    follow(&w);
    for (size_t i = 1; i <= 3; i++) {
        add("lobby");
        wait_heard_within(&w, i, 2 * LIVE_MS);
    }
    unfollow(&w);
}
END_TEST

START_TEST(xread_is_refused_on_a_cluster)
{
    static const char url[] = "redis+cluster://127.0.0.1:1";
    char reason[64];
    ck_assert(!roomlog_redis_live_valid(url, ROOMLOG_REDIS_XREAD, reason, sizeof(reason)));
    ck_assert_str_eq(reason, "xread doesn't work on a cluster: take auto");
    ck_assert(roomlog_redis_live_valid(url, ROOMLOG_REDIS_KEYSPACE, reason, sizeof(reason)));
    ck_assert(roomlog_redis_live_valid(server.url, ROOMLOG_REDIS_XREAD, reason, sizeof(reason)));
    config.url = url;
    config.live = ROOMLOG_REDIS_XREAD;
    ck_assert_ptr_null(roomlog_redis_create(&loop.loop, &metrics, &config));
}
END_TEST

START_TEST(rooms_above_the_ceiling_are_read_all_the_same)
{
    enum { MANY = 1100 };
    static struct witness_follower w[MANY];
    memset(w, 0, sizeof(w));
    config.live = ROOMLOG_REDIS_XREAD;
    open_log();
    wait_source(XREAD);
    for (size_t i = 0; i < MANY; i++)
        witness_follow(the_log, &w[i], str_from(crowd_name(i)));
    for (size_t i = 0; i < MANY; i++)
        wait_for(&w[i].started, 1);
    for (size_t i = 1; i <= 3; i++) {
        add(crowd_name(MANY - 1));
        wait_heard_within(&w[MANY - 1], i, 2 * LIVE_MS);
        add(crowd_name(0));
        wait_heard_within(&w[0], i, LIVE_MS);
    }
    /* Those that leave make room. */
    for (size_t i = 0; i < MANY - 1; i++)
        unfollow(&w[i]);
    poll_loop_pass(&loop, 1500);
    add(crowd_name(MANY - 1));
    wait_heard_within(&w[MANY - 1], 4, LIVE_MS / 2);
    unfollow(&w[MANY - 1]);
}
END_TEST

/* --- pubsub --------------------------------------------------------------------------------- */

/* Appends and announces, as roomd's own script does. */
static void announce(const char *room, const char *data)
{
    static const char script[] =
        "local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)\n"
        "local prev = last[1] and last[1][1] or '0-0'\n"
        "local id = redis.call('XADD', KEYS[1], '*', 'type', 'message', 'data', ARGV[1])\n"
        "redis.call('PUBLISH', KEYS[1], id .. ' ' .. prev .. ' 7:message,' .. #ARGV[1] .. ':' ..\n"
        "  ARGV[1] .. ',-,-,-,')\n";
    redis_server_do(&server, "EVAL %s 1 room:%s %s", script, room, data);
}

static void open_pubsub(void)
{
    config.live = ROOMLOG_REDIS_PUBSUB;
    open_log();
    wait_source(PUBSUB);
}

START_TEST(an_announced_entry_needs_no_read)
{
    struct witness_follower w = {.then = NULL};
    open_pubsub();
    follow(&w);
    add("lobby"); /* 0-0 names no entry, so the first is read */
    announce("lobby", "0");
    wait_heard_within(&w, 2, LIVE_MS);
    poll_loop_pass(&loop, 20);
    uint64_t reads = metrics.v[M_FEED_READS];
    for (size_t i = 1; i <= 10; i++) {
        announce("lobby", "hello");
        wait_heard_within(&w, 2 + i, LIVE_MS);
    }
    ck_assert_uint_eq(metrics.v[M_FEED_HINTS], 10);
    ck_assert_uint_le(metrics.v[M_FEED_READS], reads + 1); /* an audit's */
    ck_assert(witness_text_is(&w.entries[11].type, STR("message")));
    ck_assert(witness_text_is(&w.entries[11].data, STR("hello")));
    ck_assert(!w.entries[11].from.present);
    unfollow(&w);
}
END_TEST

START_TEST(what_roomd_publishes_needs_no_read_either)
{
    enum { COUNT = 20 };
    static struct witness_append a[COUNT];
    struct witness_follower w = {.then = NULL};
    struct roomlog_publish what = {.type = STR("t"),
                                   .data = STR("[1,\"\\u0000\"]"),
                                   .from = STR("ann"),
                                   .ref = STR("r"),
                                   .key = STR("k:,-")};
    memset(a, 0, sizeof(a));
    open_pubsub();
    follow(&w);
    add("lobby");
    redis_server_do(&server, "PUBLISH room:lobby x");
    wait_heard_within(&w, 1, LIVE_MS);
    poll_loop_pass(&loop, 20);
    for (size_t i = 0; i < COUNT; i++) {
        if (i == COUNT / 2)
            what = (struct roomlog_publish){.data = STR("1")};
        char ref[8];
        (void)snprintf(ref, sizeof(ref), "r%zu", i);
        if (str_present(what.ref))
            what.ref = str_from(ref);
        ck_assert_int_eq(witness_append(the_log, &a[i], ROOM, &what), RD_OK);
    }
    wait_heard_within(&w, 1 + COUNT, LIVE_MS);
    ck_assert_uint_eq(metrics.v[M_FEED_HINTS], COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        wait_for(&a[i].answers, 1);
        ck_assert(stream_id_eq(w.entries[1 + i].id, a[i].id));
    }
    ck_assert(witness_text_is(&w.entries[1].data, STR("[1,\"\\u0000\"]")));
    ck_assert(witness_text_is(&w.entries[1].from, STR("ann")));
    ck_assert(witness_text_is(&w.entries[1].ref, STR("r0")));
    ck_assert(witness_text_is(&w.entries[1].key, STR("k:,-")));
    ck_assert(witness_text_is(&w.entries[COUNT].data, STR("1")));
    ck_assert(!w.entries[COUNT].ref.present);
    unfollow(&w);
}
END_TEST

START_TEST(an_announcement_that_does_not_chain_is_a_bell)
{
    struct witness_follower w = {.then = NULL};
    open_pubsub();
    follow(&w);
    announce("lobby", "1");
    wait_heard_within(&w, 1, LIVE_MS);
    add("lobby");
    add("lobby");
    announce("lobby", "2");
    wait_heard_within(&w, 4, LIVE_MS);
    ck_assert_uint_eq(metrics.v[M_FEED_HINTS], 0);
    poll_loop_pass(&loop, 20);
    announce("lobby", "3");
    wait_heard_within(&w, 5, LIVE_MS);
    ck_assert_uint_eq(metrics.v[M_FEED_HINTS], 1);
    unfollow(&w);
}
END_TEST

/* The same room of another database of the same Redis: channels have no databases. */
static const char *const FORGED[] = {
    "hello",
    "1-1 0-0 -,1:1,-,-,-,",
    "99999999999999-1 0-0 -,1:1,-,-,-,",
    "99999999999999-1 99999999999999-0 -,1:1,-,-,-,",
    "99999999999999-1 5-0 -,1:1,-,-,-",
};

START_TEST(what_somebody_sends_is_not_believed)
{
    struct witness_follower w = {.then = NULL};
    open_pubsub();
    redis_server_do(&server, "XADD room:lobby 5-0 data 1");
    follow(&w);
    redis_server_do(&server, "PUBLISH room:lobby %s", FORGED[_i]);
    poll_loop_pass(&loop, 100);
    ck_assert_uint_eq(w.count, 0);
    redis_server_do(&server, "XADD room:lobby 6-0 data 1");
    redis_server_do(&server, "PUBLISH room:lobby %s", FORGED[_i]); /* a bell */
    wait_heard_within(&w, 1, LIVE_MS);
    ck_assert_uint_eq(w.entries[0].id.ms, 6);
    ck_assert_uint_eq(metrics.v[M_FEED_HINTS], 0);
    unfollow(&w);
}
END_TEST

START_TEST(a_plain_xadd_that_nobody_announces_is_found_by_the_audit)
{
    open_pubsub();
    crowd_follow();
    poll_loop_pass(&loop, 100);
    crowd_add();
    crowd_wait_within(11000);
    crowd_unfollow();
}
END_TEST

/* Redis hangs up on a subscriber that doesn't keep up, and drops what it had for it. */
START_TEST(a_subscriber_that_is_too_slow_loses_nothing)
{
    enum { COUNT = 300 };
    static char large[1001];
    struct witness_follower w = {.then = NULL};
    memset(large, 'x', sizeof(large) - 1);
    const char *words[] = {"CONFIG", "SET", "client-output-buffer-limit", "pubsub 16kb 16kb 1"};
    freeReplyObject(redis_server_ask(&server, 4, words, NULL));
    open_pubsub();
    follow(&w);
    announce("lobby", "1");
    wait_heard(&w, 1);
    uint64_t reconnects = metrics.v[M_LOG_RECONNECTS];
    for (unsigned i = 0; i < COUNT; i++)
        announce("lobby", large); /* our loop doesn't turn */
    wait_heard(&w, 1 + COUNT);
    ck_assert_uint_eq(w.count, 1 + COUNT);
    ck_assert_uint_gt(metrics.v[M_LOG_RECONNECTS], reconnects);
    wait_source(PUBSUB);
    announce("lobby", "2");
    wait_heard_within(&w, 2 + COUNT, LIVE_MS);
    unfollow(&w);
}
END_TEST

START_TEST(announcements_lost_with_their_connection_are_read)
{
    struct witness_follower w = {.then = NULL};
    open_pubsub();
    follow(&w);
    size_t count = 0;
    for (unsigned round = 1; round <= 3; round++) {
        wait_source(PUBSUB);
        announce("lobby", "1");
        ck_assert_uint_eq(redis_server_kill(&server, CONNECTIONS[_i]), 1);
        announce("lobby", "2");
        poll_loop_pass(&loop, 5);
        announce("lobby", "3");
        count += 3;
        wait_heard_within(&w, count, 2 * LIVE_MS);
        ck_assert_uint_eq(w.count, count);
    }
    unfollow(&w);
}
END_TEST

/* --- the suite ------------------------------------------------------------------------------ */

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

/* --- a bell by itself ----------------------------------------------------------------------- */

/* Of a cluster's node, which for a while holds nothing. */
struct node {
    struct redis_url url;
    struct redis_finder_fixed finder;
    struct redis_bell *bell;
    struct redis_conn *appends;
    bool holds;
    uint64_t asked; /* whether it does */
    unsigned parts, opens;
};

static bool node_holds(void *arg, struct str key)
{
    struct node *node = arg;
    ck_assert_uint_ne(key.len, 0);
    node->asked++;
    return node->holds;
}

static bool node_write(void *arg, struct redis_command *command, const struct redis_words *words)
{
    return redis_conn_send(((struct node *)arg)->appends, command, words, 1);
}

static void node_health(void *arg, bool ok, const char *reason)
{
}

static void node_open(void *arg)
{
    ((struct node *)arg)->opens++;
}

static void node_closed(void *arg)
{
    ((struct node *)arg)->parts--;
}

static void node_said(void *arg, const char *reason)
{
}

static void node_rung_all(void *arg)
{
}

static const struct redis_bell_ops node_ops = {
    .open = node_open, .rung_all = node_rung_all, .closed = node_closed};
static const struct redis_conn_ops node_conn_ops = {
    .up = node_rung_all, .down = node_said, .closed = node_closed};

/* It looks for a key of its own, little at a time, and what it finds is what its source hears. */
START_TEST(a_node_that_holds_nothing_yet_is_probed_once_it_does)
{
    struct node node = {.holds = false, .parts = 2};
    char reason[100];
    ck_assert(redis_url_parse(server.url, &node.url, reason, sizeof(reason)));
    redis_finder_fixed_init(&node.finder, &node.url.places[0]);
    const struct redis_conn_config conn = {.url = &node.url,
                                           .finder = &node.finder.finder,
                                           .name = "test",
                                           .connect_ms = 2000,
                                           .command_ms = 2000};
    node.appends = redis_conn_open(&loop.loop, &metrics, &conn, &node_conn_ops, &node);
    node.bell = redis_bell_open(&loop.loop, &metrics,
                                &(struct redis_bell_config){.url = &node.url,
                                                            .finder = &node.finder.finder,
                                                            .live = ROOMLOG_REDIS_KEYSPACE,
                                                            .connect_ms = 2000,
                                                            .command_ms = 2000,
                                                            .probe_ms = PROBE_MS,
                                                            .owner = &node,
                                                            .health = node_health,
                                                            .write = node_write,
                                                            .holds = node_holds},
                                &node_ops, &node);
    poll_loop_pass(&loop, 4 * PROBE_MS);
    ck_assert_uint_eq(node.opens, 1);
    ck_assert_uint_gt(node.asked, 0);
    ck_assert_uint_lt(node.asked, 6 * 5000);
    node.holds = true;
    wait_source(KEYSPACE);
    ck_assert_uint_eq(node.opens, 1);
    redis_bell_close(node.bell);
    redis_conn_close(node.appends);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    ck_assert_uint_eq(node.parts, 0);
    redis_url_fini(&node.url);
}
END_TEST

static void add_case(Suite *suite, const char *name, TCase **out)
{
    *out = tcase_create(name);
    tcase_add_checked_fixture(*out, setup, teardown);
    tcase_set_timeout(*out, 30);
    suite_add_tcase(suite, *out);
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_bell");
    TCase *tc;

    add_case(suite, "sources", &tc);
    tcase_add_loop_test(tc, a_plain_xadd_is_heard_at_once, 0, COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, an_idle_room_is_not_read, 0, COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, a_log_is_closed_while_it_is_being_read, 0, COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, a_killed_connection_loses_nothing, 0, 2 * COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, a_bell_that_falls_silent_is_noticed_and_nothing_is_lost, 0,
                        COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, a_redis_that_stalls_loses_nothing, 0, COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, rooms_that_come_and_go_hear_their_own, 0, COUNT_OF(SOURCES));
    tcase_add_loop_test(tc, a_source_that_was_asked_for_and_is_refused_is_not_ready, 0,
                        COUNT_OF(SOURCES));

    add_case(suite, "auto", &tc);
    tcase_add_loop_test(tc, auto_takes_the_first_that_works, 0, COUNT_OF(RIGHTS));
    tcase_add_loop_test(tc, auto_finds_its_way_around_a_proxy, 0, COUNT_OF(TRICKS));
    tcase_add_test(tc, after_a_reconnect_auto_begins_with_the_best_again);

    add_case(suite, "tracking", &tc);
    tcase_add_test(tc, a_tracking_table_that_is_too_small_loses_nothing);
    tcase_add_test(tc, a_redis_that_serves_nothing_is_not_asked_all_the_time);
    tcase_add_test(tc, a_node_that_stalls_finds_few_bells);

    add_case(suite, "keyspace", &tc);
    tcase_add_loop_test(tc, channels_that_are_taken_away_lose_nothing, 0, 2);
    tcase_add_test(tc, events_that_are_switched_off_and_on_lose_nothing);
    tcase_add_test(tc, what_came_just_before_bells_rang_again_is_not_lost);
    tcase_add_test(tc, what_makes_no_event_is_found_by_the_audit);
    tcase_add_loop_test(tc, a_log_that_vanishes_is_a_reset_at_once, 0, COUNT_OF(WIPES));
    tcase_add_test(tc, rooms_that_came_and_went_while_redis_did_not_answer_are_not_asked_for);

    tcase_add_test(tc, a_node_that_holds_nothing_yet_is_probed_once_it_does);

    add_case(suite, "xread", &tc);
    tcase_add_loop_test(tc, a_room_that_cannot_be_read_does_not_silence_the_others, 0, 2);
    tcase_add_test(tc, a_log_that_began_anew_is_found_by_the_audit);
    tcase_add_test(tc, who_may_not_unblock_waits_a_second);
    tcase_add_test(tc, xread_is_refused_on_a_cluster);
    tcase_add_test(tc, rooms_above_the_ceiling_are_read_all_the_same);

    add_case(suite, "pubsub", &tc);
    tcase_add_test(tc, an_announced_entry_needs_no_read);
    tcase_add_test(tc, what_roomd_publishes_needs_no_read_either);
    tcase_add_test(tc, an_announcement_that_does_not_chain_is_a_bell);
    tcase_add_loop_test(tc, what_somebody_sends_is_not_believed, 0, COUNT_OF(FORGED));
    tcase_add_test(tc, a_plain_xadd_that_nobody_announces_is_found_by_the_audit);
    tcase_add_test(tc, a_subscriber_that_is_too_slow_loses_nothing);
    tcase_add_loop_test(tc, announcements_lost_with_their_connection_are_read, 0,
                        COUNT_OF(CONNECTIONS));
    return suite;
}
