/* CLIENT TRACKING: reading a key through LIVE arms it, and its next change, by whomever, rings one
 * bell on BELL, which is subscribed to __redis__:invalidate and does nothing else. At most one bell
 * waits for each room, however slow we are.
 *
 * Neither connection notices that the other is gone (in RESP2). */
#include "roomlog/redis_bell_impl.h"

#include <inttypes.h>
#include <stdio.h>

/* SWAPDB and XSETID ring nothing. */
enum { AUDIT_MS = 100 * 1000 };

#define CHANNEL STR("__redis__:invalidate")

static void on_tracking(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (redis_reply_err(reply) == RD_OK)
        redis_bell_linked(bell);
    else
        redis_bell_refused(bell, reply);
}

static void on_subscribed(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (redis_reply_err(reply) != RD_OK) {
        redis_bell_refused(bell, reply);
        return;
    }
    char id[24];
    (void)snprintf(id, sizeof(id), "%" PRIu64, bell->bell_id);
    const struct str words[] = {STR("CLIENT"), STR("TRACKING"), STR("ON"), STR("REDIRECT"),
                                str_from(id)};
    redis_bell_errand(bell, bell->live, &(struct redis_words){words, 5}, on_tracking);
}

static void on_id(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (!redis_bell_take_id(bell, reply))
        return;
    const struct str words[] = {STR("SUBSCRIBE"), CHANNEL};
    redis_bell_errand(bell, bell->bell, &(struct redis_words){words, 2}, on_subscribed);
}

static void link_tracking(struct redis_bell *bell)
{
    redis_bell_ask_id(bell, on_id);
}

static void push(struct redis_bell *bell, const struct redis_reply *reply)
{
    size_t count = 0;
    enum redis_reply_bell kind = redis_reply_bell(reply, &count);
    if (kind != REDIS_REPLY_KEYS) {
        /* What we don't understand may have meant anything. */
        bell->ops->rung_all(bell->arg);
        if (kind == REDIS_REPLY_ALL)
            redis_bell_hear(bell);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct str key = redis_reply_bell_key(reply, i);
        if (str_eq(key, str_from(bell->probe.key)))
            redis_bell_hear(bell);
        else
            bell->ops->rung(bell->arg, key);
    }
}

const struct redis_bell_source redis_bell_tracking = {
    .name = "tracking",
    .kind = REDIS_BELL_TRACKING,
    .audit_ms = AUDIT_MS,
    .link = link_tracking,
    .push = push,
};
