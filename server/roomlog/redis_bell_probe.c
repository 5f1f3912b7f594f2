/* One key (or channel) of our own goes round: LIVE reads it, the connection for appends writes it,
 * BELL must hear that. Where nothing rings, reading and writing are what is proved. */
#include "roomlog/redis_bell_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    AGAIN_MS = 1000,      /* after one that failed, at the latest */
    LISTEN_TICKS = 4,     /* a bell may come this much later than the write's answer, */
    LISTEN_TICK_MS = 250, /* in steps: if it was us who slept, only one of them is lost */
    KEY_DRAWS_MAX = 2000  /* of a cluster's 16384 slots, at a time: a millisecond */
};

#define KEY_TTL_MS STR("60000")

static void on_timer(void *arg);

/* Is the link that the probe began on still there? */
static bool stands(const struct redis_bell *bell)
{
    return redis_bell_readable(bell) && bell->probe.link == bell->links;
}

static void end(struct redis_bell *bell, uint64_t next_ms)
{
    bell->probe.step = REDIS_BELL_IDLE;
    loop_timer_start(bell->loop, &bell->probe.timer, next_ms, on_timer, bell);
}

static uint64_t again_ms(const struct redis_bell *bell)
{
    return bell->config.probe_ms < AGAIN_MS ? bell->config.probe_ms : AGAIN_MS;
}

static void fail(struct redis_bell *bell, const char *reason)
{
    end(bell, again_ms(bell));
    bell->config.health(bell->config.owner, false, reason);
}

static void succeed(struct redis_bell *bell)
{
    end(bell, bell->config.probe_ms);
    redis_bell_was_heard(bell);
}

static void on_written(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, probe.command);
    if (bell->closing)
        return;
    char text[REDIS_BELL_REASON_MAX];
    if (reply == NULL) {
        fail(bell, "the probe's write was not answered");
    } else if (redis_reply_error_text(reply, text, sizeof(text))) {
        fail(bell, text);
    } else if (!stands(bell)) {
        end(bell, 0);
    } else if (bell->state == REDIS_BELL_DEAF || bell->probe.heard) {
        succeed(bell);
    } else {
        bell->probe.step = REDIS_BELL_LISTENS;
        bell->probe.ticks = 0;
        loop_timer_start(bell->loop, &bell->probe.timer, LISTEN_TICK_MS, on_timer, bell);
    }
}

/* What is read and written where no source says otherwise. */
static void read_key(struct redis_bell *bell, struct redis_bell_words *out)
{
    out->p[0] = STR("GET");
    out->p[1] = str_from(bell->probe.key);
    out->count = 2;
}

static void write_key(struct redis_bell *bell, struct str number, struct redis_bell_words *out)
{
    const struct str words[] = {STR("SET"), str_from(bell->probe.key), number, STR("PX"),
                                KEY_TTL_MS};
    memcpy(out->p, words, sizeof(words));
    out->count = sizeof(words) / sizeof(words[0]);
}

void redis_bell_probe_read_stream(struct redis_bell *bell, struct redis_bell_words *out)
{
    const struct str words[] = {
        STR("XRANGE"), str_from(bell->probe.stream), STR("-"), STR("+"), STR("COUNT"), STR("1")};
    memcpy(out->p, words, sizeof(words));
    out->count = sizeof(words) / sizeof(words[0]);
}

void redis_bell_probe_write_stream(struct redis_bell *bell, struct str number,
                                   struct redis_bell_words *out)
{
    const struct str words[] = {
        STR("XADD"), str_from(bell->probe.stream), STR("MAXLEN"), STR("1"), STR("*"), STR("n"),
        number};
    memcpy(out->p, words, sizeof(words));
    out->count = sizeof(words) / sizeof(words[0]);
}

static void on_expiring(struct redis_bell *bell, const struct redis_reply *reply)
{
    (void)bell;
    (void)reply; /* where that was refused, the key stays, with its one entry */
}

void redis_bell_probe_expire_stream(struct redis_bell *bell)
{
    const struct str words[] = {STR("PEXPIRE"), str_from(bell->probe.stream), KEY_TTL_MS};
    redis_bell_errand(bell, bell->live, &(struct redis_words){words, 3}, on_expiring);
}

/* Whose words they are; NULL: read_key, write_key. */
static const struct redis_bell_source *prober(const struct redis_bell *bell)
{
    const struct redis_bell_source *source = *bell->source;
    return bell->state == REDIS_BELL_DEAF || source->probe_write == NULL ? NULL : source;
}

static void on_read(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, probe.command);
    if (bell->closing)
        return;
    char text[REDIS_BELL_REASON_MAX];
    if (reply == NULL) {
        end(bell, again_ms(bell)); /* the loss itself has been, or is being, told */
        return;
    }
    if (redis_reply_error_text(reply, text, sizeof(text))) {
        fail(bell, text);
        return;
    }
    if (!stands(bell)) {
        end(bell, 0);
        return;
    }
    char number[24];
    (void)snprintf(number, sizeof(number), "%" PRIu64, bell->probe.count);
    const struct redis_bell_source *source = prober(bell);
    struct redis_bell_words words;
    if (source != NULL)
        source->probe_write(bell, str_from(number), &words);
    else
        write_key(bell, str_from(number), &words);
    bell->probe.command.done = on_written;
    bell->probe.step = REDIS_BELL_WRITES;
    if (!bell->config.write(bell->config.owner, &bell->probe.command,
                            &(struct redis_words){words.p, words.count}))
        fail(bell, "the connection for appends is down");
}

enum redis_bell_aim redis_bell_probe_aim(struct redis_bell *bell)
{
    for (unsigned i = 0; i < KEY_DRAWS_MAX; i++) {
        if (bell->config.holds(bell->config.owner, str_from(bell->probe.key))) {
            bool other = bell->probe.astray;
            bell->probe.astray = false;
            return other ? REDIS_BELL_OTHER : REDIS_BELL_SAME;
        }
        redis_bell_probe_init(bell);
        bell->probe.astray = true;
    }
    return REDIS_BELL_NOWHERE;
}

/* Can the probe begin? A source that must subscribe to another key first is given the time. */
static bool aim(struct redis_bell *bell)
{
    const struct redis_bell_source *source = *bell->source;
    enum redis_bell_aim aimed = redis_bell_probe_aim(bell);
    if (aimed == REDIS_BELL_NOWHERE) {
        end(bell, again_ms(bell)); /* no room is here either, or few */
        return false;
    }
    if (aimed == REDIS_BELL_SAME || bell->state == REDIS_BELL_DEAF || source->aimed == NULL)
        return true;
    end(bell, again_ms(bell));
    source->aimed(bell);
    return false;
}

static void begin(struct redis_bell *bell)
{
    struct redis_bell_words words;
    if (!aim(bell))
        return;
    bell->probe.count++;
    bell->probe.link = bell->links;
    bell->probe.heard = false;
    bell->probe.step = REDIS_BELL_READS;
    bell->probe.command.done = on_read;
    const struct redis_bell_source *source = prober(bell);
    if (source != NULL && source->probe_read != NULL)
        source->probe_read(bell, &words);
    else
        read_key(bell, &words);
    if (!redis_conn_send(bell->live, &bell->probe.command,
                         &(struct redis_words){words.p, words.count}, 1))
        end(bell, again_ms(bell));
}

static void on_timer(void *arg)
{
    struct redis_bell *bell = arg;
    if (bell->probe.step == REDIS_BELL_IDLE) {
        redis_bell_probe(bell);
    } else if (!stands(bell)) {
        end(bell, 0);
    } else if (++bell->probe.ticks < LISTEN_TICKS) {
        /* Whether it rings or not, Redis was read and written. */
        if (bell->state == REDIS_BELL_LINKED)
            bell->config.health(bell->config.owner, true, "");
        loop_timer_start(bell->loop, &bell->probe.timer, LISTEN_TICK_MS, on_timer, bell);
    } else {
        end(bell, bell->state == REDIS_BELL_PROVEN ? again_ms(bell) : bell->config.probe_ms);
        redis_bell_was_not_heard(bell);
    }
}

void redis_bell_probe(struct redis_bell *bell)
{
    if (bell->closing || bell->probe.step != REDIS_BELL_IDLE || !redis_bell_readable(bell))
        return;
    loop_timer_stop(bell->loop, &bell->probe.timer);
    begin(bell);
}

void redis_bell_hear(struct redis_bell *bell)
{
    bell->probe.heard = true;
    if (bell->probe.step == REDIS_BELL_LISTENS && stands(bell))
        succeed(bell);
}

void redis_bell_probe_init(struct redis_bell *bell)
{
    uint64_t name = loop_random(bell->loop);
    (void)snprintf(bell->probe.key, sizeof(bell->probe.key), "roomd:hb:%016" PRIx64, name);
    (void)snprintf(bell->probe.stream, sizeof(bell->probe.stream),
                   "roomd:hs:{roomd:hb:%016" PRIx64 "}", name);
}

void redis_bell_probe_stop(struct redis_bell *bell)
{
    loop_timer_stop(bell->loop, &bell->probe.timer);
}
