/* What `keyspace` and `pubsub` have in common: BELL is subscribed to a channel of the probe's and
 * to one for each room, prefix and key. */
#include "roomlog/redis_bell_impl.h"

#include <assert.h>
#include <stdio.h>

static void on_held(void *arg, struct str key)
{
    struct redis_bell *bell = arg;
    bell->ops->rung(bell->arg, key);
}

static void on_refused(void *arg, const struct redis_reply *reply)
{
    redis_bell_refused(arg, reply);
}

static const struct redis_subs_ops subs_ops = {.held = on_held, .refused = on_refused};

static void on_subscribed(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (redis_reply_err(reply) != RD_OK) {
        redis_bell_refused(bell, reply);
        return;
    }
    bell->subs =
        redis_subs_create(bell->loop, bell->bell, str_from(bell->channels), &subs_ops, bell);
    redis_bell_linked(bell);
}

/* Then to another. What the first hears is nobody's, and does no harm. */
static void on_subscribed_again(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (redis_reply_err(reply) != RD_OK)
        redis_bell_refused(bell, reply);
}

static void subscribe(struct redis_bell *bell, const char *probed, redis_bell_fn done)
{
    char channel[REDIS_BELL_CHANNELS_MAX + REDIS_BELL_KEY_MAX];
    (void)snprintf(channel, sizeof(channel), "%s%s", bell->channels, probed);
    const struct str words[] = {STR("SUBSCRIBE"), str_from(channel)};
    redis_bell_errand(bell, bell->bell, &(struct redis_words){words, 2}, done);
}

void redis_bell_subscribe_again(struct redis_bell *bell, const char *probed)
{
    subscribe(bell, probed, on_subscribed_again);
}

void redis_bell_subscribe(struct redis_bell *bell, const char *prefix, const char *probed)
{
    assert(strlen(prefix) < sizeof(bell->channels));
    (void)snprintf(bell->channels, sizeof(bell->channels), "%s", prefix);
    subscribe(bell, probed, on_subscribed);
}

void redis_bell_unsubscribe(struct redis_bell *bell)
{
    redis_subs_destroy(bell->subs);
    bell->subs = NULL;
}

void redis_bell_subscribe_arm(struct redis_bell *bell, struct str key)
{
    redis_subs_add(bell->subs, key);
}

void redis_bell_subscribe_disarm(struct redis_bell *bell, struct str key)
{
    redis_subs_remove(bell->subs, key);
}

/* ["message", channel, payload] */
bool redis_bell_subscribe_message(const struct redis_bell *bell, const struct redis_reply *reply,
                                  struct str *out_key, struct str *out_payload)
{
    struct redis_reply_parts parts;
    struct redis_reply kind, channel, payload;
    struct str word;
    if (!redis_reply_array(reply, &parts) || !redis_reply_part(&parts, &kind) ||
        !redis_reply_part(&parts, &channel) || !redis_reply_part(&parts, &payload) ||
        !redis_reply_text(&kind, &word) || !str_eq(word, STR("message")) ||
        !redis_reply_text(&channel, out_key) || !redis_reply_text(&payload, out_payload))
        return false;
    size_t len = strlen(bell->channels);
    if (out_key->len < len || memcmp(out_key->p, bell->channels, len) != 0)
        return false;
    out_key->p += len;
    out_key->len -= len;
    return true;
}
