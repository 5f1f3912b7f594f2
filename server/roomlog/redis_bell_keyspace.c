/* Keyspace notifications: Redis publishes what is done to a key on __keyspace@<db>__:<key>, where
 * notify-keyspace-events says so. For a managed Redis that has no client tracking.
 *
 * FLUSHALL and SWAPDB make no event, nor does what somebody does while notifications are off: the
 * audit is what finds that. */
#include "roomlog/redis_bell_impl.h"

#include "base/logger.h"

#include <stdio.h>

enum { AUDIT_MS = 10 * 1000 };

/* Events by key; of generic commands (DEL, RENAME), of keys expired and evicted, of streams. */
static const char needed[] = "Kgxet";

/* Which of them aren't there, in dst (of the size of needed). A is all classes. */
static void find_missing(struct str events, char *dst)
{
    for (const char *flag = needed; *flag != '\0'; flag++) {
        bool class = *flag != 'K';
        if (memchr(events.p, *flag, events.len) == NULL &&
            !(class && memchr(events.p, 'A', events.len) != NULL))
            *dst++ = *flag;
    }
    *dst = '\0';
}

/* CONFIG GET's answer: name, value. Who mayn't ask learns it from the probe alone. */
static void on_config(struct redis_bell *bell, const struct redis_reply *reply)
{
    struct redis_reply_parts parts;
    struct redis_reply name, value;
    struct str events;
    char missing[sizeof(needed)];
    if (!redis_reply_array(reply, &parts) || !redis_reply_part(&parts, &name) ||
        !redis_reply_part(&parts, &value) || !redis_reply_text(&value, &events))
        return;
    find_missing(events, missing);
    if (missing[0] != '\0' && !bell->warned)
        logger_warn("redis makes too few keyspace notifications: set notify-keyspace-events to "
                    "Kgxet, or more",
                    KV_STR("is", events), KV_TEXT("missing", missing));
    bell->warned = missing[0] != '\0';
}

static void link_keyspace(struct redis_bell *bell)
{
    char prefix[REDIS_BELL_CHANNELS_MAX];
    (void)snprintf(prefix, sizeof(prefix), "__keyspace@%u__:", bell->config.url->db);
    const struct str words[] = {STR("CONFIG"), STR("GET"), STR("notify-keyspace-events")};
    redis_bell_errand(bell, bell->live, &(struct redis_words){words, 3}, on_config);
    redis_bell_subscribe(bell, prefix, bell->probe.stream);
}

static void on_aimed(struct redis_bell *bell)
{
    redis_bell_subscribe_again(bell, bell->probe.stream);
}

static void push(struct redis_bell *bell, const struct redis_reply *reply)
{
    struct str key, event;
    if (!redis_bell_subscribe_message(bell, reply, &key, &event)) {
        bell->ops->rung_all(bell->arg);
        return;
    }
    if (!str_eq(key, str_from(bell->probe.stream))) {
        bell->ops->rung(bell->arg, key);
        return;
    }
    if (!str_eq(event, STR("xadd")))
        return;
    redis_bell_probe_expire_stream(bell);
    redis_bell_hear(bell);
}

const struct redis_bell_source redis_bell_keyspace = {
    .name = "keyspace",
    .kind = REDIS_BELL_KEYSPACE,
    .audit_ms = AUDIT_MS,
    .link = link_keyspace,
    .unlink = redis_bell_unsubscribe,
    .arm = redis_bell_subscribe_arm,
    .disarm = redis_bell_subscribe_disarm,
    .push = push,
    /* It is events of streams that must be heard. */
    .probe_read = redis_bell_probe_read_stream,
    .probe_write = redis_bell_probe_write_stream,
    .aimed = on_aimed,
};
