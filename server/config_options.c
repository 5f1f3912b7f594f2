#include "config_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define SECOND ((uint64_t)1000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

#define A_TEXT(name, field, by_default, argument, help)                                            \
    {                                                                                              \
        name, CONFIG_TEXT, CONFIG_COUNT, offsetof(struct config, field), by_default, 0, 0,         \
            argument, help                                                                         \
    }
#define A_LIST(name, field, by_default, argument, help)                                            \
    {                                                                                              \
        name, CONFIG_LIST, CONFIG_COUNT, offsetof(struct config, field), by_default, 0, 0,         \
            argument, help                                                                         \
    }
#define A_CHOICE(name, field, by_default, choices, help)                                           \
    {                                                                                              \
        name, CONFIG_CHOICE, CONFIG_COUNT, offsetof(struct config, field), by_default, 0, 0,       \
            choices, help                                                                          \
    }
#define A_COUNT(name, field, by_default, min, max, help)                                           \
    {                                                                                              \
        name, CONFIG_NUMBER, CONFIG_COUNT, offsetof(struct config, field), by_default, min, max,   \
            "N", help                                                                              \
    }
#define A_SIZE(name, field, by_default, min, max, help)                                            \
    {                                                                                              \
        name, CONFIG_NUMBER, CONFIG_BYTES, offsetof(struct config, field), by_default, min, max,   \
            "SIZE", help                                                                           \
    }
#define A_TIME(name, field, by_default, min, max, help)                                            \
    {                                                                                              \
        name, CONFIG_NUMBER, CONFIG_MS, offsetof(struct config, field), by_default, min, max,      \
            "TIME", help                                                                           \
    }

/* One option a paragraph: */
/* clang-format off */
const struct config_option config_options[] = {
    A_LIST("listen", listen, "127.0.0.1:8080", "ADDR",
           "where to listen: 127.0.0.1:8080, [::]:8080, unix:/run/roomd.sock; may be repeated"),
    A_LIST("allow-origin", allow_origin, NULL, "ORIGIN",
           "let pages of this origin connect (https://chat.example.com), or of any (*); may be "
           "repeated; a page that roomd itself is asked for by name always may"),
    A_TEXT("web-root", web_root, NULL, "DIR",
           "where the chat page and the client's modules are; without it as installed, and those of "
           "the source tree where roomd runs from its build folder"),
    A_COUNT("max-connections", max_connections, "10000", 1, 1000000, "WebSockets at a time"),

    A_TEXT("redis", redis, NULL, "URL",
           "keep the rooms in this Redis: redis://[user:password@]host[:port][/db], "
           "unix:///path[?db=N], redis+sentinel://[user:password@]host[:port],.../service[/db] "
           "(the sentinels' hosts) or redis+cluster://[user:password@]host[:port],...; rediss in place "
           "of redis: through TLS; without it they live in the process, and end with it"),
    A_TEXT("redis-tls-ca", redis_tls_ca, NULL, "FILE",
           "with rediss://: whom to trust (PEM), instead of the system's certificates"),
    A_TEXT("redis-tls-cert", redis_tls_cert, NULL, "FILE",
           "with rediss://: our own certificate and its chain (PEM), where Redis wants one"),
    A_TEXT("redis-tls-key", redis_tls_key, NULL, "FILE", "its key (PEM, without a passphrase)"),
    A_TEXT("redis-tls-name", redis_tls_name, NULL, "NAME",
           "with rediss://: the name in Redis' certificate, where it isn't the host's"),
    A_CHOICE(
        "redis-live", redis_live, "auto", "auto|tracking|keyspace|poll|xread|pubsub",
        "how roomd hears of new entries; auto takes the first of tracking, keyspace and poll that "
        "works"),
    A_TIME("redis-poll-interval", redis_poll_interval, "100ms", 5, 60 * SECOND,
           "between two reads of a room where nothing rings"),
    A_TEXT("redis-prefix", redis_prefix, "room:", "TEXT", "before a room's name in its key"),
    A_TIME("redis-connect-timeout", redis_connect_timeout, "5s", 10, 10 * 60 * SECOND,
           "for a connection to be made"),
    A_TIME("redis-command-timeout", redis_command_timeout, "5s", 10, 10 * 60 * SECOND,
           "for a command to be answered, before its connection is given up"),
    A_CHOICE("redis-require-noeviction", redis_require_noeviction, "no", "no|yes",
             "not to be ready where Redis may evict rooms (maxmemory-policy)"),
    A_SIZE("memory-log-bytes", memory_log_bytes, "256MiB", 1 * MIB, 1024 * GIB,
           "without Redis: what all rooms together may keep; their states a quarter as much besides"),
    A_COUNT("retention-entries", retention_entries, "10000", 0, 1000000000,
            "about how many entries a room keeps; with Redis, 0: not cut by count"),
    A_TIME("retention-age", retention_age, "0", 0, 3650 * DAY,
           "how long a room keeps an entry, about; 0: not cut by age"),
    A_TIME("dedupe-window", dedupe_window, "5m", 0, 7 * DAY,
           "how long a publish's ref is remembered; 0: not at all"),
    A_COUNT("state-keys", state_keys, "1000", 0, 1000000,
            "keys that a room's state may hold; 0: no state is kept"),
    A_SIZE("state-bytes", state_bytes, "4MiB", 1 * KIB, GIB,
           "and what they may take together"),
    A_TIME("publish-wait", publish_wait, "1s", 0, 60 * SECOND,
           "how long a publish waits for Redis to come back before it is rejected; 0: not at all"),
    A_CHOICE("publish-ack", publish_ack, "memory", "memory|replica|disk",
             "what must hold an entry before its publisher is told: Redis itself, replicas too, or "
             "its append-only file (Redis 7.2 or newer)"),
    A_COUNT("publish-ack-replicas", publish_ack_replicas, "1", 1, 100,
            "with replica: how many of them"),
    A_TIME("publish-ack-timeout", publish_ack_timeout, "1s", 1, 60 * SECOND,
           "with replica or disk: how long to wait for them; below redis-command-timeout"),

    A_COUNT("max-rooms", max_rooms, "100000", 1, 10000000, "rooms open at a time"),
    A_TIME("room-linger", room_linger, "30s", 0, DAY,
           "how long a room that everybody has left stays open"),
    A_TIME("join-timeout", join_timeout, "10s", 100, 10 * 60 * SECOND,
           "how long a join waits for the log"),
    A_COUNT("page-entries", page_entries, "500", 1, 10000, "entries that a replay reads at a time"),
    A_SIZE("page-bytes", page_bytes, "256KiB", 1 * KIB, 64 * MIB,
           "about how many bytes a replay reads at a time"),
    A_COUNT("pages-in-flight", pages_in_flight, "4", 1, 1000,
            "pages being read at a time, for all replays together"),
    A_COUNT("ring-entries", ring_entries, "512", 0, 1000000,
            "newest entries that a room holds for those who come back; 0: none"),
    A_SIZE("ring-bytes", ring_bytes, "256KiB", 1 * KIB, GIB, "and how many bytes of them"),
    A_SIZE("ring-total", ring_total, "64MiB", 1 * KIB, 1024 * GIB,
           "and all rooms together; past it those of the rooms used least recently go"),

    A_SIZE("high-water", high_water, "1MiB", 16 * KIB, GIB,
           "bytes waiting for a client above which it is closed with 4000"),
    A_SIZE("low-water", low_water, "256KiB", 4 * KIB, GIB,
           "below which a replay reads its next page"),
    A_SIZE("pending-bytes", pending_bytes, "256KiB", 0, GIB,
           "new entries held for a client while it replays; past it they are read again"),
    A_SIZE("packet-budget", packet_budget, "512MiB", 1 * MIB, 1024 * GIB,
           "for all that waits for all clients; above it the slowest are closed"),
    A_SIZE("max-frame", max_frame, "64KiB", 256, 16 * MIB, "the longest message from a client"),
    A_COUNT("max-rooms-per-session", max_rooms_per_session, "100", 1, 100000,
            "rooms that one client may be in"),
    A_COUNT("join-rate", join_rate, "20", 0, 1000000,
            "joins a second of one socket, on average, with twice max-rooms-per-session at once; above "
            "that it is closed with 4429; 0: unlimited"),
    A_COUNT("max-publishes-per-session", max_publishes_per_session, "64", 1, 100000,
            "publishes of one client that the log has not answered yet"),
    A_TIME("heartbeat", heartbeat, "25s", 100, HOUR,
           "between two pings; a client that misses two is cut"),
    A_TIME("close-timeout", close_timeout, "5s", 10, 10 * 60 * SECOND,
           "from roomd's close frame until it cuts the connection"),

    A_TIME("drain-timeout", drain_timeout, "10s", 0, HOUR,
           "after SIGTERM: how long clients get to leave"),
    A_TIME("drain-spread", drain_spread, "5s", 0, HOUR,
           "after SIGTERM: over how long clients are told to come back"),
    A_CHOICE("log-level", log_level, "info", "debug|info|warn|error", "what is logged"),
    A_CHOICE("log-format", log_format, "logfmt", "logfmt|json", "how a line is written"),
};
/* clang-format on */

const size_t config_options_count = sizeof(config_options) / sizeof(config_options[0]);
_Static_assert(sizeof(config_options) / sizeof(config_options[0]) <= CONFIG_OPTIONS_MAX,
               "raise it");

const struct config_option *config_options_find(const char *name, size_t len)
{
    for (size_t i = 0; i < config_options_count; i++)
        if (strlen(config_options[i].name) == len && memcmp(config_options[i].name, name, len) == 0)
            return &config_options[i];
    return NULL;
}

void config_options_env_name(const struct config_option *option, char dst[CONFIG_OPTIONS_NAME_MAX])
{
    size_t at = (size_t)snprintf(dst, CONFIG_OPTIONS_NAME_MAX, "ROOMD_");
    for (const char *p = option->name; *p != '\0'; p++)
        dst[at++] = *p == '-' ? '_' : (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    dst[at] = '\0';
}
