#include "tests/lib/sentinel_servers.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_TRIES = 2000, WAIT_MS = 10, PATH_BYTES = 128 };

static void pause_ms(long ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

static void start_data(struct sentinel_servers *s, size_t i)
{
    char port[16];
    char master[16];
    s->port[i] = redis_server_free_port();
    (void)snprintf(port, sizeof(port), "%u", s->port[i]);
    (void)snprintf(master, sizeof(master), "%u", s->port[0]);
    const char *const extra[] = {"--port",
                                 port,
                                 "--bind",
                                 "127.0.0.1",
                                 "--repl-diskless-sync-delay",
                                 "0",
                                 i == 0 ? NULL : "--replicaof",
                                 "127.0.0.1",
                                 master,
                                 NULL};
    redis_server_start(&s->data[i], extra);
}

/* A sentinel writes down what it finds out, so it wants a file. */
static void write_config(const struct sentinel_servers *s, size_t i, char path[PATH_BYTES])
{
    const struct redis_server *watch = &s->watch[i];
    (void)snprintf(path, PATH_BYTES, "%s/sentinel.conf", watch->dir);
    FILE *to = fopen(path, "w");
    ck_assert_ptr_nonnull(to);
    (void)fprintf(to,
                  "port %u\nbind 127.0.0.1\nunixsocket %s\ndir %s\nlogfile redis.log\n"
                  "sentinel monitor main 127.0.0.1 %u 2\n"
                  "sentinel down-after-milliseconds main 1000\n"
                  "sentinel failover-timeout main 5000\n",
                  s->watch_port[i], watch->socket, watch->dir, s->port[0]);
    ck_assert_int_eq(fclose(to), 0);
}

static void start_watch(struct sentinel_servers *s, size_t i)
{
    struct redis_server *watch = &s->watch[i];
    char path[PATH_BYTES];
    (void)snprintf(watch->dir, sizeof(watch->dir), "/tmp/roomd-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(watch->dir));
    (void)snprintf(watch->socket, sizeof(watch->socket), "%s/redis.sock", watch->dir);
    s->watch_port[i] = redis_server_free_port();
    write_config(s, i, path);
    watch->pid = fork();
    ck_assert_int_ge(watch->pid, 0);
    if (watch->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execlp(redis_server_program(), "redis-server", path, "--sentinel", (char *)NULL);
        _exit(127);
    }
    for (int k = 0; k < WAIT_TRIES && access(watch->socket, F_OK) != 0; k++) {
        ck_assert_int_eq(waitpid(watch->pid, NULL, WNOHANG), 0);
        pause_ms(WAIT_MS);
    }
}

/* Does a sentinel know both replicas and both others? */
static bool knows_all(struct redis_server *watch)
{
    const char *words[] = {"INFO", "sentinel"};
    redisReply *reply = redis_server_ask(watch, 2, words, NULL);
    bool all = strstr(reply->str, "status=ok") != NULL &&
               strstr(reply->str, "slaves=2,sentinels=3") != NULL;
    freeReplyObject(reply);
    return all;
}

void sentinel_servers_start(struct sentinel_servers *s)
{
    memset(s, 0, sizeof(*s));
    for (size_t i = 0; i < SENTINEL_SERVERS_DATA; i++)
        start_data(s, i);
    for (size_t i = 0; i < SENTINEL_SERVERS_WATCH; i++)
        start_watch(s, i);
    for (size_t i = 0; i < SENTINEL_SERVERS_WATCH; i++) {
        int k = 0;
        for (; k < WAIT_TRIES && !knows_all(&s->watch[i]); k++)
            pause_ms(WAIT_MS);
        ck_assert_msg(k < WAIT_TRIES, "a sentinel never found the others");
    }
    (void)snprintf(s->url, sizeof(s->url),
                   "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/main", s->watch_port[0],
                   s->watch_port[1], s->watch_port[2]);
}

static void end_watch(struct redis_server *watch)
{
    char path[PATH_BYTES];
    redis_server_stop(watch, false);
    (void)snprintf(path, sizeof(path), "%s/sentinel.conf", watch->dir);
    (void)unlink(path);
    redis_server_end(watch);
}

void sentinel_servers_end(struct sentinel_servers *s)
{
    for (size_t i = 0; i < SENTINEL_SERVERS_WATCH; i++)
        end_watch(&s->watch[i]);
    for (size_t i = 0; i < SENTINEL_SERVERS_DATA; i++)
        redis_server_end(&s->data[i]);
}

static bool is_master(struct redis_server *data)
{
    const char *words[] = {"ROLE"};
    redisReply *reply = redis_server_ask(data, 1, words, NULL);
    bool master = strcmp(reply->element[0]->str, "master") == 0;
    freeReplyObject(reply);
    return master;
}

static unsigned named_by(struct redis_server *watch)
{
    const char *words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"};
    redisReply *reply = redis_server_ask(watch, 3, words, NULL);
    unsigned port = (unsigned)strtoul(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return port;
}

int sentinel_servers_master(struct sentinel_servers *s)
{
    unsigned port = 0;
    for (size_t i = 0; i < SENTINEL_SERVERS_WATCH; i++) {
        if (s->watch[i].pid == 0)
            continue;
        unsigned named = named_by(&s->watch[i]);
        if (port != 0 && named != port)
            return -1;
        port = named;
    }
    for (int i = 0; i < SENTINEL_SERVERS_DATA; i++)
        if (s->port[i] == port)
            return s->data[i].pid != 0 && is_master(&s->data[i]) ? i : -1;
    return -1;
}
