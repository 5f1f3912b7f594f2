/* redis_ready.h - what has to be so before appends go over a new connection.
 *
 *   the script is loaded       where any entry may need it
 *   durability can be promised where it is asked for: an answer, and not an error, to WAIT, WAITAOF
 *   nothing is evicted         where that is demanded; else one warning where it may be
 *
 * One step after the other, each one command.
 */
#ifndef ROOMLOG_REDIS_READY_H
#define ROOMLOG_REDIS_READY_H

#include "roomlog/redis_durable.h"

struct redis_ready_config {
    bool script;
    struct redis_durable durable;
    bool require_noeviction;
};

enum redis_ready_step { REDIS_READY_SCRIPT, REDIS_READY_DURABLE, REDIS_READY_POLICY, REDIS_READY };

enum { REDIS_READY_SHA_MAX = 64 };

/* The fields are redis_ready.c's, but sha: the script's digest, "" while it isn't loaded. */
struct redis_ready {
    struct redis_ready_config config;
    struct redis_conn *conn;
    struct redis_command command;
    enum redis_ready_step step;
    bool only_script;
    bool warned;
    char sha[REDIS_READY_SHA_MAX];
    void (*done)(void *arg);
    void *arg;
};

/* done(arg) runs once for each start, later; where something isn't so the connection is dropped
 * instead, with the reason, and so is lost. */
void redis_ready_init(struct redis_ready *ready, const struct redis_ready_config *config,
                      void (*done)(void *arg), void *arg);
/* The connection is up. Keeps it. */
void redis_ready_start(struct redis_ready *ready, struct redis_conn *conn);
/* Loads the script again, and nothing else. */
void redis_ready_reload(struct redis_ready *ready);
/* The connection is gone. */
void redis_ready_stop(struct redis_ready *ready);

#endif
