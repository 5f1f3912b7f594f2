/* roomlog_redis.h - the log on Redis: a Stream a room, `<prefix><name>` (prefix "room:").
 *
 * Fields `type` and `data` (JSON text), and where there is one `from`, `ref`, `key`. A plain XADD
 * by any other program is a first-class publish and is delivered live. Any Redis >= 6.2.
 *
 * The live feed is a doorbell and a pull: see redis_feed.h.
 */
#ifndef ROOMLOG_ROOMLOG_REDIS_H
#define ROOMLOG_ROOMLOG_REDIS_H

#include "base/loop.h"
#include "base/metrics.h"
#include "roomlog/roomlog.h"

/* How it hears of new entries: redis_bell.h. */
enum roomlog_redis_live {
    ROOMLOG_REDIS_AUTO,
    ROOMLOG_REDIS_TRACKING,
    ROOMLOG_REDIS_KEYSPACE,
    ROOMLOG_REDIS_POLL,
    ROOMLOG_REDIS_XREAD,
    ROOMLOG_REDIS_PUBSUB
};

/* For rediss://: each a file's path or a name, NULL where there is none. See redis_tls.h. */
struct roomlog_redis_tls {
    const char *ca_file, *cert_file, *key_file, *name;
};

/* What has to hold an entry before its publisher is told that it is in the log: the master's
 * memory; so many replicas', too (WAIT); the master's append-only file, flushed (WAITAOF, Redis
 * >= 7.2). */
enum roomlog_redis_ack { ROOMLOG_REDIS_MEMORY, ROOMLOG_REDIS_REPLICA, ROOMLOG_REDIS_DISK };

struct roomlog_redis_config {
    const char *url; /* see redis_url.h */
    struct roomlog_redis_tls tls;
    const char *prefix; /* of the rooms' keys */
    enum roomlog_redis_live live;
    uint64_t poll_ms;         /* between two reads of each room, where nothing rings */
    uint64_t probe_ms;        /* between two proofs that something does; 0: 5 s */
    uint64_t max_entries;     /* MAXLEN ~; 0: not trimmed by count */
    uint64_t max_age_ms;      /* MINID ~ at each append; 0: not trimmed by age */
    uint64_t dedupe_ms;       /* how long a ref is remembered; 0: not at all */
    uint64_t connect_ms;      /* a connection attempt may take */
    uint64_t command_ms;      /* a command may take before its connection is given up */
    size_t max_appends;       /* in flight */
    size_t max_reads;         /* in flight, of replays */
    size_t state_keys;        /* of a room's state; 0: none is kept */
    size_t state_bytes;       /* of a room's state, see state_value.h */
    uint64_t publish_wait_ms; /* appends wait so long for a connection; 0: refused at once */
    enum roomlog_redis_ack ack;
    unsigned ack_replicas;   /* REPLICA: at least 1 */
    uint64_t ack_ms;         /* REPLICA, DISK: at least 1, and below command_ms */
    bool require_noeviction; /* not ready where Redis may evict rooms */
};

/* Checks a URL without connecting. False: reason (at most cap bytes with its NUL) says what is
 * wrong. */
bool roomlog_redis_url_valid(const char *url, char *reason, size_t cap);

/* At most 128 bytes, without braces: those would move what belongs to a room (its refs) into
 * another slot of a cluster than the room. False: as above. */
bool roomlog_redis_prefix_valid(const char *prefix, char *reason, size_t cap);

/* Reads the files. False: as above; among others where they are given and the URL has no TLS. */
bool roomlog_redis_tls_valid(const char *url, const struct roomlog_redis_tls *tls, char *reason,
                             size_t cap);

/* Can rooms be heard of in this way there? xread can't on a cluster: one call asks for all rooms,
 * and a cluster wants all keys of a call in one slot. url is valid. False: as above. */
bool roomlog_redis_live_valid(const char *url, enum roomlog_redis_live live, char *reason,
                              size_t cap);

/* Returns owned, NULL where the URL, the prefix or what TLS needs is invalid; connects in the
 * background, again and again. Keeps loop and metrics; copies config. */
struct roomlog *roomlog_redis_create(struct loop *loop, struct metrics *metrics,
                                     const struct roomlog_redis_config *config);

#endif
