/* One redis-server for all tests, or one cluster of three, emptied for each; whatever somebody else
 * does to a stream is done by a connection of the test's own. */
#include "tests/contract/backend.h"

#include "base/xalloc.h"
#include "roomlog/roomlog_redis.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_MS = 10000, KEY_MAX = 256, WORDS_MAX = 16 };

struct redis {
    struct poll_loop loop;
    struct metrics metrics;
    struct roomlog *log;
};

static struct redis_server single;
static struct cluster_servers cluster;
static bool clustered; /* which of them this test goes by */
static enum roomlog_redis_live live;

/* One source of bells after the other. */
static void start_with(enum roomlog_redis_live how)
{
    static const char *const events[] = {"--notify-keyspace-events", "Kgxet", NULL};
    (void)signal(SIGPIPE, SIG_IGN);
    live = how;
    redis_server_start(&single, how == ROOMLOG_REDIS_KEYSPACE ? events : NULL);
}

static void start(void)
{
    start_with(ROOMLOG_REDIS_AUTO);
}

static void start_keyspace(void)
{
    start_with(ROOMLOG_REDIS_KEYSPACE);
}

static void start_poll(void)
{
    start_with(ROOMLOG_REDIS_POLL);
}

static void start_xread(void)
{
    start_with(ROOMLOG_REDIS_XREAD);
}

static void start_pubsub(void)
{
    start_with(ROOMLOG_REDIS_PUBSUB);
}

static void stop(void)
{
    redis_server_end(&single);
}

static void start_cluster_with(enum roomlog_redis_live how)
{
    (void)signal(SIGPIPE, SIG_IGN);
    live = how;
    cluster_servers_start(&cluster, 3, 0, false);
    if (how == ROOMLOG_REDIS_KEYSPACE)
        for (size_t i = 0; i < cluster.count; i++)
            redis_server_do(&cluster.node[i], "CONFIG SET notify-keyspace-events Kgxet");
    cluster_servers_hang_up(&cluster);
}

static void start_cluster(void)
{
    start_cluster_with(ROOMLOG_REDIS_AUTO);
}

static void start_cluster_keyspace(void)
{
    start_cluster_with(ROOMLOG_REDIS_KEYSPACE);
}

static void start_cluster_pubsub(void)
{
    start_cluster_with(ROOMLOG_REDIS_PUBSUB);
}

static void stop_cluster(void)
{
    cluster_servers_end(&cluster);
}

static struct redis_server *server_of(const char *key)
{
    return clustered ? cluster_servers_of(&cluster, key) : &single;
}

static bool ready(void *arg)
{
    struct redis *redis = arg;
    return roomlog_ready(redis->log);
}

static void *open_at(const char *url, const struct backend_limits *limits, struct roomlog **out_log)
{
    struct redis *redis = xalloc_zero(sizeof(*redis));
    poll_loop_init(&redis->loop);
    redis->log = roomlog_redis_create(&redis->loop.loop, &redis->metrics,
                                      &(struct roomlog_redis_config){
                                          .url = url,
                                          .prefix = "room:",
                                          .live = live,
                                          .poll_ms = live == ROOMLOG_REDIS_POLL ? 20 : 1000,
                                          .max_entries = limits->max_entries,
                                          .dedupe_ms = limits->dedupe_ms,
                                          .connect_ms = 3000,
                                          .command_ms = 5000,
                                          .max_appends = limits->max_in_flight,
                                          .max_reads = limits->max_in_flight,
                                          .state_keys = limits->state_keys,
                                          .state_bytes = limits->state_bytes,
                                      });
    ck_assert_ptr_nonnull(redis->log);
    ck_assert(poll_loop_run(&redis->loop, LIMIT_MS, ready, redis));
    *out_log = redis->log;
    return redis;
}

static void *create(const struct backend_limits *limits, struct roomlog **out_log)
{
    clustered = false;
    redis_server_do(&single, "FLUSHALL");
    return open_at(single.url, limits, out_log);
}

static void *create_on_cluster(const struct backend_limits *limits, struct roomlog **out_log)
{
    clustered = true;
    for (size_t i = 0; i < cluster.count; i++)
        redis_server_do(&cluster.node[i], "FLUSHALL");
    return open_at(cluster.url, limits, out_log);
}

static void destroy(void *self)
{
    struct redis *redis = self;
    roomlog_close(redis->log);
    ck_assert(poll_loop_run_out(&redis->loop, LIMIT_MS));
    poll_loop_fini(&redis->loop);
    redis_server_hang_up(&single);
    cluster_servers_hang_up(&cluster);
    free(redis);
}

static bool run(void *self, backend_done_fn done, void *arg)
{
    struct redis *redis = self;
    return poll_loop_run(&redis->loop, LIMIT_MS, done, arg);
}

static void pass(void *self, uint64_t ms)
{
    struct redis *redis = self;
    poll_loop_pass(&redis->loop, ms);
}

/* --- somebody else -------------------------------------------------------------------------- */

static const char *key_of(struct str room)
{
    static char key[KEY_MAX];
    (void)snprintf(key, sizeof(key), "room:%.*s", (int)room.len, room.p);
    return key;
}

static const char *id_of(struct stream_id id)
{
    static char text[STREAM_ID_TEXT_MAX + 1];
    text[stream_id_format(id, text)] = '\0';
    return text;
}

/* Words of a command, as they are put together. */
struct words {
    const char *p[WORDS_MAX];
    size_t len[WORDS_MAX];
    int count;
};

static void put(struct words *words, struct str word)
{
    words->p[words->count] = word.p;
    words->len[words->count++] = word.len;
}

static void put_field(struct words *words, const char *name, struct str value)
{
    if (!str_present(value))
        return;
    put(words, str_from(name));
    put(words, value);
}

/* Where only what is announced rings: whoever writes past roomd may ring too, with any message. */
static void ring(const char *key)
{
    if (live == ROOMLOG_REDIS_PUBSUB)
        redis_server_do(server_of(key), "PUBLISH %s changed", key);
}

static void add(void *self, struct str room, struct stream_id id,
                const struct roomlog_publish *what)
{
    (void)self;
    struct words words = {.count = 0};
    put(&words, STR("XADD"));
    put(&words, str_from(key_of(room)));
    put(&words, str_from(id_of(id)));
    put_field(&words, "type", what->type);
    put_field(&words, "data", what->data);
    put_field(&words, "from", what->from);
    put_field(&words, "ref", what->ref);
    put_field(&words, "key", what->key);
    if (words.count == 3) /* an entry of none of our fields: a stream's must have at least one */
        put_field(&words, "other", STR("x"));
    freeReplyObject(redis_server_ask(server_of(key_of(room)), words.count, words.p, words.len));
    ring(key_of(room));
}

static void trim(void *self, struct str room, size_t keep)
{
    (void)self;
    redis_server_do(server_of(key_of(room)), "XTRIM %s MAXLEN %lu", key_of(room),
                    (unsigned long)keep);
    ring(key_of(room));
}

static void del(void *self, struct str room, struct stream_id id)
{
    (void)self;
    redis_server_do(server_of(key_of(room)), "XDEL %s %s", key_of(room), id_of(id));
    ring(key_of(room));
}

static void reset(void *self, struct str room)
{
    (void)self;
    redis_server_do(server_of(key_of(room)), "DEL %s", key_of(room));
    ring(key_of(room));
}

/* The stream is made again without its newest entries, with the counters of then. A script, so that
 * nobody sees it half done. */
static void lose_tail(void *self, struct str room, size_t lost)
{
    static const char script[] =
        "local info = redis.call('XINFO', 'STREAM', KEYS[1])\n"
        "local of = {}\n"
        "for i = 1, #info, 2 do of[info[i]] = info[i + 1] end\n"
        "local all = redis.call('XRANGE', KEYS[1], '-', '+')\n"
        "local left = #all - tonumber(ARGV[1])\n"
        "redis.call('DEL', KEYS[1])\n"
        "for i = 1, left do redis.call('XADD', KEYS[1], all[i][1], unpack(all[i][2])) end\n"
        "redis.call('XSETID', KEYS[1], all[left][1], 'ENTRIESADDED',\n"
        "  of['entries-added'] - tonumber(ARGV[1]), 'MAXDELETEDID', of['max-deleted-entry-id'])\n";
    (void)self;
    redis_server_do(server_of(key_of(room)), "EVAL %s 1 %s %lu", script, key_of(room),
                    (unsigned long)lost);
    ring(key_of(room));
}

/* trim_slack: MAXLEN ~ cuts whole nodes of the stream, at most 100 entries each. */
#define ON_REDIS(called, started, stopped, created)                                                \
    {                                                                                              \
        .name = called, .trim_slack = 100, .start = started, .stop = stopped, .create = created,   \
        .destroy = destroy, .run = run, .pass = pass, .add = add, .trim = trim, .del = del,        \
        .reset = reset, .lose_tail = lose_tail,                                                    \
    }

const struct backend backend_redis = ON_REDIS("redis", start, stop, create);
const struct backend backend_redis_cluster =
    ON_REDIS("redis_cluster", start_cluster, stop_cluster, create_on_cluster);
const struct backend backend_redis_cluster_keyspace =
    ON_REDIS("redis_cluster_keyspace", start_cluster_keyspace, stop_cluster, create_on_cluster);
const struct backend backend_redis_cluster_pubsub =
    ON_REDIS("redis_cluster_pubsub", start_cluster_pubsub, stop_cluster, create_on_cluster);
const struct backend backend_redis_keyspace =
    ON_REDIS("redis_keyspace", start_keyspace, stop, create);
const struct backend backend_redis_poll = ON_REDIS("redis_poll", start_poll, stop, create);
const struct backend backend_redis_xread = ON_REDIS("redis_xread", start_xread, stop, create);
const struct backend backend_redis_pubsub = ON_REDIS("redis_pubsub", start_pubsub, stop, create);
