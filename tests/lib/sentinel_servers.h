/* sentinel_servers.h - a master, two replicas and three sentinels of the test's own, on loopback.
 *
 * As redis_server.h, six at once. The sentinels call the master "main" and hold it for dead after a
 * second.
 */
#ifndef TESTS_LIB_SENTINEL_SERVERS_H
#define TESTS_LIB_SENTINEL_SERVERS_H

#include "tests/lib/redis_server.h"

#include <stddef.h>

enum { SENTINEL_SERVERS_DATA = 3, SENTINEL_SERVERS_WATCH = 3 };

struct sentinel_servers {
    struct redis_server data[SENTINEL_SERVERS_DATA]; /* [0] is the first master */
    unsigned port[SENTINEL_SERVERS_DATA];
    struct redis_server watch[SENTINEL_SERVERS_WATCH]; /* the sentinels */
    unsigned watch_port[SENTINEL_SERVERS_WATCH];
    char url[160];
};

/* Until the sentinels know all of them, and each other. */
void sentinel_servers_start(struct sentinel_servers *s);
void sentinel_servers_end(struct sentinel_servers *s);

/* Which of data the sentinels that are alive call the master, if they agree on it and it does too;
 * -1: none. */
int sentinel_servers_master(struct sentinel_servers *s);

#endif
