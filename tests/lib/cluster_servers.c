#include "tests/lib/cluster_servers.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_TRIES = 1500, WAIT_MS = 10, BUS = 10000, NODE_TIMEOUT_MS = 1000, KEYS_A_TIME = 100 };

static void pause_ms(long ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

static bool port_is_free(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
    return is_free;
}

/* One whose cluster bus' port is free too. */
static unsigned free_ports(void)
{
    for (int i = 0; i < WAIT_TRIES; i++) {
        unsigned port = redis_server_free_port();
        if (port + BUS <= UINT16_MAX && port_is_free(port + BUS))
            return port;
    }
    ck_abort_msg("no free ports");
}

static void start_node(struct cluster_servers *c, size_t i, bool partial)
{
    char port[16];
    char timeout[16];
    c->port[i] = free_ports();
    (void)snprintf(port, sizeof(port), "%u", c->port[i]);
    (void)snprintf(timeout, sizeof(timeout), "%d", NODE_TIMEOUT_MS);
    const char *const extra[] = {"--port",
                                 port,
                                 "--bind",
                                 "127.0.0.1",
                                 "--cluster-enabled",
                                 "yes",
                                 "--cluster-config-file",
                                 "nodes.conf",
                                 "--cluster-node-timeout",
                                 timeout,
                                 "--cluster-require-full-coverage",
                                 partial ? "no" : "yes",
                                 "--repl-diskless-sync-delay",
                                 "0",
                                 NULL};
    redis_server_start(&c->node[i], extra);
    const char *words[] = {"CLUSTER", "MYID"};
    redisReply *id = redis_server_ask(&c->node[i], 2, words, NULL);
    ck_assert_uint_lt(id->len, CLUSTER_SERVERS_ID);
    memcpy(c->id[i], id->str, id->len + 1);
    freeReplyObject(id);
}

/* Is the text somewhere in what `CLUSTER what` or `INFO replication` says? */
static bool says(struct redis_server *server, const char *command, const char *what,
                 const char *text)
{
    const char *words[] = {command, what};
    redisReply *reply = redis_server_ask(server, 2, words, NULL);
    bool found = strstr(reply->str, text) != NULL;
    freeReplyObject(reply);
    return found;
}

static void wait_says(struct redis_server *server, const char *command, const char *what,
                      const char *text)
{
    for (int i = 0; i < WAIT_TRIES; i++) {
        if (says(server, command, what, text))
            return;
        pause_ms(WAIT_MS);
    }
    ck_abort_msg("a node of the cluster never said %s", text);
}

static void wait_works(struct cluster_servers *c)
{
    char known[48];
    (void)snprintf(known, sizeof(known), "cluster_known_nodes:%zu\r", c->count);
    for (size_t i = 0; i < c->count; i++) {
        wait_says(&c->node[i], "CLUSTER", "INFO", known);
        wait_says(&c->node[i], "CLUSTER", "INFO", "cluster_state:ok");
    }
}

void cluster_servers_start(struct cluster_servers *c, size_t masters, size_t replicas, bool partial)
{
    *c = (struct cluster_servers){.count = masters + replicas, .masters = masters};
    for (size_t i = 0; i < c->count; i++)
        start_node(c, i, partial);
    for (size_t i = 0; i < masters; i++) {
        size_t first = REDIS_SLOTS * i / masters;
        size_t end = REDIS_SLOTS * (i + 1) / masters;
        redis_server_do(&c->node[i], "CLUSTER ADDSLOTSRANGE %u %u", (unsigned)first,
                        (unsigned)end - 1);
        memset(&c->owner[first], (int)i, end - first);
    }
    for (size_t i = 0; i < c->count; i++) {
        redis_server_do(&c->node[i], "CLUSTER SET-CONFIG-EPOCH %u", (unsigned)i + 1);
        if (i != 0)
            redis_server_do(&c->node[i], "CLUSTER MEET 127.0.0.1 %u", c->port[0]);
    }
    wait_works(c);
    for (size_t i = masters; i < c->count; i++)
        redis_server_do(&c->node[i], "CLUSTER REPLICATE %s", c->id[i % masters]);
    for (size_t i = masters; i < c->count; i++)
        wait_says(&c->node[i], "INFO", "replication", "master_link_status:up");
    (void)snprintf(c->url, sizeof(c->url), "redis+cluster://127.0.0.1:%u,127.0.0.1:%u", c->port[0],
                   c->port[c->count - 1]);
}

static void end_node(struct cluster_servers *c, size_t i)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/nodes.conf", c->node[i].dir);
    redis_server_stop(&c->node[i], false);
    (void)unlink(path);
    redis_server_end(&c->node[i]);
}

void cluster_servers_end(struct cluster_servers *c)
{
    for (size_t i = 0; i < c->count; i++)
        end_node(c, i);
}

void cluster_servers_hang_up(struct cluster_servers *c)
{
    for (size_t i = 0; i < c->count; i++)
        redis_server_hang_up(&c->node[i]);
}

size_t cluster_servers_add(struct cluster_servers *c)
{
    size_t i = c->count++;
    ck_assert_uint_lt(i, CLUSTER_SERVERS_MAX);
    start_node(c, i, false);
    redis_server_do(&c->node[i], "CLUSTER MEET 127.0.0.1 %u", c->port[0]);
    wait_works(c);
    return i;
}

struct redis_server *cluster_servers_of(struct cluster_servers *c, const char *key)
{
    return &c->node[c->owner[redis_slot_of(str_from(key))]];
}

void cluster_servers_kill(struct cluster_servers *c, size_t i)
{
    redis_server_stop(&c->node[i], false);
}

bool cluster_servers_is_master(struct cluster_servers *c, size_t i)
{
    return says(&c->node[i], "INFO", "replication", "role:master");
}

bool cluster_servers_promoted(struct cluster_servers *c, size_t replica)
{
    if (!cluster_servers_is_master(c, replica))
        return false;
    for (size_t i = 0; i < c->count; i++)
        if (c->node[i].pid != 0 && !says(&c->node[i], "CLUSTER", "INFO", "cluster_state:ok"))
            return false;
    return true;
}

void cluster_servers_move_begin(struct cluster_servers *c, unsigned slot, size_t to)
{
    size_t from = c->owner[slot];
    redis_server_do(&c->node[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, c->id[from]);
    redis_server_do(&c->node[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, c->id[to]);
}

void cluster_servers_move_key(struct cluster_servers *c, const char *key, size_t to)
{
    struct redis_server *from = cluster_servers_of(c, key);
    redis_server_do(from, "MIGRATE 127.0.0.1 %u %s 0 5000", c->port[to], key);
}

void cluster_servers_move_keys(struct cluster_servers *c, unsigned slot, size_t to)
{
    char number[16];
    char count[16];
    (void)snprintf(number, sizeof(number), "%u", slot);
    (void)snprintf(count, sizeof(count), "%d", KEYS_A_TIME);
    const char *words[] = {"CLUSTER", "GETKEYSINSLOT", number, count};
    for (size_t left = 1; left != 0;) {
        redisReply *keys = redis_server_ask(&c->node[c->owner[slot]], 4, words, NULL);
        left = keys->elements;
        for (size_t i = 0; i < left; i++)
            redis_server_do(&c->node[c->owner[slot]], "MIGRATE 127.0.0.1 %u %b 0 5000", c->port[to],
                            keys->element[i]->str, keys->element[i]->len);
        freeReplyObject(keys);
    }
}

void cluster_servers_move_end(struct cluster_servers *c, unsigned slot, size_t to)
{
    redis_server_do(&c->node[to], "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    redis_server_do(&c->node[c->owner[slot]], "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    c->owner[slot] = (unsigned char)to;
}
