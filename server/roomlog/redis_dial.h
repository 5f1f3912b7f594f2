/* redis_dial.h - to a connected socket: find the place, resolve its name, try its addresses in
 * turn.
 *
 * A redis_conn owns one and starts it once for each attempt. It has no timer: its owner stops an
 * attempt that takes too long.
 *
 *   IDLE --start--> FINDING --> RESOLVING --> CONNECTING --> IDLE, done(context)
 *                      |            |             |
 *                      +------------+-------------+--> FAILED --on a later turn-->
 *                                                                IDLE, done(NULL, reason)
 *   stop: from anywhere to IDLE, without done
 */
#ifndef ROOMLOG_REDIS_DIAL_H
#define ROOMLOG_REDIS_DIAL_H

#include "base/loop.h"
#include "roomlog/redis_finder.h"

struct redisContext;
struct redis_dial;

/* Runs once for each start, later. context is the callee's now, connected, and no more watched;
 * NULL: no address took us, and reason (borrowed) says why the last one didn't. */
typedef void (*redis_dial_fn)(void *arg, struct redisContext *context, const char *reason);

/* The place where it went isn't right any more (see redis_finder.h): from its finding until the
 * next start or stop. */
typedef void (*redis_dial_leave_fn)(void *arg, const char *reason);

/* Returns owned. Keeps loop and finder. */
struct redis_dial *redis_dial_create(struct loop *loop, struct redis_finder *finder,
                                     redis_dial_fn done, redis_dial_leave_fn leave, void *arg);
/* Stops it, too. NULL is fine. */
void redis_dial_destroy(struct redis_dial *dial);

/* It must be IDLE. */
void redis_dial_start(struct redis_dial *dial);
/* A look-up that is under way goes on, for the next start to use: a dead name server must not
 * collect threads. */
void redis_dial_stop(struct redis_dial *dial);

/* Where the last attempt that found a place went, borrowed until the next start. */
const struct redis_place *redis_dial_place(const struct redis_dial *dial);

/* It must be a master, and isn't one: says so to the finder, where it wants to know. */
void redis_dial_no_master(struct redis_dial *dial);
bool redis_dial_wants_master(const struct redis_dial *dial);

/* Nobody has answered where this attempt went, if it went anywhere: says so to the finder, where it
 * wants to know. */
void redis_dial_no_answer(struct redis_dial *dial);

#endif
