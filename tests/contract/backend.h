/* backend.h - what the contract suite needs to hold a roomlog backend to roomlog.h.
 *
 * Beside the log itself: a way to let it work, and somebody else who does to a room's log what
 * other programs do to a stream. Everything here happens at once and fails the test (ck_abort)
 * where it can't.
 *
 * Each test gets a log of its own, from create to destroy, with no room in it.
 */
#ifndef TESTS_CONTRACT_BACKEND_H
#define TESTS_CONTRACT_BACKEND_H

#include "roomlog/roomlog.h"

struct backend_limits {
    size_t max_entries;   /* a room */
    uint64_t dedupe_ms;   /* how long a ref is remembered */
    size_t max_in_flight; /* appends, and reads; a backend may count both together */
    size_t state_keys;    /* of a room; 0: no state is kept */
    size_t state_bytes;
};

typedef bool (*backend_done_fn)(void *arg);

struct backend {
    const char *name;
    size_t trim_slack; /* a room may keep this many more than max_entries */

    /* Before and after all tests of this backend, in the process that the tests are forked from; or
     * NULL. */
    void (*start)(void);
    void (*stop)(void);

    /* Returns the backend's own state. *out_log is ready: roomlog_ready says so. */
    void *(*create)(const struct backend_limits *limits, struct roomlog **out_log);
    /* Closes the log, and waits until all of it is gone. The test has left nothing under way. */
    void (*destroy)(void *self);

    /* Turns the loop until done(arg). False: not within some seconds, or never as nothing is left
     * to come. */
    bool (*run)(void *self, backend_done_fn done, void *arg);
    /* Lets ms pass on the clock that the log goes by. */
    void (*pass)(void *self, uint64_t ms);

    /* Somebody else's commands. Absent texts of what are fields that aren't there. */
    void (*add)(void *self, struct str room, struct stream_id id,
                const struct roomlog_publish *what);        /* XADD room id ... */
    void (*trim)(void *self, struct str room, size_t keep); /* XTRIM room MAXLEN keep, exactly */
    void (*del)(void *self, struct str room, struct stream_id id); /* XDEL room id */
    void (*reset)(void *self, struct str room);                    /* DEL room */
    /* What a failover leaves that has lost the newest entries: last id and counters are those of
     * before they were added. At least one entry is left. */
    void (*lose_tail)(void *self, struct str room, size_t lost);
};

extern const struct backend backend_mem;
/* roomlog_mem behind faulty_roomlog with no fault set. */
extern const struct backend backend_faulty;
extern const struct backend backend_redis;
extern const struct backend backend_redis_cluster;
/* The same, hearing of changes in other ways. */
extern const struct backend backend_redis_cluster_keyspace;
extern const struct backend backend_redis_cluster_pubsub;
extern const struct backend backend_redis_keyspace;
extern const struct backend backend_redis_poll;
extern const struct backend backend_redis_xread;
extern const struct backend backend_redis_pubsub;

#endif
