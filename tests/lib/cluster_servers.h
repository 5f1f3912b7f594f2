/* cluster_servers.h - a real Redis Cluster of the test's own, on loopback.
 *
 * As redis_server.h, several at once: masters first, each with the same share of the slots, then
 * replicas, the i-th of master i % masters. cluster-node-timeout is a second. A slot moves as
 * redis-cli --cluster reshard moves it, but step by step, so that a test can stand in between.
 */
#ifndef TESTS_LIB_CLUSTER_SERVERS_H
#define TESTS_LIB_CLUSTER_SERVERS_H

#include "roomlog/redis_slot.h"
#include "tests/lib/redis_server.h"

enum { CLUSTER_SERVERS_MAX = 8, CLUSTER_SERVERS_ID = 48 };

struct cluster_servers {
    struct redis_server node[CLUSTER_SERVERS_MAX];
    unsigned port[CLUSTER_SERVERS_MAX];
    char id[CLUSTER_SERVERS_MAX][CLUSTER_SERVERS_ID];
    size_t count, masters;
    unsigned char owner[REDIS_SLOTS]; /* as the test left it; a failover doesn't change it */
    char url[128];
};

/* Until it works. partial: slots go on being served while others aren't. */
void cluster_servers_start(struct cluster_servers *c, size_t masters, size_t replicas,
                           bool partial);
void cluster_servers_end(struct cluster_servers *c);
/* As redis_server_hang_up, for all. */
void cluster_servers_hang_up(struct cluster_servers *c);

/* One more master, without slots. Returns which. */
size_t cluster_servers_add(struct cluster_servers *c);

/* Who has the key, as far as the test has moved slots. */
struct redis_server *cluster_servers_of(struct cluster_servers *c, const char *key);

/* Ends it by SIGKILL; it can't be started again. */
void cluster_servers_kill(struct cluster_servers *c, size_t i);

bool cluster_servers_is_master(struct cluster_servers *c, size_t i);

/* Is `replica` a master now, and does everybody alive say that the cluster works? */
bool cluster_servers_promoted(struct cluster_servers *c, size_t replica);

/* A slot on its way: begin, then its keys one by one or all, then end. In between either node
 * answers ASK or TRYAGAIN. */
void cluster_servers_move_begin(struct cluster_servers *c, unsigned slot, size_t to);
void cluster_servers_move_key(struct cluster_servers *c, const char *key, size_t to);
void cluster_servers_move_keys(struct cluster_servers *c, unsigned slot, size_t to);
void cluster_servers_move_end(struct cluster_servers *c, unsigned slot, size_t to);

#endif
