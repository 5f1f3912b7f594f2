#include "roomlog/redis_ready.h"

#include "base/logger.h"
#include "roomlog/redis_policy.h"
#include "roomlog/redis_script.h"

#include <stdio.h>
#include <stdlib.h>

enum { REASON_MAX = 192, PROBE_WAIT_MS = 1 };

void redis_ready_init(struct redis_ready *ready, const struct redis_ready_config *config,
                      void (*done)(void *arg), void *arg)
{
    *ready = (struct redis_ready){.config = *config, .done = done, .arg = arg};
}

/* what: of a few words. */
static void fail(struct redis_ready *ready, const char *what, const struct redis_reply *reply)
{
    char text[REASON_MAX / 2], reason[2 * REASON_MAX];
    if (reply != NULL && redis_reply_error_text(reply, text, sizeof(text)))
        (void)snprintf(reason, sizeof(reason), "%.64s: %s", what, text);
    else
        (void)snprintf(reason, sizeof(reason), "%.64s", what);
    redis_conn_drop(ready->conn, reason);
}

/* --- the answers ---------------------------------------------------------------------------- */

/* Each returns false where it has failed. */

/* SCRIPT LOAD's answer is the script's digest. */
static bool take_script(struct redis_ready *ready, const struct redis_reply *reply)
{
    struct str sha;
    if (!redis_reply_text(reply, &sha) || sha.len >= sizeof(ready->sha)) {
        fail(ready, "the script could not be loaded", reply);
        return false;
    }
    memcpy(ready->sha, sha.p, sha.len);
    ready->sha[sha.len] = '\0';
    return true;
}

static bool take_durable(struct redis_ready *ready, const struct redis_reply *reply)
{
    if (redis_reply_err(reply) == RD_OK)
        return true;
    fail(ready,
         ready->config.durable.kind == REDIS_DURABLE_DISK
             ? "publish-ack disk needs Redis 7.2 or newer with appendonly yes"
             : "publish-ack replica needs WAIT",
         reply);
    return false;
}

static bool take_policy(struct redis_ready *ready, const struct redis_reply *reply)
{
    struct str info = {NULL, 0};
    struct str name;
    (void)redis_reply_text(reply, &info);
    enum redis_policy policy = redis_policy_of(info, &name);
    if (policy == REDIS_POLICY_EVICTS && !ready->warned) {
        ready->warned = true;
        logger_warn("redis may evict rooms when memory runs short: set maxmemory-policy noeviction",
                    KV_STR("maxmemory_policy", name));
    }
    if (policy == REDIS_POLICY_UNSAID)
        logger_debug("redis does not say whether it may evict");
    if (policy == REDIS_POLICY_KEEPS || !ready->config.require_noeviction)
        return true;
    char reason[REASON_MAX];
    if (policy == REDIS_POLICY_UNSAID)
        (void)snprintf(reason, sizeof(reason), "redis does not say whether it may evict rooms");
    else
        (void)snprintf(reason, sizeof(reason), "redis may evict rooms: maxmemory-policy is %.*s",
                       (int)(name.len < 32 ? name.len : 32), name.p);
    fail(ready, reason, reply);
    return false;
}

/* --- the steps ------------------------------------------------------------------------------ */

static void next(struct redis_ready *ready);

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_ready *ready = RD_CONTAINER(command, struct redis_ready, command);
    if (reply == NULL)
        return;
    bool ok = ready->step == REDIS_READY_SCRIPT    ? take_script(ready, reply)
              : ready->step == REDIS_READY_DURABLE ? take_durable(ready, reply)
                                                   : take_policy(ready, reply);
    if (!ok)
        return;
    ready->step = ready->only_script ? REDIS_READY : ready->step + 1;
    next(ready);
}

static void send(struct redis_ready *ready, const struct redis_words *words)
{
    ready->command.done = on_answer;
    if (!redis_conn_send(ready->conn, &ready->command, words, 1))
        redis_conn_drop(ready->conn, "what a new connection needs could not be sent");
}

static void send_script(struct redis_ready *ready)
{
    struct str text = redis_script_text();
    const struct str words[] = {STR("SCRIPT"), STR("LOAD"), text};
    send(ready, &(struct redis_words){words, 3});
    free((char *)text.p);
}

static void send_durable(struct redis_ready *ready)
{
    struct redis_durable_ask ask;
    redis_durable_ask(&ask, &ready->config.durable, PROBE_WAIT_MS);
    send(ready, &ask.command);
}

static void next(struct redis_ready *ready)
{
    static const struct str info[] = {{"INFO", 4}, {"memory", 6}};
    if (ready->step == REDIS_READY_SCRIPT && !ready->config.script)
        ready->step++;
    if (ready->step == REDIS_READY_DURABLE && ready->config.durable.kind == REDIS_DURABLE_MEMORY)
        ready->step++;
    switch (ready->step) {
    case REDIS_READY_SCRIPT:
        send_script(ready);
        break;
    case REDIS_READY_DURABLE:
        send_durable(ready);
        break;
    case REDIS_READY_POLICY:
        send(ready, &(struct redis_words){info, 2});
        break;
    case REDIS_READY:
        ready->done(ready->arg);
        break;
    }
}

void redis_ready_start(struct redis_ready *ready, struct redis_conn *conn)
{
    ready->conn = conn;
    ready->only_script = false;
    ready->step = REDIS_READY_SCRIPT;
    next(ready);
}

void redis_ready_reload(struct redis_ready *ready)
{
    ready->only_script = true;
    ready->step = REDIS_READY_SCRIPT;
    next(ready);
}

void redis_ready_stop(struct redis_ready *ready)
{
    ready->sha[0] = '\0';
}
