#include "roomlog/roomlog_redis.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_appends.h"
#include "roomlog/redis_feed.h"
#include "roomlog/redis_reads.h"
#include "roomlog/redis_tls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { PREFIX_MAX = 128, KEY_MAX = 512, ADDRESS_MAX = 300, REASON_MAX = 192 };

/* UNTOLD until something is known; the other two alternate, each with one line in the logger. */
enum state { UNTOLD, READY, AWAY };

struct redis_log {
    struct roomlog log;
    struct metrics *metrics;
    struct redis_url url;
    struct redis_finder_fixed finder;
    char address[ADDRESS_MAX]; /* for people */
    struct str prefix;         /* owned */

    struct redis_appends *appends;
    struct redis_reads *reads;
    struct redis_feed *feed;
    struct redis_feed_lane *lane;
    unsigned open; /* of appends and reads, not yet closed */
    bool closing;
    bool healthy; /* the feed's last word */
    enum state state;
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

/* --- ready or not --------------------------------------------------------------------------- */

static void came(struct redis_log *log)
{
    if (log->closing || log->state == READY || !log->healthy || !redis_appends_up(log->appends) ||
        !redis_reads_up(log->reads))
        return;
    if (log->state == AWAY)
        logger_info("redis is back", KV_TEXT("address", log->address));
    else
        logger_info("redis is reachable", KV_TEXT("address", log->address));
    log->state = READY;
    metrics_set(log->metrics, M_LOG_READY, 1);
}

static void went(struct redis_log *log, const char *reason)
{
    if (log->closing || log->state == AWAY)
        return;
    logger_warn("redis is not reachable", KV_TEXT("address", log->address),
                KV_TEXT("reason", reason));
    log->state = AWAY;
    metrics_set(log->metrics, M_LOG_READY, 0);
}

static void on_appends_up(void *arg)
{
    struct redis_log *log = arg;
    if (log->closing)
        return;
    redis_feed_lane_probe(log->lane);
    came(log);
}

static void on_reads_up(void *arg)
{
    came(arg);
}

static void on_down(void *arg, const char *reason)
{
    went(arg, reason);
}

static void on_health(void *arg, bool ok, const char *reason)
{
    struct redis_log *log = arg;
    log->healthy = ok;
    if (ok)
        came(log);
    else
        went(log, reason);
}

static bool on_write(void *arg, struct redis_command *command, const struct redis_words *words)
{
    struct redis_log *log = arg;
    return !log->closing && redis_appends_send(log->appends, command, words);
}

/* --- the interface -------------------------------------------------------------------------- */

static enum rd_err log_append(struct roomlog *base, struct str room,
                              const struct roomlog_publish *what, struct roomlog_append *append)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    return redis_appends_add(log->appends, key_of(log, room, key), what, append);
}

static void log_cancel_append(struct roomlog *base, struct roomlog_append *append)
{
    redis_appends_cancel(redis_of(base)->appends, append);
}

static enum rd_err log_read(struct roomlog *base, struct str room, struct roomlog_read *read)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    return redis_reads_add(log->reads, key_of(log, room, key), read);
}

static void log_cancel_read(struct roomlog *base, struct roomlog_read *read)
{
    redis_reads_cancel(redis_of(base)->reads, read);
}

static enum rd_err log_state(struct roomlog *base, struct str room, struct roomlog_state *state)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    return redis_reads_state(log->reads, key_of(log, room, key), state);
}

static void log_cancel_state(struct roomlog *base, struct roomlog_state *state)
{
    redis_reads_cancel_state(redis_of(base)->reads, state);
}

static void log_follow(struct roomlog *base, struct str room, struct roomlog_follower *follower)
{
    struct redis_log *log = redis_of(base);
    char key[KEY_MAX];
    redis_feed_follow(log->lane, key_of(log, room, key), follower);
}

static void log_unfollow(struct roomlog *base, struct roomlog_follower *follower)
{
    (void)base;
    redis_feed_unfollow(follower);
}

static bool log_readable(struct roomlog *base, struct str room)
{
    const struct redis_log *log = redis_of(base);
    (void)room;
    return redis_reads_up(log->reads) && redis_feed_lane_readable(log->lane);
}

static bool log_ready(struct roomlog *base)
{
    return redis_of(base)->state == READY;
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_lane_closed(void *arg)
{
    struct redis_log *log = arg;
    redis_feed_destroy(log->feed);
    redis_tls_destroy(log->url.trust);
    redis_url_fini(&log->url);
    free((char *)log->prefix.p);
    free(log);
}

/* The lane goes last: a probe's write may have been on its way through the appends, and reads ask
 * the feed how large entries are. */
static void on_part_closed(void *arg)
{
    struct redis_log *log = arg;
    if (--log->open == 0)
        redis_feed_lane_close(log->lane);
}

static void log_close(struct roomlog *base)
{
    struct redis_log *log = redis_of(base);
    metrics_set(log->metrics, M_LOG_READY, 0);
    log->closing = true;
    redis_appends_close(log->appends);
    redis_reads_close(log->reads);
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

static const struct redis_appends_ops appends_ops = {
    .up = on_appends_up, .down = on_down, .closed = on_part_closed};
static const struct redis_reads_ops reads_ops = {
    .up = on_reads_up, .down = on_down, .closed = on_part_closed};

bool roomlog_redis_url_valid(const char *url, char *reason, size_t cap)
{
    struct redis_url parsed;
    if (!redis_url_parse(url, &parsed, reason, cap))
        return false;
    const char *wrong = NULL;
    if (parsed.kind != REDIS_URL_ONE)
        wrong = "only redis:// and unix:// are built in";
    redis_url_fini(&parsed);
    if (wrong != NULL)
        (void)snprintf(reason, cap, "%s", wrong);
    return wrong == NULL;
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

struct roomlog *roomlog_redis_create(struct loop *loop, struct metrics *metrics,
                                     const struct roomlog_redis_config *config)
{
    struct redis_url url;
    char reason[REASON_MAX];
    if (!roomlog_redis_prefix_valid(config->prefix, reason, sizeof(reason)) ||
        !roomlog_redis_url_valid(config->url, reason, sizeof(reason)) ||
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
    log->metrics = metrics;
    log->url = url;
    redis_url_address(&url, log->address, sizeof(log->address));
    redis_finder_fixed_init(&log->finder, &url.places[0]);
    log->prefix = (struct str){xalloc_str(str_from(config->prefix)), strlen(config->prefix)};

    const struct redis_appends_config appends = {.url = &log->url,
                                                 .finder = &log->finder.finder,
                                                 .max_entries = config->max_entries,
                                                 .max_age_ms = config->max_age_ms,
                                                 .dedupe_ms = config->dedupe_ms,
                                                 .connect_ms = config->connect_ms,
                                                 .command_ms = config->command_ms,
                                                 .max_in_flight = config->max_appends};
    const struct redis_reads_config reads = {.url = &log->url,
                                             .finder = &log->finder.finder,
                                             .connect_ms = config->connect_ms,
                                             .command_ms = config->command_ms,
                                             .max_in_flight = config->max_reads,
                                             .state = {config->state_keys, config->state_bytes}};
    const struct redis_bell_config bell = {.url = &log->url,
                                           .finder = &log->finder.finder,
                                           .live = config->live,
                                           .connect_ms = config->connect_ms,
                                           .command_ms = config->command_ms,
                                           .owner = log,
                                           .health = on_health,
                                           .write = on_write};
    log->feed = redis_feed_create(loop, metrics, config->poll_ms);
    log->lane = redis_feed_lane_open(log->feed, &bell, on_lane_closed, log);
    log->appends = redis_appends_open(loop, metrics, &appends, &appends_ops, log);
    log->reads = redis_reads_open(loop, metrics, log->feed, &reads, &reads_ops, log);
    log->open = 2;
    return &log->log;
}
