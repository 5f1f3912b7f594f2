/* config.h - what the operator has chosen, checked, in one struct.
 *
 * One table of options drives --help, the flags (--high-water 1MiB), the environment
 * (ROOMD_HIGH_WATER=1MiB) and the file (--config FILE, or ROOMD_CONFIG; lines `high-water = 1MiB`).
 * A flag beats the environment, which beats the file, which beats the default. All that is given is
 * checked, also what is then overridden.
 *
 * A name that isn't in the table is refused, except in the environment: Kubernetes fills that with
 * ROOMD_SERVICE_HOST and the like for a service named roomd.
 *
 * Only main.c sees this: modules get small structs of their own.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "base/rd.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct config_list {
    char **items;
    size_t count;
};

/* In the order of their choices in the table. */
enum config_live {
    CONFIG_LIVE_AUTO,
    CONFIG_LIVE_TRACKING,
    CONFIG_LIVE_KEYSPACE,
    CONFIG_LIVE_POLL,
    CONFIG_LIVE_XREAD,
    CONFIG_LIVE_PUBSUB
};
enum config_ack { CONFIG_ACK_MEMORY, CONFIG_ACK_REPLICA, CONFIG_ACK_DISK };
enum config_level { CONFIG_DEBUG, CONFIG_INFO, CONFIG_WARN, CONFIG_ERROR };
enum config_format { CONFIG_LOGFMT, CONFIG_JSON };

/* Texts are NULL where not given and without a default. Durations are milliseconds. */
struct config {
    struct config_list listen;
    struct config_list allow_origin;
    char *web_root;
    uint64_t max_connections;

    char *redis;
    char *redis_tls_ca, *redis_tls_cert, *redis_tls_key, *redis_tls_name;
    uint64_t redis_live; /* enum config_live */
    uint64_t redis_poll_interval;
    char *redis_prefix;
    uint64_t redis_connect_timeout;
    uint64_t redis_command_timeout;
    uint64_t redis_require_noeviction; /* 0 or 1 */
    uint64_t memory_log_bytes;
    uint64_t retention_entries;
    uint64_t retention_age;
    uint64_t dedupe_window;
    uint64_t state_keys;
    uint64_t state_bytes;
    uint64_t publish_wait;
    uint64_t publish_ack; /* enum config_ack */
    uint64_t publish_ack_replicas;
    uint64_t publish_ack_timeout;

    uint64_t max_rooms;
    uint64_t room_linger;
    uint64_t join_timeout;
    uint64_t page_entries;
    uint64_t page_bytes;
    uint64_t pages_in_flight;
    uint64_t ring_entries;
    uint64_t ring_bytes;
    uint64_t ring_total;

    uint64_t high_water;
    uint64_t low_water;
    uint64_t pending_bytes;
    uint64_t packet_budget;
    uint64_t max_frame;
    uint64_t max_rooms_per_session;
    uint64_t join_rate;
    uint64_t max_publishes_per_session;
    uint64_t heartbeat;
    uint64_t close_timeout;

    uint64_t drain_timeout;
    uint64_t drain_spread;
    uint64_t log_level;  /* enum config_level */
    uint64_t log_format; /* enum config_format */
};

enum config_wish {
    CONFIG_RUN,
    CONFIG_CHECK, /* --check-config: it is fine, say so and end */
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_BAD /* reason says what is wrong, and where it was given */
};

/* env: getenv, or a test's. config_fini must follow, whatever this returns. */
RD_MUST_USE enum config_wish config_load(struct config *config, int argc, char *const *argv,
                                         char *(*env)(const char *name), char *reason, size_t cap);
void config_fini(struct config *config);

void config_print_help(FILE *to);
/* Everything as a file that --config takes. A password in the Redis URL is left out. */
void config_print(FILE *to, const struct config *config);

/* url without its password. Writes at most cap bytes with the NUL. */
void config_redact(const char *url, char *dst, size_t cap);

#endif
