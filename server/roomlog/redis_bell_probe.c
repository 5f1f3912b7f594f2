/* One key (or channel) of our own goes round: LIVE reads it, the connection for appends writes it,
 * BELL must hear that. Where nothing rings, reading and writing are what is proved. */
#include "roomlog/redis_bell_impl.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    PROBE_EVERY_MS = 5000,
    PROBE_AGAIN_MS = 1000, /* after one that failed */
    LISTEN_TICKS = 4,      /* a bell may come this much later than the write's answer, */
    LISTEN_TICK_MS = 250,  /* in steps: if it was us who slept, only one of them is lost */
    KEY_DRAWS_MAX = 100000 /* of a cluster's 16384 slots */
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

static void fail(struct redis_bell *bell, const char *reason)
{
    end(bell, PROBE_AGAIN_MS);
    bell->config.health(bell->config.owner, false, reason);
}

static void succeed(struct redis_bell *bell)
{
    end(bell, PROBE_EVERY_MS);
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
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        out->p[i] = words[i];
    out->count = sizeof(words) / sizeof(words[0]);
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
        end(bell, PROBE_AGAIN_MS); /* the loss itself has been, or is being, told */
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

/* A key that this Redis holds, the one that we had if it does. False: none, as it seems. */
static bool aim(struct redis_bell *bell)
{
    for (unsigned i = 0; i < KEY_DRAWS_MAX; i++) {
        if (bell->config.holds(bell->config.owner, str_from(bell->probe.key)))
            return true;
        redis_bell_probe_init(bell);
    }
    return false;
}

static void begin(struct redis_bell *bell)
{
    struct redis_bell_words words;
    if (!aim(bell)) {
        end(bell, PROBE_EVERY_MS); /* no room is here either */
        return;
    }
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
        end(bell, PROBE_AGAIN_MS);
}

static void on_timer(void *arg)
{
    struct redis_bell *bell = arg;
    if (bell->probe.step == REDIS_BELL_IDLE) {
        redis_bell_probe(bell);
    } else if (!stands(bell)) {
        end(bell, 0);
    } else if (++bell->probe.ticks < LISTEN_TICKS) {
        loop_timer_start(bell->loop, &bell->probe.timer, LISTEN_TICK_MS, on_timer, bell);
    } else {
        end(bell, bell->state == REDIS_BELL_PROVEN ? PROBE_AGAIN_MS : PROBE_EVERY_MS);
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
    (void)snprintf(bell->probe.key, sizeof(bell->probe.key), "roomd:hb:%016" PRIx64,
                   loop_random(bell->loop));
}

void redis_bell_probe_stop(struct redis_bell *bell)
{
    loop_timer_stop(bell->loop, &bell->probe.timer);
}
