#include "roomlog/roomlog_redis.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_cluster.h"
#include "roomlog/redis_sentinel.h"
#include "roomlog/redis_tls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFIX_MAX = 128,
    KEY_MAX = 512,
    ADDRESS_MAX = 300,
    REASON_MAX = 192,
    WHY_MAX = 256,
    PROBE_MS = 5000,
    AGAIN_MS = 10000 /* between two lines about what keeps Redis away */
};

/* UNTOLD until something is known; the other two alternate, each with one line in the logger, and
 * more where it stays away for another reason. */
enum state { UNTOLD, READY, AWAY };

struct redis_log {
    struct roomlog log;
    struct loop *loop;
    struct metrics *metrics;
    struct redis_url url;
    char address[ADDRESS_MAX]; /* for people */
    struct str prefix;         /* owned */

    struct redis_feed *feed;
    struct redis_node *node; /* one of these; the other is NULL */
    struct redis_cluster *cluster;
    struct redis_finder_fixed fixed; /* where the node is; or else */
    struct redis_sentinel *sentinel; /* who knows that */
    bool closing;
    enum state state;
    char why[WHY_MAX]; /* AWAY: the reason that the logger was told last, */
    uint64_t why_ms;   /* and when */
};

static struct redis_log *redis_of(struct roomlog *log)
{
    return RD_CONTAINER(log, struct redis_log, log);
}

/* The room's key, in dst. */
static struct str key_of(const struct redis_log *log, struct str room, char dst[KEY_MAX])
{
    assert(room.len <= KEY_MAX - PREFIX_MAX);
    memcpy(dst, log->prefix.p, log->prefix.len);
    if (room.len != 0)
        memcpy(dst + log->prefix.len, room.p, room.len);
    return (struct str){dst, log->prefix.len + room.len};
}

/* Who has it. */
static struct redis_node *node_of(const struct redis_log *log, struct str key)
{
    return log->node != NULL ? log->node : redis_cluster_node(log->cluster, key);
}

/* --- ready or not --------------------------------------------------------------------------- */

static void came(struct redis_log *log)
{
    if (log->state == AWAY)
        logger_info("redis is back", KV_TEXT("address", log->address));
    else
        logger_info("redis is reachable", KV_TEXT("address", log->address));
    log->state = READY;
    metrics_set(log->metrics, M_LOG_READY, 1);
}

/* Is it worth another line? Each attempt in vain has a reason, and the first is often the least:
 * that the connection was closed. */
static bool worth_saying(const struct redis_log *log, const char *why)
{
    return log->state != AWAY ||
           (strcmp(log->why, why) != 0 && loop_now_ms(log->loop) - log->why_ms >= AGAIN_MS);
}

static void went(struct redis_log *log, const char *reason)
{
    char why[WHY_MAX];
    (void)snprintf(why, sizeof(why), "%s", reason);
    if (!worth_saying(log, why))
        return;
    if (log->state == AWAY)
        logger_warn("redis is still not reachable", KV_TEXT("address", log->address),
                    KV_TEXT("reason", why));
    else
        logger_warn("redis is not reachable", KV_TEXT("address", log->address),
                    KV_TEXT("reason", why));
    memcpy(log->why, why, sizeof(why));
    log->why_ms = loop_now_ms(log->loop);
    log->state = AWAY;
    metrics_set(log->metrics, M_LOG_READY, 0);
}

static void on_told(void *arg, bool ready, const char *reason)
{
    struct redis_log *log = arg;
    if (log->closing)
        return;
    if (ready)
        came(log);
    else
        went(log, reason);
}

/* --- the interface -------------------------------------------------------------------------- */

static enum rd_err log_append(struct roomlog *base, struct str room,
                              const struct roomlog_publish *what, struct roomlog_append *append)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    struct str at = key_of(log, room, key);
    return redis_appends_add(redis_node_appends(node_of(log, at)), at, what, append);
}

static void log_cancel_append(struct roomlog *base, struct roomlog_append *append)
{
    (void)base;
    redis_appends_cancel(append);
}

static enum rd_err log_read(struct roomlog *base, struct str room, struct roomlog_read *read)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    struct str at = key_of(log, room, key);
    return redis_reads_add(redis_node_reads(node_of(log, at)), at, read);
}

static void log_cancel_read(struct roomlog *base, struct roomlog_read *read)
{
    (void)base;
    redis_reads_cancel(read);
}

static enum rd_err log_state(struct roomlog *base, struct str room, struct roomlog_state *state)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    struct str at = key_of(log, room, key);
    return redis_reads_state(redis_node_reads(node_of(log, at)), at, state);
}

static void log_cancel_state(struct roomlog *base, struct roomlog_state *state)
{
    (void)base;
    redis_reads_cancel_state(state);
}

static void log_follow(struct roomlog *base, struct str room, struct roomlog_follower *follower)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    struct str at = key_of(log, room, key);
    redis_feed_follow(redis_node_lane(node_of(log, at)), at, follower);
}

static void log_unfollow(struct roomlog *base, struct roomlog_follower *follower)
{
    (void)base;
    redis_feed_unfollow(follower);
}

static bool log_readable(struct roomlog *base, struct str room)
{
    const struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    const struct redis_node *node = node_of(log, key_of(log, room, key));
    return redis_reads_up(redis_node_reads(node)) &&
           redis_feed_lane_readable(redis_node_lane(node));
}

static bool log_ready(struct roomlog *base)
{
    return redis_of(base)->state == READY;
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_all_closed(void *arg)
{
    struct redis_log *log = arg;
    redis_feed_destroy(log->feed);
    redis_tls_destroy(log->url.trust);
    redis_url_fini(&log->url);
    free((char *)log->prefix.p);
    free(log);
}

static void on_closed(void *arg)
{
    struct redis_log *log = arg;
    if (log->sentinel != NULL)
        redis_sentinel_close(log->sentinel, on_all_closed, log);
    else
        on_all_closed(log);
}

static void log_close(struct roomlog *base)
{
    struct redis_log *log = redis_of(base);
    metrics_set(log->metrics, M_LOG_READY, 0);
    log->closing = true;
    if (log->node != NULL)
        redis_node_close(log->node);
    else
        redis_cluster_close(log->cluster);
}

static const struct roomlog_ops log_ops = {.append = log_append,
                                           .cancel_append = log_cancel_append,
                                           .read = log_read,
                                           .cancel_read = log_cancel_read,
                                           .state = log_state,
                                           .cancel_state = log_cancel_state,
                                           .follow = log_follow,
                                           .unfollow = log_unfollow,
                                           .readable = log_readable,
                                           .ready = log_ready,
                                           .close = log_close};

static const struct redis_node_ops node_ops = {.told = on_told, .closed = on_closed};
static const struct redis_cluster_ops cluster_ops = {.told = on_told, .closed = on_closed};

bool roomlog_redis_url_valid(const char *url, char *reason, size_t cap)
{
    struct redis_url parsed;
    bool valid = redis_url_parse(url, &parsed, reason, cap);
    redis_url_fini(&parsed);
    return valid;
}

bool roomlog_redis_live_valid(const char *url, enum roomlog_redis_live live, char *reason,
                              size_t cap)
{
    struct redis_url parsed;
    bool cluster = redis_url_parse(url, &parsed, reason, cap) && parsed.kind == REDIS_URL_CLUSTER;
    redis_url_fini(&parsed);
    if (!cluster || live != ROOMLOG_REDIS_XREAD)
        return true;
    (void)snprintf(reason, cap, "%s", "xread doesn't work on a cluster: take auto");
    return false;
}

bool roomlog_redis_prefix_valid(const char *prefix, char *reason, size_t cap)
{
    const char *wrong = NULL;
    if (strlen(prefix) > PREFIX_MAX)
        wrong = "a prefix has at most 128 bytes";
    else if (strpbrk(prefix, "{}") != NULL)
        wrong = "a prefix has no braces";
    if (wrong != NULL)
        (void)snprintf(reason, cap, "%s", wrong);
    return wrong == NULL;
}

/* Sets *out_tls: owned; NULL where the URL wants none. */
static bool create_tls(const struct redis_url *url, const struct roomlog_redis_tls *tls,
                       struct redis_tls **out_tls, char *reason, size_t cap)
{
    const struct redis_tls_config config = {.ca_file = tls->ca_file,
                                            .cert_file = tls->cert_file,
                                            .key_file = tls->key_file,
                                            .name = tls->name};
    *out_tls = NULL;
    if (url->tls)
        return (*out_tls = redis_tls_create(&config, reason, cap)) != NULL;
    if (tls->ca_file == NULL && tls->cert_file == NULL && tls->key_file == NULL &&
        tls->name == NULL)
        return true;
    (void)snprintf(reason, cap, "certificates are of use only where the URL begins with rediss");
    return false;
}

bool roomlog_redis_tls_valid(const char *url, const struct roomlog_redis_tls *tls, char *reason,
                             size_t cap)
{
    struct redis_url parsed;
    struct redis_tls *created;
    if (!redis_url_parse(url, &parsed, reason, cap))
        return false;
    bool valid = create_tls(&parsed, tls, &created, reason, cap);
    redis_tls_destroy(created);
    redis_url_fini(&parsed);
    return valid;
}

static struct redis_appends_config appends_config(const struct redis_log *log,
                                                  const struct roomlog_redis_config *config)
{
    static const enum redis_durable_kind durable[] = {
        [ROOMLOG_REDIS_MEMORY] = REDIS_DURABLE_MEMORY,
        [ROOMLOG_REDIS_REPLICA] = REDIS_DURABLE_REPLICA,
        [ROOMLOG_REDIS_DISK] = REDIS_DURABLE_DISK,
    };
    return (struct redis_appends_config){
        .url = &log->url,
        .script = {.max_entries = config->max_entries,
                   .max_age_ms = config->max_age_ms,
                   .dedupe_ms = config->dedupe_ms,
                   .state = {config->state_keys, config->state_bytes},
                   .announce = config->live == ROOMLOG_REDIS_PUBSUB},
        .durable = {durable[config->ack], config->ack_replicas, config->ack_ms},
        .connect_ms = config->connect_ms,
        .command_ms = config->command_ms,
        .wait_ms = config->publish_wait_ms,
        .max_in_flight = config->max_appends,
        .require_noeviction = config->require_noeviction};
}

static void open_log(struct redis_log *log, struct loop *loop,
                     const struct roomlog_redis_config *config)
{
    struct redis_node_config node = {
        .loop = loop,
        .metrics = log->metrics,
        .feed = log->feed,
        .appends = appends_config(log, config),
        .prefix = log->prefix,
        .max_age_ms = config->max_age_ms,
        .reads = {.url = &log->url,
                  .connect_ms = config->connect_ms,
                  .command_ms = config->command_ms,
                  .max_in_flight = config->max_reads,
                  .state = {config->state_keys, config->state_bytes}},
        .bell = {.url = &log->url,
                 .live = config->live,
                 .connect_ms = config->connect_ms,
                 .command_ms = config->command_ms,
                 .probe_ms = config->probe_ms != 0 ? config->probe_ms : PROBE_MS},
    };
    if (log->url.kind == REDIS_URL_CLUSTER) {
        log->cluster = redis_cluster_open(&node, &cluster_ops, log);
        return;
    }
    if (log->url.kind == REDIS_URL_SENTINEL) {
        log->sentinel = redis_sentinel_open(loop, log->metrics, &log->url, config->connect_ms,
                                            config->command_ms);
        node.finder = redis_sentinel_finder(log->sentinel);
    } else {
        redis_finder_fixed_init(&log->fixed, &log->url.places[0]);
        node.finder = &log->fixed.finder;
    }
    log->node = redis_node_open(&node, &node_ops, log);
}

struct roomlog *roomlog_redis_create(struct loop *loop, struct metrics *metrics,
                                     const struct roomlog_redis_config *config)
{
    struct redis_url url;
    char reason[REASON_MAX];
    if (!roomlog_redis_prefix_valid(config->prefix, reason, sizeof(reason)) ||
        !roomlog_redis_live_valid(config->url, config->live, reason, sizeof(reason)) ||
        !redis_url_parse(config->url, &url, reason, sizeof(reason)))
        return NULL;
    if (!create_tls(&url, &config->tls, &url.trust, reason, sizeof(reason))) {
        redis_url_fini(&url);
        return NULL;
    }

    struct redis_log *log = xalloc_zero(sizeof(*log));
    log->log.ops = &log_ops;
    log->log.max_entries = config->max_entries;
    log->log.state_keys = config->state_keys;
    log->loop = loop;
    log->metrics = metrics;
    log->url = url;
    redis_url_address(&url, log->address, sizeof(log->address));
    log->prefix = (struct str){xalloc_str(str_from(config->prefix)), strlen(config->prefix)};
    log->feed = redis_feed_create(loop, metrics, config->poll_ms);
    open_log(log, loop, config);
    return &log->log;
}
