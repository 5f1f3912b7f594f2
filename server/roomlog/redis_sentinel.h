/* redis_sentinel.h - the finder of a master whose sentinels know where it is.
 *
 * Each attempt to connect asks a sentinel anew (SENTINEL get-master-addr-by-name). One connection
 * does that, to one sentinel after the other: one that fails, doesn't know the service or named a
 * Redis that isn't its master, or doesn't answer, goes to the back. (It may be cut off from the
 * others, and not know who took over.)
 *
 * What sentinels say may be out of date, so whoever connects verifies it (ROLE). A second
 * connection hears +switch-master. That is a hint only: connections to elsewhere are ended at once,
 * which happens without it too, later, where their Redis refuses a write or is gone.
 *
 * Always true: a find waits while no sentinel answers, but no longer than each of them was tried
 * once.
 */
#ifndef ROOMLOG_REDIS_SENTINEL_H
#define ROOMLOG_REDIS_SENTINEL_H

#include "roomlog/redis_conn.h"

struct redis_sentinel;

/* Returns owned, until redis_sentinel_close. Keeps loop, metrics and url, which is of the kind
 * SENTINEL. */
struct redis_sentinel *redis_sentinel_open(struct loop *loop, struct metrics *metrics,
                                           const struct redis_url *url, uint64_t connect_ms,
                                           uint64_t command_ms);
/* Nobody may use its finder any more. closed(arg) comes later, once: nothing is left. */
void redis_sentinel_close(struct redis_sentinel *sentinel, void (*closed)(void *arg), void *arg);

/* Returns borrowed, until redis_sentinel_close. */
struct redis_finder *redis_sentinel_finder(struct redis_sentinel *sentinel);

#endif
