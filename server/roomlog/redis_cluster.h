/* redis_cluster.h - the nodes of a Redis Cluster, and which of them serves a room.
 *
 * One connection asks for the map of slots (CLUSTER SLOTS), of the nodes that the URL names, later
 * of any that the map names; it goes on to the next where one can't be reached, sees no working
 * cluster (it may be cut off from the others), or knows less than another did (its epoch is lower).
 * It asks again when a node says MOVED, when one is lost, each second while not every slot is
 * served by a node that works, and every ten seconds all the same. A map opens nodes, moves rooms
 * to them, and closes nodes that have served nothing for a while.
 *
 * Maps are hints, as bells are: a node that is asked for what isn't its own says so, and that
 * counts until the next map.
 *
 * Always true: for each key there is a node to be asked. Where no map names one, it is any node,
 * which will say who is. No more than REDIS_MAP_PLACES_MAX nodes are open.
 */
#ifndef ROOMLOG_REDIS_CLUSTER_H
#define ROOMLOG_REDIS_CLUSTER_H

#include "roomlog/redis_node.h"

struct redis_cluster;

/* Each runs from the loop. */
struct redis_cluster_ops {
    /* Every slot is served by a node that is ready; or it isn't, told as often as a node is looked
     * at; reason is borrowed. */
    void (*told)(void *arg, bool ready, const char *reason);
    /* After redis_cluster_close, once: nothing is left. */
    void (*closed)(void *arg);
};

/* Returns owned, until redis_cluster_close. config as redis_node_open's, without a finder; the
 * URL's places are where it begins. */
struct redis_cluster *redis_cluster_open(const struct redis_node_config *config,
                                         const struct redis_cluster_ops *ops, void *arg);
/* As redis_node_close. */
void redis_cluster_close(struct redis_cluster *cluster);

/* Returns borrowed, for the call. */
struct redis_node *redis_cluster_node(const struct redis_cluster *cluster, struct str key);

#endif
