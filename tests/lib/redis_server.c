#include "tests/lib/redis_server.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 1500, TRY_MS = 10, ARGS_MAX = 32 };

static void pause_ms(long ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&wait, NULL);
}

const char *redis_server_program(void)
{
    const char *program = getenv("ROOMD_REDIS_SERVER");
    return program != NULL ? program : "redis-server";
}

static _Noreturn void become_server(const struct redis_server *server, const char *const *extra)
{
    const char *argv[ARGS_MAX] = {redis_server_program(),
                                  "--port",
                                  "0",
                                  "--unixsocket",
                                  server->socket,
                                  "--dir",
                                  server->dir,
                                  "--save",
                                  "",
                                  "--daemonize",
                                  "no",
                                  "--logfile",
                                  "redis.log"};
    size_t count = 13;
    for (; extra != NULL && *extra != NULL && count < ARGS_MAX - 1; extra++)
        argv[count++] = *extra;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execvp(argv[0], (char *const *)(void *)argv);
    _exit(127);
}

static bool alive(struct redis_server *server)
{
    return waitpid(server->pid, NULL, WNOHANG) == 0;
}

/* Does it answer, and has it loaded what it had? */
static bool answers(struct redis_server *server)
{
    redisContext *c = redisConnectUnix(server->socket);
    bool ok = false;
    if (c != NULL && c->err == 0) {
        redisReply *reply = redisCommand(c, "PING");
        ok = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        if (reply != NULL)
            freeReplyObject(reply);
    }
    if (c != NULL)
        redisFree(c);
    return ok;
}

void redis_server_again(struct redis_server *server, const char *const *extra)
{
    ck_assert_int_eq(server->pid, 0);
    server->pid = fork();
    ck_assert_int_ge(server->pid, 0);
    if (server->pid == 0)
        become_server(server, extra);
    for (int i = 0; i < TRIES; i++) {
        if (!alive(server)) {
            server->pid = 0;
            ck_abort_msg("redis-server did not start, see %s/redis.log", server->dir);
        }
        if (answers(server))
            return;
        pause_ms(TRY_MS);
    }
    ck_abort_msg("redis-server does not answer");
}

void redis_server_start(struct redis_server *server, const char *const *extra)
{
    *server = (struct redis_server){.pid = 0};
    (void)snprintf(server->dir, sizeof(server->dir), "/tmp/roomd-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server->dir));
    (void)snprintf(server->socket, sizeof(server->socket), "%s/redis.sock", server->dir);
    (void)snprintf(server->url, sizeof(server->url), "unix://%s", server->socket);
    redis_server_again(server, extra);
}

void redis_server_hang_up(struct redis_server *server)
{
    if (server->admin != NULL && server->admin_pid == getpid())
        redisFree(server->admin);
    server->admin = NULL;
}

void redis_server_stop(struct redis_server *server, bool save)
{
    if (server->pid == 0)
        return;
    if (save)
        redis_server_do(server, "SAVE");
    redis_server_hang_up(server);
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
    (void)unlink(server->socket);
}

void redis_server_end(struct redis_server *server)
{
    redis_server_stop(server, false);
    static const char *const files[] = {"dump.rdb", "redis.log", "redis.sock"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[160];
        (void)snprintf(path, sizeof(path), "%s/%s", server->dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(server->dir);
}

static redisContext *admin(struct redis_server *server)
{
    if (server->admin != NULL && server->admin_pid == getpid())
        return server->admin;
    /* A connection that was made before a fork belongs to the other process. */
    server->admin = redisConnectUnix(server->socket);
    server->admin_pid = getpid();
    ck_assert_ptr_nonnull(server->admin);
    ck_assert_int_eq(server->admin->err, 0);
    return server->admin;
}

static redisReply *checked(struct redis_server *server, redisReply *reply)
{
    ck_assert_msg(reply != NULL, "redis: %s", server->admin->errstr);
    ck_assert_msg(reply->type != REDIS_REPLY_ERROR, "redis: %s", reply->str);
    return reply;
}

redisReply *redis_server_ask(struct redis_server *server, int argc, const char **argv,
                             const size_t *lens)
{
    return checked(server, redisCommandArgv(admin(server), argc, argv, lens));
}

void redis_server_do(struct redis_server *server, const char *format, ...)
{
    va_list args;
    redisContext *c = admin(server);
    va_start(args, format);
    redisReply *reply = redisvCommand(c, format, args);
    va_end(args);
    freeReplyObject(checked(server, reply));
}

unsigned long long redis_server_info(struct redis_server *server, const char *field)
{
    const char *words[] = {"INFO", "everything"};
    redisReply *info = redis_server_ask(server, 2, words, NULL);
    char wanted[64];
    unsigned long long value = 0;
    (void)snprintf(wanted, sizeof(wanted), "\n%s:", field);
    const char *found = strstr(info->str, wanted);
    ck_assert_msg(found != NULL, "INFO has no %s", field);
    ck_assert_int_eq(sscanf(found + strlen(wanted), "%llu", &value), 1);
    freeReplyObject(info);
    return value;
}

unsigned redis_server_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

unsigned redis_server_kill(struct redis_server *server, const char *name)
{
    const char *words[] = {"CLIENT", "LIST"};
    redisReply *list = redis_server_ask(server, 2, words, NULL);
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), " name=%s ", name);
    unsigned killed = 0;
    char *rest = NULL;
    for (char *line = strtok_r(list->str, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned long id = 0;
        if (strstr(line, wanted) == NULL || sscanf(line, "id=%lu", &id) != 1)
            continue;
        redis_server_do(server, "CLIENT KILL ID %lu", id);
        killed++;
    }
    freeReplyObject(list);
    return killed;
}
