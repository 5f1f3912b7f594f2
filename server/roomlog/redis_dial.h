/* redis_dial.h - from a URL to a connected socket: resolve the name, try its addresses in turn.
 *
 * A redis_conn owns one and starts it once for each attempt. It has no timer: its owner stops an
 * attempt that takes too long.
 *
 *   IDLE --start--> RESOLVING --> CONNECTING --> IDLE, done(context)
 *                       |             |
 *                       +-------------+--> FAILED --on a later turn--> IDLE, done(NULL, reason)
 *   stop: from anywhere to IDLE, without done
 */
#ifndef ROOMLOG_REDIS_DIAL_H
#define ROOMLOG_REDIS_DIAL_H

#include "base/loop.h"
#include "roomlog/redis_url.h"

struct redisContext;
struct redis_dial;

/* Runs once for each start, later. context is the callee's now, connected, and no more watched;
 * NULL: no address took us, and reason (borrowed) says why the last one didn't. */
typedef void (*redis_dial_fn)(void *arg, struct redisContext *context, const char *reason);

/* Returns owned. Keeps loop and url. */
struct redis_dial *redis_dial_create(struct loop *loop, const struct redis_url *url,
                                     redis_dial_fn done, void *arg);
/* Stops it, too. NULL is fine. */
void redis_dial_destroy(struct redis_dial *dial);

/* It must be IDLE. */
void redis_dial_start(struct redis_dial *dial);
/* A look-up that is under way goes on, for the next start to use: a dead name server must not
 * collect threads. Harmless where IDLE. */
void redis_dial_stop(struct redis_dial *dial);

#endif
