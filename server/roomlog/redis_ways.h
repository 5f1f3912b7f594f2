/* redis_ways.h - the way of each room's appends through a cluster: to one node at a time.
 *
 * While a slot moves, its appends are refused by one node and sent on to another, or told to try
 * again. One that took the short way must not overtake an older one of its room that goes the long
 * way round. So each key has a way, as long as any of its appends is under way:
 *
 *               first append
 *   (no way) ----------------> OPEN: what comes is handed to the node where the others are
 *       ^                      ^  |
 *       | all are answered     |  | one was refused (MOVED, ASK, TRYAGAIN), or others are out at a
 *       +----------------------+  | node that the key isn't routed to any more
 *                              |  v
 *                           HELD UP: what comes waits; what was refused waits ahead of it, each in
 *                                   the place in which it came
 *
 * Once none is out those that wait are handed on: all together; or one after the other behind
 * ASKING, for in the middle of that the slot may arrive, and what was refused before is taken then;
 * or, after TRYAGAIN, one a little later, and the others when that one was taken.
 *
 * Where a node can't be reached, what waits for it is called back when a map says who serves the
 * slot now.
 *
 * Always true: those of a key that are out are out at one node. What waits here is counted by the
 * node that it waits for, and is answered with RD_EUNAVAIL once it has waited for wait_ms.
 */
#ifndef ROOMLOG_REDIS_WAYS_H
#define ROOMLOG_REDIS_WAYS_H

#include "roomlog/redis_appends.h"

struct redis_way;
struct redis_appends_request;

struct redis_ways_config {
    struct loop *loop;
    struct metrics *metrics;
    uint64_t wait_ms; /* 0: what is told to try again isn't, and is refused */
    uint64_t command_ms;
    /* Who serves the key, as far as is known. Returns borrowed. */
    struct redis_appends *(*route)(void *arg, struct str key);
    void *arg;
};

/* Returns owned. */
struct redis_ways *redis_ways_create(const struct redis_ways_config *config);
/* No append may be under way: asserted. */
void redis_ways_destroy(struct redis_ways *ways);
/* The nodes are about to be closed: what waits, all of it cancelled, is dropped. */
void redis_ways_close(struct redis_ways *ways);

/* Returns the key's way, or NULL. */
struct redis_way *redis_ways_find(const struct redis_ways *ways, struct str key);
/* Where one more that is routed there would be counted. way may be NULL. */
struct redis_appends *redis_ways_at(const struct redis_way *way, struct redis_appends *routed);

/* A new one, counted at redis_ways_at. way: what `find` returned. */
void redis_ways_add(struct redis_ways *ways, struct redis_way *way,
                    struct redis_appends_request *request);
/* It was refused by where it was; `to` is to be asked (TRYAGAIN: the same again). False: it can't
 * wait, and is still out. */
RD_MUST_USE bool redis_ways_turn(struct redis_appends_request *request,
                                 enum redis_redirect_kind kind, struct redis_appends *to);
/* It waits for a connection. Is its key served elsewhere by now? Then it goes there. */
void redis_ways_recall(struct redis_appends_request *request);
/* It is out no more: whatever follows may be sent. */
void redis_ways_leave(struct redis_appends_request *request);

#endif
