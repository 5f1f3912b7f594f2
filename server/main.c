/* main.c - builds the house upward, runs the loop, takes it down in reverse.
 *
 *      SIGTERM, SIGINT: drain. No more connections; every session is told `bye` and closed with
 * 1012; the process ends when they are gone or drain-timeout is over. A second signal ends it at
 * once.
 */
#include "base/logger.h"
#include "base/xalloc.h"
#include "config.h"
#include "edge/listener.h"
#include "room/registry.h"
#include "roomlog/roomlog_mem.h"
#include "roomlog/roomlog_redis.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    DESCRIPTORS_RESERVED = 64,  /* Redis, listening sockets, files, the loop's own */
    LOOK_AGAIN_MS = 20,         /* while draining: are they gone? */
    TURNS_TO_CLOSE_MAX = 10000, /* of cut connections: each takes one or two */
    RUN_OUT_MS = 10000,
    ERROR_FRAMES_MAX = 16, /* what PROTOCOL.md grants a client before 4400 */
    APPENDS_IN_FLIGHT = 65536,
    PATIENCE_MS = 250, /* longer than a turn of the loop takes, shorter than anybody would wait */
    BYTES_A_REF = 256, /* about, with its place in the table */
    REASON_MAX = 1024,
    URL_MAX = 1024
};

struct house {
    struct config config;
    struct address *addresses;
    size_t max_websockets;
    struct loop_uv loop;
    struct metrics metrics;
    struct roomlog *log;
    struct registry registry;
    struct session_host sessions;
    struct http http;
    struct ws_host ws;
    struct listener *listener;
    uv_signal_t on_term;
    uv_signal_t on_int;
    struct loop_timer look_again;
    uint64_t drain_until_ms;
    bool draining;
};

static void say(const char *what, const char *reason)
{
    logger_error(what, KV_TEXT("reason", reason));
}

/* --- before the house stands ---------------------------------------------------------------- */

/* What is needed and no more: libwebsockets keeps a table of as many entries as the limit allows,
 * and walks it at each close. */
static void set_descriptor_limit(struct house *h)
{
    struct rlimit limit;
    size_t margin = LISTENER_HTTP_MARGIN + DESCRIPTORS_RESERVED;
    rlim_t needed = (rlim_t)(h->config.max_connections + margin);

    h->max_websockets = h->config.max_connections;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* below the hard limit: can't fail */
    if (limit.rlim_cur >= needed)
        return;
    size_t half = (size_t)limit.rlim_cur / 2;
    size_t rest = (size_t)limit.rlim_cur > margin ? (size_t)limit.rlim_cur - margin : 0;
    h->max_websockets = rest > half ? rest : half;
    logger_warn("max-connections is above what the descriptor limit allows",
                KV_NUM("max_connections", h->config.max_connections),
                KV_NUM("descriptors", limit.rlim_cur), KV_NUM("allowed", h->max_websockets));
}

static bool parse_addresses(struct house *h)
{
    const struct config_list *listen = &h->config.listen;
    h->addresses = xalloc_array(NULL, listen->count, sizeof(*h->addresses));
    for (size_t i = 0; i < listen->count; i++) {
        char reason[REASON_MAX];
        if (!address_parse(listen->items[i], &h->addresses[i], reason, sizeof(reason))) {
            logger_error("bad configuration", KV_TEXT("listen", listen->items[i]),
                         KV_TEXT("reason", reason));
            return false;
        }
    }
    return true;
}

static struct roomlog_redis_tls redis_tls(const struct config *c)
{
    return (struct roomlog_redis_tls){.ca_file = c->redis_tls_ca,
                                      .cert_file = c->redis_tls_cert,
                                      .key_file = c->redis_tls_key,
                                      .name = c->redis_tls_name};
}

/* What the option's words mean. */
static const enum roomlog_redis_live lives[] = {
    [CONFIG_LIVE_AUTO] = ROOMLOG_REDIS_AUTO,
    [CONFIG_LIVE_TRACKING] = ROOMLOG_REDIS_TRACKING,
    [CONFIG_LIVE_KEYSPACE] = ROOMLOG_REDIS_KEYSPACE,
    [CONFIG_LIVE_POLL] = ROOMLOG_REDIS_POLL,
    [CONFIG_LIVE_XREAD] = ROOMLOG_REDIS_XREAD,
    [CONFIG_LIVE_PUBSUB] = ROOMLOG_REDIS_PUBSUB,
};

static bool check_redis(const struct house *h)
{
    struct roomlog_redis_tls tls = redis_tls(&h->config);
    char reason[REASON_MAX];
    const char *option = NULL;
    if (h->config.redis == NULL)
        return true;
    if (!roomlog_redis_url_valid(h->config.redis, reason, sizeof(reason)))
        option = "redis";
    else if (!roomlog_redis_prefix_valid(h->config.redis_prefix, reason, sizeof(reason)))
        option = "redis-prefix";
    else if (!roomlog_redis_live_valid(h->config.redis, lives[h->config.redis_live], reason,
                                       sizeof(reason)))
        option = "redis-live";
    else if (!roomlog_redis_tls_valid(h->config.redis, &tls, reason, sizeof(reason)))
        option = "redis-tls";
    if (option == NULL)
        return true;
    logger_error("bad configuration", KV_TEXT("option", option), KV_TEXT("reason", reason));
    return false;
}

static bool runs_from_build_tree(void)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
    size_t root = strlen(ROOMD_BUILD_ROOT);
    return len > (ssize_t)root && memcmp(path, ROOMD_BUILD_ROOT, root) == 0 && path[root] == '/';
}

static const char *not_ready(void *arg)
{
    struct house *h = arg;
    if (h->draining)
        return "draining";
    return roomlog_ready(h->log) ? NULL : "the log is not available";
}

static void sample(void *arg)
{
    struct house *h = arg;
    metrics_set(&h->metrics, M_PACKET_BYTES, h->registry.packets.bytes);
}

/* As installed; from the build tree, the source tree's own, so that work on the pages shows at
 * once. */
static bool init_http(struct house *h)
{
    bool in_development = h->config.web_root != NULL || runs_from_build_tree();
    const char *root = h->config.web_root != NULL ? h->config.web_root
                       : in_development           ? ROOMD_WEB_SOURCE
                                                  : ROOMD_WEB_ROOT;
    struct http_config config = {
        .web_root = root,
        .reload = in_development,
        .not_ready = not_ready,
        .sample = sample,
        .arg = h,
    };
    if (http_init(&h->http, &h->metrics, &config))
        return true;
    logger_error("the pages can't be read", KV_TEXT("web_root", root),
                 KV_TEXT("reason", strerror(errno)));
    return false;
}

/* --- building ------------------------------------------------------------------------------- */

static void create_log(struct house *h)
{
    const struct config *c = &h->config;
    char shown[URL_MAX];
    if (c->redis == NULL) {
        struct roomlog_mem_limits limits = {
            .max_entries = c->retention_entries,
            .max_age_ms = c->retention_age,
            .max_bytes = c->memory_log_bytes,
            .max_rooms = c->max_rooms,
            .max_refs = c->memory_log_bytes / BYTES_A_REF,
            .dedupe_ms = c->dedupe_window,
            .max_in_flight = APPENDS_IN_FLIGHT,
            .max_state_keys = c->state_keys,
            .max_state_bytes = c->state_bytes,
            .max_states_bytes = c->memory_log_bytes / 4,
        };
        h->log = roomlog_mem_create(&h->loop.loop, &h->metrics, &limits);
        logger_info("rooms live in this process, and end with it",
                    KV_NUM("max_bytes", c->memory_log_bytes));
        return;
    }
    struct roomlog_redis_config config = {
        .url = c->redis,
        .tls = redis_tls(c),
        .prefix = c->redis_prefix,
        .live = lives[c->redis_live],
        .poll_ms = c->redis_poll_interval,
        .max_entries = c->retention_entries,
        .max_age_ms = c->retention_age,
        .dedupe_ms = c->dedupe_window,
        .connect_ms = c->redis_connect_timeout,
        .command_ms = c->redis_command_timeout,
        .max_appends = APPENDS_IN_FLIGHT,
        .max_reads = c->pages_in_flight,
        .state_keys = c->state_keys,
        .state_bytes = c->state_bytes,
        .publish_wait_ms = c->publish_wait,
        .ack = c->publish_ack == CONFIG_ACK_DISK      ? ROOMLOG_REDIS_DISK
               : c->publish_ack == CONFIG_ACK_REPLICA ? ROOMLOG_REDIS_REPLICA
                                                      : ROOMLOG_REDIS_MEMORY,
        .ack_replicas = (unsigned)c->publish_ack_replicas,
        .ack_ms = c->publish_ack_timeout,
        .require_noeviction = c->redis_require_noeviction != 0,
    };
    config_redact(c->redis, shown, sizeof(shown));
    logger_info("rooms live in redis", KV_TEXT("url", shown), KV_TEXT("prefix", c->redis_prefix));
    h->log = roomlog_redis_create(&h->loop.loop, &h->metrics, &config);
    assert(h->log != NULL); /* its URL was checked */
}

static void init_rooms(struct house *h)
{
    const struct config *c = &h->config;
    struct registry_limits limits = {
        .max_rooms = c->max_rooms,
        .linger_ms = c->room_linger,
        .ring = {.max_entries = c->ring_entries,
                 .max_bytes = c->ring_bytes,
                 .total_bytes = c->ring_total},
        .replay = {.page_entries = c->page_entries,
                   .page_bytes = c->page_bytes,
                   .frame_bytes = c->max_frame,
                   .in_flight = c->pages_in_flight,
                   .start_limit_ms = c->join_timeout},
    };
    registry_init(&h->registry, &h->loop.loop, h->log, &h->metrics, &limits);
}

static void init_sessions(struct house *h)
{
    const struct config *c = &h->config;
    struct session_limits limits = {
        .high_water = c->high_water,
        .low_water = c->low_water,
        .pending_bytes = c->pending_bytes,
        .max_rooms = c->max_rooms_per_session,
        .max_publishes = c->max_publishes_per_session,
        .max_frame_bytes = c->max_frame,
        .packet_budget = c->packet_budget,
        .max_errors = ERROR_FRAMES_MAX,
        .heartbeat_ms = c->heartbeat,
        .close_ms = c->close_timeout,
        .patience_ms = PATIENCE_MS,
        .joins_a_second = c->join_rate,
    };
    session_host_init(&h->sessions, &h->loop.loop, h->log, &h->registry, &h->registry.packets,
                      &h->metrics, &limits);
}

static bool open_doors(struct house *h)
{
    char reason[REASON_MAX];
    struct listener_config config = {
        .addresses = h->addresses,
        .count = h->config.listen.count,
        .max_websockets = h->max_websockets,
        .rules = {.origins = (const char *const *)h->config.allow_origin.items,
                  .origin_count = h->config.allow_origin.count},
    };
    h->listener =
        listener_create(&h->loop, &h->http, &h->ws, &h->metrics, &config, reason, sizeof(reason));
    if (h->listener == NULL)
        say("could not start", reason);
    return h->listener != NULL;
}

/* --- running -------------------------------------------------------------------------------- */

static void look_whether_gone(void *arg)
{
    struct house *h = arg;
    struct loop *loop = &h->loop.loop;
    if (h->sessions.count == 0 || loop_now_ms(loop) >= h->drain_until_ms)
        uv_stop(&h->loop.uv);
    else
        loop_timer_start(loop, &h->look_again, LOOK_AGAIN_MS, look_whether_gone, h);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct house *h = handle->data;
    if (h->draining) {
        logger_info("second signal: ending at once", KV_NUM("signal", number));
        uv_stop(&h->loop.uv);
        return;
    }
    h->draining = true;
    h->drain_until_ms = loop_now_ms(&h->loop.loop) + h->config.drain_timeout;
    logger_info("draining", KV_NUM("signal", number), KV_NUM("sessions", h->sessions.count));
    listener_stop(h->listener);
    session_host_drain(&h->sessions, h->config.drain_spread);
    look_whether_gone(h);
}

static void watch_signals(struct house *h)
{
    (void)uv_signal_init(&h->loop.uv, &h->on_term);
    (void)uv_signal_init(&h->loop.uv, &h->on_int);
    h->on_term.data = h;
    h->on_int.data = h;
    int rc = uv_signal_start(&h->on_term, on_signal, SIGTERM);
    if (rc == 0)
        rc = uv_signal_start(&h->on_int, on_signal, SIGINT);
    if (rc != 0)
        say("signals can't be watched", uv_strerror(rc));
}

/* --- taking it down ------------------------------------------------------------------------- */

static void close_doors(struct house *h)
{
    if (h->listener == NULL)
        return;
    if (h->sessions.count != 0)
        logger_warn("cutting those who have not left", KV_NUM("sessions", h->sessions.count));
    listener_close(h->listener);
    for (int i = 0; i < TURNS_TO_CLOSE_MAX && h->sessions.count != 0; i++)
        (void)uv_run(&h->loop.uv, UV_RUN_NOWAIT);
}

/* False: something would not end, and the loop with it. */
static bool take_down(struct house *h)
{
    close_doors(h);
    session_host_fini(&h->sessions);
    registry_fini(&h->registry);
    roomlog_close(h->log);
    ws_host_fini(&h->ws);
    loop_timer_stop(&h->loop.loop, &h->look_again);
    uv_close((uv_handle_t *)&h->on_term, NULL);
    uv_close((uv_handle_t *)&h->on_int, NULL);
    if (!loop_uv_run_out(&h->loop, RUN_OUT_MS)) {
        logger_error("something would not end", KV_NUM("waited_ms", RUN_OUT_MS));
        return false;
    }
    listener_destroy(h->listener);
    http_fini(&h->http);
    loop_uv_fini(&h->loop);
    return true;
}

static int run(struct house *h)
{
    set_descriptor_limit(h);
    loop_uv_init(&h->loop);
    create_log(h);
    init_rooms(h);
    init_sessions(h);
    ws_host_init(&h->ws, &h->loop.uv, &h->sessions, h->config.max_frame);
    watch_signals(h);

    bool ok = open_doors(h);
    if (ok)
        (void)uv_run(&h->loop.uv, UV_RUN_DEFAULT);
    ok = take_down(h) && ok;
    if (ok)
        logger_info("ended", KV_NUM("drained", h->draining));
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int check_and_run(struct house *h, bool only_check)
{
    static const enum logger_level LEVELS[] = {
        [CONFIG_DEBUG] = LOGGER_DEBUG,
        [CONFIG_INFO] = LOGGER_INFO,
        [CONFIG_WARN] = LOGGER_WARN,
        [CONFIG_ERROR] = LOGGER_ERROR,
    };
    logger_setup(LEVELS[h->config.log_level],
                 h->config.log_format == CONFIG_JSON ? LOGGER_JSON : LOGGER_LOGFMT);
    if (!parse_addresses(h) || !check_redis(h) || !init_http(h))
        return EXIT_FAILURE;
    if (!only_check)
        return run(h);
    http_fini(&h->http);
    config_print(stdout, &h->config);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct house house; /* zeroed, and too large for a stack */
    char reason[REASON_MAX];
    int status = EXIT_SUCCESS;

    (void)signal(SIGPIPE, SIG_IGN);
    enum config_wish wish = config_load(&house.config, argc, argv, getenv, reason, sizeof(reason));
    switch (wish) {
    case CONFIG_HELP:
        config_print_help(stdout);
        break;
    case CONFIG_VERSION:
        (void)printf("roomd %s\n", ROOMD_VERSION);
        break;
    case CONFIG_BAD:
        (void)fprintf(stderr, "roomd: %s\n", reason);
        status = EXIT_FAILURE;
        break;
    case CONFIG_CHECK:
    case CONFIG_RUN:
        status = check_and_run(&house, wish == CONFIG_CHECK);
        break;
    }
    free(house.addresses);
    config_fini(&house.config);
    return status;
}
