/* The log on a real Redis that is treated roughly: its connections killed, the server frozen,
 * stopped and started again, its keys deleted or replaced, users with few rights. Nothing may be
 * missing, twice or out of order: the witness of each room fails the test where entries aren't
 * chained.
 */
#include "roomlog/roomlog_redis.h"

#include "base/xalloc.h"
#include "tests/contract/witness.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"
#include "tests/lib/suite.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    LIMIT_MS = 5000, /* less than it takes the feed's audit to find what was missed */
    LIVE_MS = 1000,  /* what comes live comes within this */
    ROOMS = 40,
    NAME_MAX_LEN = 32
};

static struct redis_server server;
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *the_log;
static struct roomlog_redis_config config;

#define ROOM STR("lobby")

/* --- fixture -------------------------------------------------------------------------------- */

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    redis_server_start(&server, NULL);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    config = (struct roomlog_redis_config){
        .url = server.url,
        .prefix = "room:",
        .live = ROOMLOG_REDIS_AUTO,
        .poll_ms = 60000, /* polling must not hide what bells should have said */
        .max_entries = 10000,
        .dedupe_ms = 60000,
        .connect_ms = 2000,
        .command_ms = 2000,
        .max_appends = 1000,
        .max_reads = 1000,
    };
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
    redis_server_end(&server);
}

static bool is_ready(void *arg)
{
    return roomlog_ready(the_log) == *(const bool *)arg;
}

static void wait_ready(bool ready)
{
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, is_ready, &ready), "still %sready",
                  ready ? "not " : "");
    ck_assert_uint_eq(metrics.v[M_LOG_READY], ready ? 1 : 0);
}

static void create_log(void)
{
    the_log = roomlog_redis_create(&loop.loop, &metrics, &config);
    ck_assert_ptr_nonnull(the_log);
    ck_assert(!roomlog_ready(the_log));
}

static void open_log(void)
{
    create_log();
    wait_ready(true);
}

/* --- waiting -------------------------------------------------------------------------------- */

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

static bool grown(void *arg)
{
    const struct at_least *a = arg;
    return *(const uint64_t *)a->p > a->want;
}

/* Until the metric is above what it was. */
static void wait_grown(enum metric metric, uint64_t was)
{
    ck_assert(poll_loop_run(&loop, LIMIT_MS, grown, &(struct at_least){&metrics.v[metric], was}));
}

/* --- asking --------------------------------------------------------------------------------- */

static struct roomlog_publish text(const char *data)
{
    return (struct roomlog_publish){.type = STR("message"), .data = str_from(data)};
}

static struct roomlog_publish with_ref(const char *ref)
{
    return (struct roomlog_publish){
        .type = STR("message"), .data = STR("1"), .from = STR("ann"), .ref = str_from(ref)};
}

static struct witness_append append(struct roomlog_publish what)
{
    struct witness_append w = {.then = NULL};
    ck_assert_int_eq(witness_append(the_log, &w, ROOM, &what), RD_OK);
    wait_for(&w.answers, 1);
    return w;
}

static struct witness_read page_after(struct stream_id after)
{
    struct witness_read w = {
        .read = {.from = ROOMLOG_AFTER, .after = after, .max_entries = 500, .max_bytes = 1 << 20}};
    ck_assert_int_eq(witness_read(the_log, &w, ROOM), RD_OK);
    wait_for(&w.answers, 1);
    return w;
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

/* One entry into each room. */
static void crowd_add(void)
{
    for (size_t i = 0; i < ROOMS; i++)
        add(crowd_name(i));
    crowd_added++;
}

/* All of them, in order, and no break. */
static void crowd_wait(void)
{
    for (size_t i = 0; i < ROOMS; i++) {
        wait_heard(&crowd[i], crowd_added);
        ck_assert_uint_eq(crowd[i].count, crowd_added);
        ck_assert_uint_eq(crowd[i].broken, 0);
    }
}

static void crowd_unfollow(void)
{
    for (size_t i = 0; i < ROOMS; i++) {
        roomlog_unfollow(the_log, &crowd[i].follower);
        witness_follower_fini(&crowd[i]);
    }
}

static struct witness_follower *follow(struct witness_follower *w)
{
    witness_follow(the_log, w, ROOM);
    wait_for(&w->started, 1);
    return w;
}

static void unfollow(struct witness_follower *w)
{
    roomlog_unfollow(the_log, &w->follower);
    witness_follower_fini(w);
}

/* --- live ----------------------------------------------------------------------------------- */

static const enum roomlog_redis_live LIVES[] = {ROOMLOG_REDIS_TRACKING, ROOMLOG_REDIS_POLL,
                                                ROOMLOG_REDIS_AUTO};

START_TEST(a_plain_xadd_is_heard_at_once)
{
    struct witness_follower w = {.then = NULL};
    config.live = LIVES[_i];
    if (config.live == ROOMLOG_REDIS_POLL)
        config.poll_ms = 20;
    open_log();
    follow(&w);
    for (size_t i = 1; i <= 5; i++) {
        add("lobby");
        wait_heard_within(&w, i, LIVE_MS);
    }
    ck_assert(witness_text_is(&w.entries[0].type, STR("message")));
    ck_assert(witness_text_is(&w.entries[0].data, STR("1")));
    ck_assert(!w.entries[0].from.present);
    unfollow(&w);
}
END_TEST

START_TEST(bells_are_what_an_idle_room_is_read_for)
{
    struct witness_follower w = {.then = NULL};
    config.poll_ms = 20;
    open_log();
    follow(&w);
    add("lobby");
    wait_heard(&w, 1);
    uint64_t reads = metrics.v[M_FEED_READS];
    poll_loop_pass(&loop, 200); /* ten times poll_ms */
    ck_assert_uint_le(metrics.v[M_FEED_READS], reads + 1);
    ck_assert_uint_ge(metrics.v[M_FEED_BELLS], 1);
    unfollow(&w);
}
END_TEST

/* The second entry comes when the read of the first is under way: its bell may be heard before that
 * read's answer. */
START_TEST(a_bell_during_a_read_is_not_forgotten)
{
    struct witness_follower w = {.then = NULL};
    open_log();
    follow(&w);
    for (size_t i = 1; i <= 50; i++) {
        uint64_t reads = metrics.v[M_FEED_READS];
        add("lobby");
        wait_grown(M_FEED_READS, reads);
        loop_run_tasks(&loop.loop); /* so that the read has been sent */
        add("lobby");
        wait_heard_within(&w, 2 * i, LIVE_MS);
    }
    unfollow(&w);
}
END_TEST

/* A sweep over so many rooms takes longer than the interval. */
START_TEST(polling_comes_to_the_last_room_however_short_its_interval)
{
    enum { MANY = 2000 };
    static struct witness_follower w[MANY];
    config.live = ROOMLOG_REDIS_POLL;
    config.poll_ms = 1;
    open_log();
    for (size_t i = 0; i < MANY; i++)
        witness_follow(the_log, &w[i], str_from(crowd_name(i)));
    for (size_t i = 0; i < MANY; i++)
        wait_for(&w[i].started, 1);
    for (size_t i = 0; i < MANY; i += MANY / 10) {
        add(crowd_name(MANY - 1 - i));
        wait_heard(&w[MANY - 1 - i], 1);
    }
    for (size_t i = 0; i < MANY; i++)
        unfollow(&w[i]);
}
END_TEST

START_TEST(without_the_right_to_track_the_feed_polls)
{
    struct witness_follower w = {.then = NULL};
    redis_server_do(&server, "ACL SETUSER default -client|tracking");
    config.poll_ms = 20;
    open_log();
    follow(&w);
    for (size_t i = 1; i <= 3; i++) {
        add("lobby");
        wait_heard_within(&w, i, LIVE_MS);
    }
    ck_assert_uint_eq(metrics.v[M_FEED_BELLS], 0);
    unfollow(&w);
}
END_TEST

START_TEST(where_tracking_is_demanded_and_refused_the_log_is_not_ready)
{
    redis_server_do(&server, "ACL SETUSER default -client|tracking");
    config.live = ROOMLOG_REDIS_TRACKING;
    create_log();
    /* It tries again and again, and is ready once it may. */
    wait_grown(M_LOG_RECONNECTS, 2);
    ck_assert(!roomlog_ready(the_log));
    redis_server_do(&server, "ACL SETUSER default +client|tracking");
    wait_ready(true);
}
END_TEST

/* --- connections that end ------------------------------------------------------------------- */

static const char *const CONNECTIONS[] = {"roomd-live", "roomd-bell", "roomd-append", "roomd-read"};

START_TEST(a_killed_connection_loses_nothing)
{
    open_log();
    crowd_follow();
    crowd_add();
    for (unsigned round = 1; round <= 3; round++) {
        ck_assert_uint_eq(redis_server_kill(&server, CONNECTIONS[_i]), 1);
        crowd_add();
        wait_ready(false);
        crowd_add();
        wait_ready(true);
        crowd_add();
        crowd_wait();
    }
    crowd_unfollow();
}
END_TEST

START_TEST(all_connections_killed_at_once_lose_nothing)
{
    open_log();
    crowd_follow();
    for (unsigned round = 1; round <= 3; round++) {
        crowd_add();
        for (size_t i = 0; i < sizeof(CONNECTIONS) / sizeof(CONNECTIONS[0]); i++)
            ck_assert_uint_eq(redis_server_kill(&server, CONNECTIONS[i]), 1);
        crowd_add();
        wait_ready(false);
        wait_ready(true);
        crowd_wait();
    }
    crowd_unfollow();
}
END_TEST

START_TEST(a_restart_with_the_same_data_loses_nothing)
{
    struct roomlog_publish what = text("1");
    struct witness_append a = {.then = NULL};
    struct witness_read r = {.read = {.from = ROOMLOG_HEAD, .max_entries = 1, .max_bytes = 1}};
    open_log();
    crowd_follow();
    crowd_add();
    redis_server_stop(&server, true);
    wait_ready(false);
    ck_assert_int_eq(witness_append(the_log, &a, ROOM, &what), RD_EUNAVAIL);
    ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_EUNAVAIL);

    redis_server_again(&server, NULL);
    crowd_add();
    wait_ready(true);
    crowd_add();
    crowd_wait();
    ck_assert_int_eq(append(what).err, RD_OK);
    ck_assert_uint_eq(a.answers + r.answers, 0);
    crowd_unfollow();
}
END_TEST

START_TEST(a_restart_without_its_data_is_a_reset)
{
    struct witness_follower w = {.then = NULL};
    open_log();
    follow(&w);
    add("lobby");
    wait_heard(&w, 1);
    redis_server_stop(&server, false);
    wait_ready(false);
    redis_server_again(&server, NULL);
    wait_for(&w.broken, 1);
    ck_assert_int_eq(w.why, VERDICT_RESET);
    ck_assert(stream_id_is_zero(w.place));
    add("lobby");
    wait_heard(&w, 2);
    unfollow(&w);
}
END_TEST

START_TEST(a_start_before_redis_waits_for_it)
{
    struct witness_follower w = {.then = NULL};
    redis_server_stop(&server, false);
    create_log();
    witness_follow(the_log, &w, ROOM);
    poll_loop_pass(&loop, 120); /* some refused attempts */
    ck_assert(!roomlog_ready(the_log));
    ck_assert_uint_eq(w.started, 0);
    redis_server_again(&server, NULL);
    wait_for(&w.started, 1);
    wait_ready(true);
    add("lobby");
    wait_heard(&w, 1);
    unfollow(&w);
}
END_TEST

/* --- what was under way --------------------------------------------------------------------- */

START_TEST(what_was_under_way_when_redis_died_is_answered)
{
    enum { COUNT = 20 };
    static struct witness_append a[COUNT];
    static struct witness_read r[COUNT];
    struct roomlog_publish plain = text("1");
    struct roomlog_publish once = with_ref("x");
    open_log();
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    for (size_t i = 0; i < COUNT; i++) {
        r[i].read = (struct roomlog_read){.from = ROOMLOG_ALL, .max_entries = 1, .max_bytes = 1};
        ck_assert_int_eq(witness_append(the_log, &a[i], ROOM, i % 2 == 0 ? &plain : &once), RD_OK);
        ck_assert_int_eq(witness_read(the_log, &r[i], ROOM), RD_OK);
    }
    poll_loop_pass(&loop, 20); /* so that they have been sent */
    redis_server_stop(&server, false);
    for (size_t i = 0; i < COUNT; i++) {
        wait_for(&a[i].answers, 1);
        wait_for(&r[i].answers, 1);
        ck_assert_int_eq(a[i].err, RD_EUNKNOWN);
        ck_assert_int_eq(r[i].err, RD_EUNAVAIL);
    }
    wait_ready(false);
}
END_TEST

START_TEST(what_redis_does_not_answer_is_given_up_in_time)
{
    struct witness_append a = {.then = NULL};
    struct witness_read r = {.read = {.from = ROOMLOG_HEAD, .max_entries = 1, .max_bytes = 1}};
    struct roomlog_publish what = text("1");
    config.command_ms = 200;
    open_log();
    crowd_follow();
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    uint64_t began = loop_now_ms(&loop.loop);
    ck_assert_int_eq(witness_append(the_log, &a, ROOM, &what), RD_OK);
    ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
    wait_for(&a.answers, 1);
    wait_for(&r.answers, 1);
    ck_assert_int_eq(a.err, RD_EUNKNOWN);
    ck_assert_int_eq(r.err, RD_EUNAVAIL);
    ck_assert_uint_lt(loop_now_ms(&loop.loop) - began, 2000);
    ck_assert_uint_ge(metrics.v[M_LOG_TIMEOUTS], 2);
    wait_ready(false);

    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    wait_ready(true);
    crowd_add();
    crowd_wait();
    crowd_unfollow();
}
END_TEST

START_TEST(a_redis_that_stalls_holds_up_so_many_bytes_and_no_more)
{
    enum { LEN = 8 << 20, FIT = 16 }; /* 128 MiB together */
    static char large[LEN];
    struct witness_append a[FIT + 1] = {{.then = NULL}};
    struct roomlog_publish what = {.data = {large, LEN}};
    struct roomlog_publish small = text("1");
    memset(large, 'x', sizeof(large));
    config.command_ms = 30000; /* none is given up here */
    open_log();
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    for (size_t i = 0; i < FIT; i++)
        ck_assert_int_eq(witness_append(the_log, &a[i], ROOM, &what), RD_OK);
    ck_assert_int_eq(witness_append(the_log, &a[FIT], ROOM, &small), RD_EBUSY);
    ck_assert_uint_eq(metrics.v[M_LOG_BUSY], 1);

    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    for (size_t i = 0; i < FIT; i++)
        wait_for(&a[i].answers, 1);
    ck_assert_int_eq(witness_append(the_log, &a[FIT], ROOM, &small), RD_OK);
    wait_for(&a[FIT].answers, 1);
    ck_assert_int_eq(a[FIT].err, RD_OK);
}
END_TEST

START_TEST(the_log_may_be_closed_with_cancelled_requests_under_way)
{
    struct witness_append a = {.then = NULL};
    struct witness_read r = {.read = {.from = ROOMLOG_HEAD, .max_entries = 1, .max_bytes = 1}};
    struct witness_follower w = {.then = NULL};
    struct roomlog_publish what = with_ref("x");
    open_log();
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    ck_assert_int_eq(witness_append(the_log, &a, ROOM, &what), RD_OK);
    ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
    witness_follow(the_log, &w, ROOM);
    if (_i == 1)
        poll_loop_pass(&loop, 20); /* sent, and not answered */
    roomlog_cancel_append(the_log, &a.append);
    roomlog_cancel_read(the_log, &r.read);
    roomlog_unfollow(the_log, &w.follower);
    close_log();
    ck_assert_uint_eq(a.answers + r.answers + w.started, 0);
    witness_follower_fini(&w);
}
END_TEST

/* _i: after so many turns of the loop. */
START_TEST(the_log_may_be_closed_at_any_time)
{
    create_log();
    for (int i = 0; i < _i; i++)
        poll_loop_pass(&loop, 1);
    close_log();
}
END_TEST

/* --- keys ----------------------------------------------------------------------------------- */

static const char *const WIPES[] = {
    "DEL room:lobby", "UNLINK room:lobby",           "FLUSHALL",
    "FLUSHDB",        "RENAME room:lobby elsewhere", "PEXPIRE room:lobby 1"};

START_TEST(a_log_that_vanishes_is_a_reset)
{
    struct witness_follower w = {.then = NULL};
    open_log();
    follow(&w);
    add("lobby");
    wait_heard(&w, 1);
    redis_server_do(&server, WIPES[_i]);
    wait_for(&w.broken, 1);
    ck_assert_int_eq(w.why, VERDICT_RESET);
    ck_assert(stream_id_is_zero(w.place));
    add("lobby");
    add("lobby");
    wait_heard(&w, 3);
    ck_assert_uint_eq(w.broken, 1);
    unfollow(&w);
}
END_TEST

START_TEST(a_key_of_another_type_is_a_room_without_a_log)
{
    struct witness_follower w = {.then = NULL};
    open_log();
    follow(&w);
    add("lobby");
    wait_heard(&w, 1);
    redis_server_do(&server, "SET room:lobby x");
    wait_for(&w.broken, 1);
    ck_assert_int_eq(w.why, VERDICT_RESET);

    ck_assert_int_eq(append(text("1")).err, RD_EWRONGTYPE);
    ck_assert_int_eq(append(with_ref("x")).err, RD_EWRONGTYPE);
    ck_assert_int_eq(page_after(STREAM_ID_ZERO).err, RD_EWRONGTYPE);
    ck_assert_int_eq(page_after((struct stream_id){1, 1}).err, RD_EWRONGTYPE);

    /* The refused append has left no claim behind, and the feed goes on. */
    redis_server_do(&server, "DEL room:lobby");
    struct witness_append a = append(with_ref("x"));
    ck_assert_int_eq(a.err, RD_OK);
    ck_assert(!a.duplicate);
    wait_heard(&w, 2);
    ck_assert_uint_eq(w.broken, 1);
    unfollow(&w);
}
END_TEST

START_TEST(a_room_may_start_as_a_key_of_another_type)
{
    struct witness_follower w = {.then = NULL};
    open_log();
    redis_server_do(&server, "SET room:lobby x");
    follow(&w);
    ck_assert(stream_id_is_zero(w.place));
    redis_server_do(&server, "DEL room:lobby");
    add("lobby");
    wait_heard(&w, 1);
    ck_assert_uint_eq(w.broken, 0);
    unfollow(&w);
}
END_TEST

/* _i: with the feed at 0-0 or not, which reads otherwise. */
START_TEST(a_room_that_may_not_be_read_is_told_so_and_goes_on_once_it_may)
{
    struct witness_follower w = {.then = NULL};
    size_t heard = (size_t)_i;
    open_log();
    follow(&w);
    if (heard != 0) {
        add("lobby");
        wait_heard(&w, heard);
    }
    struct stream_id place = w.place;
    redis_server_do(&server, "ACL SETUSER default -xinfo -xrange");
    add("lobby");
    wait_for(&w.broken, 1);
    ck_assert(stream_id_eq(w.place, place));
    ck_assert_int_eq(page_after(place).err, RD_EDENIED);

    uint64_t reads = metrics.v[M_FEED_READS];
    poll_loop_pass(&loop, 600);
    ck_assert_uint_le(metrics.v[M_FEED_READS], reads + 1);

    redis_server_do(&server, "ACL SETUSER default +xinfo +xrange");
    add("lobby");
    wait_heard(&w, heard + 2);
    ck_assert_uint_eq(w.broken, 1);
    unfollow(&w);
}
END_TEST

START_TEST(a_room_may_start_where_it_may_not_be_read)
{
    struct witness_follower w = {.then = NULL};
    open_log();
    redis_server_do(&server, "ACL SETUSER default -xinfo");
    follow(&w);
    ck_assert(stream_id_is_zero(w.place));
    redis_server_do(&server, "ACL SETUSER default +xinfo");
    add("lobby");
    wait_heard(&w, 1);
    ck_assert_uint_eq(w.broken, 0);
    unfollow(&w);
}
END_TEST

START_TEST(a_forgotten_script_is_loaded_again)
{
    open_log();
    struct witness_append first = append(with_ref("x"));
    redis_server_do(&server, "SCRIPT FLUSH");
    struct witness_append again = append(with_ref("x"));
    struct witness_append other = append(with_ref("y"));
    ck_assert_int_eq(first.err, RD_OK);
    ck_assert_int_eq(again.err, RD_OK);
    ck_assert_int_eq(other.err, RD_OK);
    ck_assert(!first.duplicate && again.duplicate && !other.duplicate);
    ck_assert(stream_id_eq(first.id, again.id));
}
END_TEST

START_TEST(the_refs_of_a_room_lie_in_its_slot_and_end_with_their_window)
{
    open_log();
    ck_assert_int_eq(append(with_ref("x")).err, RD_OK);
    const char *exists[] = {"PTTL", "{room:lobby}:ref:3:ann:x"};
    redisReply *reply = redis_server_ask(&server, 2, exists, NULL);
    ck_assert_int_gt(reply->integer, 0);
    ck_assert_int_le(reply->integer, 60000);
    freeReplyObject(reply);
}
END_TEST

/* --- errors --------------------------------------------------------------------------------- */

static const struct {
    const char *command[2]; /* the second may be NULL */
    enum rd_err err;
} REFUSALS[] = {
    {{"CONFIG SET maxmemory 1", NULL}, RD_EFULL},
    {{"CONFIG SET min-replicas-to-write 1", NULL}, RD_EREPLICAS},
    {{"SET room:lobby x", NULL}, RD_EWRONGTYPE},
    {{"XADD room:lobby 18446744073709551615-18446744073709551615 data 1", NULL}, RD_ENOIDS},
    {{"REPLICAOF 127.0.0.1 1", NULL}, RD_EREADONLY},
    {{"ACL SETUSER default -xadd", NULL}, RD_EDENIED},
    {{"ACL SETUSER default -@all +info +ping", NULL}, RD_EDENIED},
};

START_TEST(a_refusal_says_why)
{
    open_log();
    for (size_t i = 0; i < 2 && REFUSALS[_i].command[i] != NULL; i++)
        redis_server_do(&server, REFUSALS[_i].command[i]);
    struct witness_append plain = append(text("1"));
    struct witness_append once = append(with_ref("x"));
    ck_assert_int_eq(plain.err, REFUSALS[_i].err);
    ck_assert_int_eq(once.err, REFUSALS[_i].err);
}
END_TEST

START_TEST(a_log_that_cannot_be_written_is_not_ready_but_read)
{
    struct witness_follower w = {.then = NULL};
    add("lobby");
    redis_server_do(&server, "CONFIG SET maxmemory 1");
    create_log();
    follow(&w);
    struct witness_read r = page_after(STREAM_ID_ZERO);
    ck_assert_int_eq(r.err, RD_OK);
    ck_assert_uint_eq(r.count, 1);
    witness_read_fini(&r);
    ck_assert(!roomlog_ready(the_log));
    redis_server_do(&server, "CONFIG SET maxmemory 0");
    wait_ready(true);
    add("lobby");
    wait_heard(&w, 1);
    unfollow(&w);
}
END_TEST

/* --- retention ------------------------------------------------------------------------------ */

static long long length(void)
{
    const char *words[] = {"XLEN", "room:lobby"};
    redisReply *reply = redis_server_ask(&server, 2, words, NULL);
    long long len = reply->integer;
    freeReplyObject(reply);
    return len;
}

/* _i: a ref or none, times the three limits. */
START_TEST(an_append_trims_what_is_too_much_or_too_old)
{
    static const struct {
        uint64_t max_entries, max_age_ms;
        long long left;
    } limits[] = {{5, 0, 5}, {0, 3600000, 1}, {5, 3600000, 1}, {0, 0, 11}};
    size_t at = (size_t)_i / 2;
    config.max_entries = limits[at].max_entries;
    config.max_age_ms = limits[at].max_age_ms;
    /* MAXLEN ~ and MINID ~ cut whole nodes of a stream: with one entry a node they are exact. */
    redis_server_do(&server, "CONFIG SET stream-node-max-entries 1");
    open_log();
    for (int i = 1; i <= 10; i++)
        redis_server_do(&server, "XADD room:lobby %d-0 data 1", i);
    ck_assert_int_eq(append(_i % 2 == 0 ? text("1") : with_ref("x")).err, RD_OK);
    ck_assert_int_eq(length(), limits[at].left);
    ck_assert_uint_eq(the_log->max_entries, limits[at].max_entries);
}
END_TEST

START_TEST(a_page_of_large_entries_asks_for_few)
{
    enum { LARGE = 50000, COUNT = 100, PAGE = 200000 };
    struct witness_follower w = {.then = NULL};
    static char data[LARGE];
    memset(data, 'x', sizeof(data));
    open_log();
    for (int i = 0; i < COUNT; i++)
        redis_server_do(&server, "XADD room:lobby * data %b", data, sizeof(data));
    follow(&w);
    struct witness_read r = {.read = {.from = ROOMLOG_ALL, .max_entries = 500, .max_bytes = PAGE}};
    for (int i = 0; i < 2; i++) {
        uint64_t before = redis_server_info(&server, "total_net_output_bytes");
        ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
        wait_for(&r.answers, 1);
        ck_assert_uint_eq(r.count, PAGE / LARGE);
        ck_assert(r.at_end == (i == 1));
        ck_assert_uint_lt(redis_server_info(&server, "total_net_output_bytes") - before,
                          16 * (uint64_t)LARGE);
        r.read.from = ROOMLOG_NEWEST;
        r.read.newest = COUNT;
    }
    witness_read_fini(&r);
    unfollow(&w);
}
END_TEST

/* Three entries that are more together than a reply may be. */
START_TEST(entries_that_are_too_large_together_are_read_one_by_one)
{
    enum { LARGE = 100 << 20, COUNT = 3, PATIENCE_MS = 40000 };
    struct witness_follower w = {.then = NULL};
    char *data = malloc(LARGE);
    ck_assert_ptr_nonnull(data);
    memset(data, 'x', LARGE);
    config.command_ms = PATIENCE_MS;
    open_log();
    add("lobby");
    follow(&w);
    redis_server_do(&server, "MULTI");
    for (int i = 0; i < COUNT; i++)
        redis_server_do(&server, "XADD room:lobby * data %b", data, (size_t)LARGE);
    free(data);
    redis_server_do(&server, "EXEC");
    add("lobby");
    wait_heard_within(&w, COUNT + 1, PATIENCE_MS);
    ck_assert_uint_eq(w.entries[COUNT - 1].data.len, LARGE);
    ck_assert_uint_eq(metrics.v[M_LOG_OVERSIZE], 1);
    ck_assert_uint_eq(metrics.v[M_LOG_RECONNECTS], 0);

    struct witness_read r = {
        .read = {.from = ROOMLOG_NEWEST, .newest = 10, .max_entries = 10, .max_bytes = INT32_MAX}};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
        ck_assert(poll_loop_run(&loop, PATIENCE_MS, counted, &(struct at_least){&r.answers, 1}));
        ck_assert_int_eq(r.err, RD_OK);
        ck_assert_uint_eq(r.count, 1);
        r.read.from = ROOMLOG_ALL;
    }
    ck_assert(!r.at_end);
    witness_read_fini(&r);
    unfollow(&w);
}
END_TEST

/* --- over TCP ------------------------------------------------------------------------------- */

static char url[160];

/* A server on a port too; the log's URL is made of the format and that port. */
static void restart_on_port(const char *format)
{
    char port[16];
    const char *extra[] = {"--port", port, "--bind", "127.0.0.1", NULL};
    (void)snprintf(port, sizeof(port), "%u", redis_server_free_port());
    redis_server_stop(&server, false);
    redis_server_again(&server, extra);
    (void)snprintf(url, sizeof(url), "redis://%s:%s/3", format, port);
    config.url = url;
}

static const char *const HOSTS[] = {"127.0.0.1", "localhost", "bob:p%40ss@127.0.0.1",
                                    "bob:p@ss@localhost"};

START_TEST(a_host_a_user_and_a_database_are_where_we_go)
{
    struct witness_follower w = {.then = NULL};
    restart_on_port(HOSTS[_i]);
    redis_server_do(&server, "ACL SETUSER bob on >p@ss ~* &* +@all");
    open_log();
    follow(&w);
    ck_assert_int_eq(append(text("1")).err, RD_OK);
    wait_heard(&w, 1);
    ck_assert_int_eq(length(), 0); /* that was database 0 */
    redis_server_do(&server, "SELECT 3");
    ck_assert_int_eq(length(), 1);
    add("lobby");
    wait_heard(&w, 2);
    unfollow(&w);
}
END_TEST

START_TEST(a_wrong_password_is_tried_again_until_it_is_right)
{
    restart_on_port("bob:right@127.0.0.1");
    redis_server_do(&server, "ACL SETUSER bob on >wrong ~* &* +@all");
    create_log();
    poll_loop_pass(&loop, 50);
    ck_assert(!roomlog_ready(the_log));
    redis_server_do(&server, "ACL SETUSER bob >right");
    wait_ready(true);
}
END_TEST

START_TEST(a_password_that_is_missing_is_no_answer)
{
    restart_on_port("127.0.0.1");
    redis_server_do(&server, "CONFIG SET requirepass secret");
    create_log();
    poll_loop_pass(&loop, 50);
    ck_assert(!roomlog_ready(the_log));
}
END_TEST

static bool alone(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *at; (at = readdir(tasks)) != NULL;)
        if (at->d_name[0] != '.')
            count++;
    (void)closedir(tasks);
    return count == 1;
}

/* A label of a name has at most 63 letters, so that no name server need be asked. _i: closed at
 * once, or when it has been tried a while. */
START_TEST(a_name_that_is_not_resolved_is_not_ready_and_can_be_closed)
{
    config.url = "redis://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    create_log();
    poll_loop_pass(&loop, (uint64_t)_i * 50);
    ck_assert(!roomlog_ready(the_log));
    close_log();
    /* Look-ups that were cancelled end when they end; a leak checker would take what they hold for
     * lost. */
    while (!alone())
        poll_loop_pass(&loop, 1);
}
END_TEST

START_TEST(a_prefix_may_not_take_a_room_apart)
{
    char reason[64];
    char longest[130];
    memset(longest, 'p', sizeof(longest));
    longest[129] = '\0';
    ck_assert(!roomlog_redis_prefix_valid("{a}:", reason, sizeof(reason)));
    ck_assert_str_eq(reason, "a prefix has no braces");
    ck_assert(!roomlog_redis_prefix_valid(longest, reason, sizeof(reason)));
    ck_assert_str_eq(reason, "a prefix has at most 128 bytes");
    config.prefix = "a}";
    ck_assert_ptr_null(roomlog_redis_create(&loop.loop, &metrics, &config));

    longest[128] = '\0';
    config.prefix = longest;
    open_log();
    ck_assert_int_eq(append(with_ref("x")).err, RD_OK);
    config.prefix = "";
    close_log();
    open_log();
    struct witness_follower w = {.then = NULL};
    follow(&w);
    redis_server_do(&server, "XADD lobby * type message data 1");
    wait_heard(&w, 1);
    unfollow(&w);
}
END_TEST

/* --- who isn't Redis ------------------------------------------------------------------------ */

/* Says something to whoever comes, and reads what it is sent. */
struct impostor {
    struct loop_watch door;
    struct loop_watch guests[32];
    size_t count;
    const char *says;
};

static void on_guest(void *arg, unsigned events)
{
    (void)events;
    struct loop_watch *guest = arg;
    char sink[4096];
    if (recv(guest->fd, sink, sizeof(sink), MSG_DONTWAIT) != 0)
        return;
    int fd = guest->fd;
    loop_watch_stop(&loop.loop, guest);
    (void)close(fd);
}

static void on_door(void *arg, unsigned events)
{
    (void)events;
    struct impostor *impostor = arg;
    int fd = accept(impostor->door.fd, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    if (impostor->count == sizeof(impostor->guests) / sizeof(impostor->guests[0])) {
        (void)close(fd);
        return;
    }
    (void)send(fd, impostor->says, strlen(impostor->says), MSG_NOSIGNAL);
    struct loop_watch *guest = &impostor->guests[impostor->count++];
    loop_watch_start(&loop.loop, guest, fd, LOOP_READ, on_guest, guest);
}

static const char *const SAYS[] = {
    "",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n",
    "-ERR max number of clients reached\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n-LOADING again\r\n",
    "$-1\r\n*-1\r\n:1\r\n$5\r\nhello\r\n*1\r\n*1\r\n*0\r\n",
    "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*-1\r\n",
    "*9999999999\r\n",
    "$99999999999999999999\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
};

START_TEST(who_is_not_redis_does_no_harm)
{
    struct impostor impostor = {.says = SAYS[_i]};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    redis_server_stop(&server, false);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    loop_watch_start(&loop.loop, &impostor.door, fd, LOOP_READ, on_door, &impostor);

    config.connect_ms = 50;
    create_log();
    poll_loop_pass(&loop, 300);
    ck_assert(!roomlog_ready(the_log));
    ck_assert_uint_ge(impostor.count, 4);
    roomlog_close(the_log);
    the_log = NULL;
    poll_loop_pass(&loop, 20);
    loop_watch_stop(&loop.loop, &impostor.door);
    (void)close(fd);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS)); /* all guests are gone */
}
END_TEST

/* --- the suite ------------------------------------------------------------------------------ */

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

static void add_case(Suite *suite, const char *name, TCase **out)
{
    *out = tcase_create(name);
    tcase_add_checked_fixture(*out, setup, teardown);
    tcase_set_timeout(*out, 30);
    suite_add_tcase(suite, *out);
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_fair");
    TCase *tc;

    add_case(suite, "live", &tc);
    tcase_add_loop_test(tc, a_plain_xadd_is_heard_at_once, 0, COUNT_OF(LIVES));
    tcase_add_test(tc, a_bell_during_a_read_is_not_forgotten);
    tcase_add_test(tc, bells_are_what_an_idle_room_is_read_for);
    tcase_add_test(tc, polling_comes_to_the_last_room_however_short_its_interval);
    tcase_add_test(tc, without_the_right_to_track_the_feed_polls);
    tcase_add_test(tc, where_tracking_is_demanded_and_refused_the_log_is_not_ready);

    add_case(suite, "connections", &tc);
    tcase_add_loop_test(tc, a_killed_connection_loses_nothing, 0, COUNT_OF(CONNECTIONS));
    tcase_add_test(tc, all_connections_killed_at_once_lose_nothing);
    tcase_add_test(tc, a_restart_with_the_same_data_loses_nothing);
    tcase_add_test(tc, a_restart_without_its_data_is_a_reset);
    tcase_add_test(tc, a_start_before_redis_waits_for_it);
    tcase_add_test(tc, what_was_under_way_when_redis_died_is_answered);
    tcase_add_test(tc, what_redis_does_not_answer_is_given_up_in_time);
    tcase_add_test(tc, a_redis_that_stalls_holds_up_so_many_bytes_and_no_more);
    tcase_add_loop_test(tc, the_log_may_be_closed_with_cancelled_requests_under_way, 0, 2);
    tcase_add_loop_test(tc, the_log_may_be_closed_at_any_time, 0, 8);

    add_case(suite, "keys", &tc);
    tcase_add_loop_test(tc, a_log_that_vanishes_is_a_reset, 0, COUNT_OF(WIPES));
    tcase_add_test(tc, a_key_of_another_type_is_a_room_without_a_log);
    tcase_add_test(tc, a_room_may_start_as_a_key_of_another_type);
    tcase_add_loop_test(tc, a_room_that_may_not_be_read_is_told_so_and_goes_on_once_it_may, 0, 2);
    tcase_add_test(tc, a_room_may_start_where_it_may_not_be_read);
    tcase_add_test(tc, a_forgotten_script_is_loaded_again);
    tcase_add_test(tc, the_refs_of_a_room_lie_in_its_slot_and_end_with_their_window);
    tcase_add_loop_test(tc, an_append_trims_what_is_too_much_or_too_old, 0, 8);
    tcase_add_test(tc, a_page_of_large_entries_asks_for_few);
    tcase_add_test(tc, entries_that_are_too_large_together_are_read_one_by_one);

    add_case(suite, "errors", &tc);
    tcase_add_loop_test(tc, a_refusal_says_why, 0, COUNT_OF(REFUSALS));
    tcase_add_test(tc, a_log_that_cannot_be_written_is_not_ready_but_read);
    tcase_add_loop_test(tc, a_host_a_user_and_a_database_are_where_we_go, 0, COUNT_OF(HOSTS));
    tcase_add_test(tc, a_prefix_may_not_take_a_room_apart);
    tcase_add_test(tc, a_wrong_password_is_tried_again_until_it_is_right);
    tcase_add_test(tc, a_password_that_is_missing_is_no_answer);
    tcase_add_loop_test(tc, a_name_that_is_not_resolved_is_not_ready_and_can_be_closed, 0, 3);
    tcase_add_loop_test(tc, who_is_not_redis_does_no_harm, 0, COUNT_OF(SAYS));
    return suite;
}
