/* redis_node.h - one Redis that holds rooms: a lane of the feed, a connection for pages, one for
 * appends, and whether all of it works.
 *
 * A plain Redis, or the master behind sentinels, is one node; a cluster has one for each master.
 *
 *   UNTOLD ----> READY <----> AWAY       READY: all connections are up, and the last probe (see
 *      |                       ^         redis_bell.h) went round
 *      +-----------------------+
 */
#ifndef ROOMLOG_REDIS_NODE_H
#define ROOMLOG_REDIS_NODE_H

#include "roomlog/redis_appends.h"
#include "roomlog/redis_feed.h"
#include "roomlog/redis_reads.h"

struct redis_node;

/* Each runs from the loop. */
struct redis_node_ops {
    /* It became ready; or it isn't, told with each attempt in vain, for its reason (for people,
     * borrowed) may be another. */
    void (*told)(void *arg, bool ready, const char *reason);
    /* This node says that another is to be asked for a slot. Returns that one, borrowed, or NULL:
     * there is none. The op may be NULL, and is called while requests are being answered: rooms may
     * not be routed from here. */
    struct redis_node *(*redirect)(void *arg, const struct redis_redirect *redirect);
    /* Does this node hold the key, as far as is known? The op may be NULL: it does. */
    bool (*holds)(void *arg, struct str key);
    /* After redis_node_close, once: nothing is left. */
    void (*closed)(void *arg);
};

/* What its parts need; finder, owner and owner's functions in there are the node's to fill in. */
struct redis_node_config {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_feed *feed;
    struct redis_finder *finder; /* kept */
    struct redis_appends_config appends;
    struct redis_reads_config reads;
    struct redis_bell_config bell;
    struct str prefix;   /* kept; of the rooms' keys */
    uint64_t max_age_ms; /* idle rooms are cut by age too; 0: they aren't */
};

/* Returns owned, until redis_node_close. Keeps what config points at, and ops. */
struct redis_node *redis_node_open(const struct redis_node_config *config,
                                   const struct redis_node_ops *ops, void *arg);
/* Nothing may be under way that wasn't cancelled, and no room be in its lane: asserted. */
void redis_node_close(struct redis_node *node);

/* Returned borrowed, for as long as the node is open. */
struct redis_feed_lane *redis_node_lane(const struct redis_node *node);
struct redis_appends *redis_node_appends(const struct redis_node *node);
struct redis_reads *redis_node_reads(const struct redis_node *node);

bool redis_node_ready(const struct redis_node *node);
/* Is nothing under way that wasn't cancelled, and no room in its lane or gone ahead to it? */
bool redis_node_idle(const struct redis_node *node);

#endif
