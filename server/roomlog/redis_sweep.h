/* redis_sweep.h - cuts what is too old out of rooms that nobody appends to.
 *
 * An append cuts its own room. Idle rooms would keep their entries for ever, so from time to time
 * all streams with the rooms' prefix are looked for, some at a time, and each is cut: XTRIM MINID
 * ~. (An expiry would do less work, but an expired stream forgets its last id, which costs every
 * client its cursor; an empty one doesn't.)
 *
 * Of all processes on a Redis one sweeps: it holds a key for that, which runs out by itself, and
 * which it leaves behind for as long as no other sweep is due.
 *
 *   RESTING --> LOCKING --> LOOKING --> CUTTING
 *      ^           |         |  ^          |
 *      +-----------+---------+  +- pause --+
 *
 * Always true: it looks at no more than about 2,000 keys a second; one command, or those that cut
 * what one look has found, are under way.
 */
#ifndef ROOMLOG_REDIS_SWEEP_H
#define ROOMLOG_REDIS_SWEEP_H

#include "base/loop.h"
#include "base/metrics.h"
#include "roomlog/redis_conn.h"

struct redis_sweep;

struct redis_sweep_config {
    struct loop *loop;
    struct metrics *metrics;
    struct str prefix; /* kept */
    uint64_t max_age_ms;
    void *owner;
    /* Sends a command to the Redis; false: it is down. */
    bool (*send)(void *owner, struct redis_command *command, const struct redis_words *words);
    /* Does this Redis hold the key? */
    bool (*holds)(void *owner, struct str key);
};

/* Returns owned. The first sweep is due one interval from now: a tenth of max_age_ms, from 1 s to
 * 60 s. */
struct redis_sweep *redis_sweep_create(const struct redis_sweep_config *config);
/* Nothing more is sent. */
void redis_sweep_stop(struct redis_sweep *sweep);
/* It was stopped, and all that was sent is answered. NULL is fine. */
void redis_sweep_destroy(struct redis_sweep *sweep);

#endif
