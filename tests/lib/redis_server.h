/* redis_server.h - a real redis-server of the test's own, on a unix socket in a directory of its
 * own.
 *
 * Started by the test, waited for until it answers, ended by its pid; the kernel ends it if
 * the test dies first. What goes wrong aborts the test.
 */
#ifndef TESTS_LIB_REDIS_SERVER_H
#define TESTS_LIB_REDIS_SERVER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid; /* 0: not running */
    char dir[64];
    char socket[96];
    char url[128];
    redisContext *admin; /* blocking; connected at first use, for this process alone */
    pid_t admin_pid;
};

/* What is started: ROOMD_REDIS_SERVER, or redis-server of this machine. */
const char *redis_server_program(void);

/* Makes the directory and starts it. extra: further arguments, ended by NULL, or NULL. */
void redis_server_start(struct redis_server *server, const char *const *extra);
/* Ends it. save: what it holds is there when it is started again. */
void redis_server_stop(struct redis_server *server, bool save);
/* Starts it again, in the same directory and at the same address. */
void redis_server_again(struct redis_server *server, const char *const *extra);
/* Ends it and removes the directory. */
void redis_server_end(struct redis_server *server);

/* Closes this process' own connection, for leak checkers. */
void redis_server_hang_up(struct redis_server *server);

/* Runs a command as somebody else would. Returns owned (freeReplyObject); an error reply aborts the
 * test. */
redisReply *redis_server_ask(struct redis_server *server, int argc, const char **argv,
                             const size_t *lens);
/* The same for words without blanks in them, its answer dropped; %s and %b as hiredis has them. */
void redis_server_do(struct redis_server *server, const char *format, ...);

/* A number that INFO gives. */
unsigned long long redis_server_info(struct redis_server *server, const char *field);

/* A TCP port of 127.0.0.1 that was free a moment ago. */
unsigned redis_server_free_port(void);

/* Ends the connections that call themselves this (CLIENT SETNAME). Returns how many there were. */
unsigned redis_server_kill(struct redis_server *server, const char *name);

#endif
