/* Announcements: whoever publishes through roomd also sends the entry to a channel that is called
 * like the room's key (redis_hint.h). The lowest latency, for nothing need be read; what doesn't
 * chain is read all the same.
 *
 * A plain XADD announces nothing: the audit finds it, or the next announcement, whose `prev` then
 * isn't where we stand. That is why `auto` never takes this. A subscriber that is too slow for
 * Redis' client-output-buffer-limit loses its connection, and reads everything once it is back. */
#include "roomlog/redis_bell_impl.h"

#include "roomlog/redis_hint.h"

enum { AUDIT_MS = 10 * 1000 };

static void link_pubsub(struct redis_bell *bell)
{
    redis_bell_subscribe(bell, "", bell->probe.key);
}

static void on_aimed(struct redis_bell *bell)
{
    redis_bell_subscribe_again(bell, bell->probe.key);
}

static void push(struct redis_bell *bell, const struct redis_reply *reply)
{
    struct str key, payload;
    struct roomlog_entry entry;
    if (!redis_bell_subscribe_message(bell, reply, &key, &payload))
        bell->ops->rung_all(bell->arg);
    else if (str_eq(key, str_from(bell->probe.key)))
        redis_bell_hear(bell);
    else if (redis_hint_parse(payload, &entry))
        bell->ops->hint(bell->arg, key, &entry);
    else
        bell->ops->rung(bell->arg, key);
}

static void probe_write(struct redis_bell *bell, struct str number, struct redis_bell_words *out)
{
    out->p[0] = STR("PUBLISH");
    out->p[1] = str_from(bell->probe.key);
    out->p[2] = number;
    out->count = 3;
}

const struct redis_bell_source redis_bell_pubsub = {
    .name = "pubsub",
    .kind = REDIS_BELL_PUBSUB,
    .audit_ms = AUDIT_MS,
    .link = link_pubsub,
    .unlink = redis_bell_unsubscribe,
    .arm = redis_bell_subscribe_arm,
    .disarm = redis_bell_subscribe_disarm,
    .push = push,
    .probe_write = probe_write,
    .aimed = on_aimed,
};
