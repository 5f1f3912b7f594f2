/* redis_subs.h - a subscription for each room that is followed, kept in step with what is wanted.
 *
 * Lives as long as one connection is up. Rooms come and go while Redis has yet to answer for them
 * before, so each remembers what is wanted of it and what Redis has said last, and is asked for
 * again until both agree. A room that is left and joined again meanwhile costs nothing.
 *
 *             add                 SUBSCRIBE answered          UNSUBSCRIBE answered
 *   (none) --------> to be asked ------------------> held ----------------------> (none)
 *                        ^                            | remove
 *                        +----------------------------+
 *
 * Always true: at most 512 questions are under way, one a room. What isn't wanted any more is there
 * only while Redis holds it or is asked about it, so rooms that come and go while Redis doesn't
 * answer don't make us grow.
 */
#ifndef ROOMLOG_REDIS_SUBS_H
#define ROOMLOG_REDIS_SUBS_H

#include "roomlog/redis_conn.h"

struct redis_subs;

/* Each runs from the loop, and is the last thing that is done: subs may be destroyed from here. */
struct redis_subs_ops {
    /* What is sent to this room's channel is heard from here on. */
    void (*held)(void *arg, struct str key);
    /* Redis won't have it. */
    void (*refused)(void *arg, const struct redis_reply *reply);
};

/* Returns owned. A room's channel is prefix (copied) and key. Keeps loop, conn (which is up) and
 * ops. */
struct redis_subs *redis_subs_create(struct loop *loop, struct redis_conn *conn, struct str prefix,
                                     const struct redis_subs_ops *ops, void *arg);
/* Asks nothing any more: the connection is gone, or about to. NULL is fine. */
void redis_subs_destroy(struct redis_subs *subs);

/* Adding what is there, or removing what isn't, is harmless. */
void redis_subs_add(struct redis_subs *subs, struct str key);
void redis_subs_remove(struct redis_subs *subs, struct str key);

#endif
