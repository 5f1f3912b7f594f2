#include "roomlog/redis_bell.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_reply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PROBE_EVERY_MS = 5000,
    PROBE_AGAIN_MS = 1000, /* after one that failed */
    LISTEN_TICKS = 4,      /* a bell may come this much later than the write's answer, */
    LISTEN_TICK_MS = 250,  /* in steps: if it was us who slept, only one of them is lost */
    REASON_MAX = 192,
    KEY_MAX = 32
};

#define CHANNEL STR("__redis__:invalidate")
#define PROBE_KEY_TTL_MS STR("60000")

enum state { DOWN, LINKING, LINKED, PROVEN, DEAF, STATES };

/* moves[from] has a bit for each state that may follow. */
#define TO(state) (1u << (state))
static const unsigned moves[STATES] = {
    [DOWN] = TO(LINKING) | TO(DEAF),
    [LINKING] = TO(LINKED) | TO(DEAF) | TO(DOWN),
    [LINKED] = TO(PROVEN) | TO(DOWN),
    [PROVEN] = TO(DOWN),
    [DEAF] = TO(DOWN),
};
#undef TO

enum probe { PROBE_IDLE, PROBE_READING, PROBE_WRITING, PROBE_LISTENING };

struct redis_bell {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_bell_config config;
    const struct redis_bell_ops *ops;
    void *arg;

    enum state state;
    struct redis_conn *live;
    struct redis_conn *bell; /* NULL where we poll */
    unsigned open_conns;     /* not yet closed */
    bool closing;
    struct redis_command link;
    uint64_t bell_id; /* what Redis calls BELL */

    uint64_t links; /* how often LIVE was opened */

    enum probe probe;
    uint64_t probed_link; /* the one that the probe under way began on */
    bool heard;           /* since the probe under way began */
    unsigned ticks;
    uint64_t probes;
    struct redis_command probe_command;
    struct loop_timer probe_timer; /* IDLE: the next one; LISTENING: a tick */
    char probe_key[KEY_MAX];
};

static void move(struct redis_bell *bell, enum state state)
{
    assert((moves[bell->state] & (1u << state)) != 0);
    bell->state = state;
}

static bool readable(const struct redis_bell *bell)
{
    return bell->state == LINKED || bell->state == PROVEN || bell->state == DEAF;
}

static void on_probe_timer(void *arg);

/* Both connections go, so that no read relies on a bell that doesn't hang any more. */
static void lose_both(struct redis_bell *bell, const char *reason)
{
    if (bell->state != DOWN)
        move(bell, DOWN);
    redis_conn_drop(bell->live, reason);
    if (bell->bell != NULL)
        redis_conn_drop(bell->bell, reason);
}

/* --- the probe ------------------------------------------------------------------------------ */

/* Is the link that the probe armed its key on still there? */
static bool probe_stands(const struct redis_bell *bell)
{
    return readable(bell) && bell->probed_link == bell->links;
}

static void end_probe(struct redis_bell *bell, uint64_t next_ms)
{
    bell->probe = PROBE_IDLE;
    loop_timer_start(bell->loop, &bell->probe_timer, next_ms, on_probe_timer, bell);
}

static void probe_failed(struct redis_bell *bell, const char *reason)
{
    end_probe(bell, PROBE_AGAIN_MS);
    bell->config.health(bell->config.owner, false, reason);
}

static void probe_heard(struct redis_bell *bell)
{
    end_probe(bell, PROBE_EVERY_MS);
    if (bell->state == LINKED) {
        move(bell, PROVEN);
        logger_info("redis live feed follows bells", KV_TEXT("live", "tracking"));
    }
    bell->config.health(bell->config.owner, true, "");
}

static void probe_not_heard(struct redis_bell *bell)
{
    if (bell->state == PROVEN) {
        logger_warn("redis live feed heard no bell and connects anew",
                    KV_NUM("probe", bell->probes));
        end_probe(bell, PROBE_AGAIN_MS);
        lose_both(bell, "a bell was not heard");
        return;
    }
    /* It never rang on this link: polling goes on, and so do the probes. Redis itself is well. */
    logger_warn("redis live feed hears no bells and polls", KV_NUM("probe", bell->probes));
    end_probe(bell, PROBE_EVERY_MS);
    bell->config.health(bell->config.owner, true, "");
}

static void on_written(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, probe_command);
    if (bell->closing)
        return;
    char text[REASON_MAX];
    if (reply == NULL) {
        probe_failed(bell, "the probe's write was not answered");
    } else if (redis_reply_error_text(reply, text, sizeof(text))) {
        probe_failed(bell, text);
    } else if (!probe_stands(bell)) {
        end_probe(bell, 0);
    } else if (bell->state == DEAF || bell->heard) {
        probe_heard(bell);
    } else {
        bell->probe = PROBE_LISTENING;
        bell->ticks = 0;
        loop_timer_start(bell->loop, &bell->probe_timer, LISTEN_TICK_MS, on_probe_timer, bell);
    }
}

static void on_read(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, probe_command);
    if (bell->closing)
        return;
    char text[REASON_MAX];
    if (reply == NULL) {
        end_probe(bell, PROBE_AGAIN_MS); /* the loss itself has been, or is being, told */
        return;
    }
    if (redis_reply_error_text(reply, text, sizeof(text))) {
        probe_failed(bell, text);
        return;
    }
    char number[24];
    (void)snprintf(number, sizeof(number), "%" PRIu64, bell->probes);
    const struct str words[] = {STR("SET"), str_from(bell->probe_key), str_from(number), STR("PX"),
                                PROBE_KEY_TTL_MS};
    bell->probe_command.done = on_written;
    bell->probe = PROBE_WRITING;
    if (!bell->config.write(bell->config.owner, &bell->probe_command,
                            &(struct redis_words){words, 5}))
        probe_failed(bell, "the connection for appends is down");
}

static void begin_probe(struct redis_bell *bell)
{
    bell->probes++;
    bell->probed_link = bell->links;
    bell->heard = false;
    bell->probe = PROBE_READING;
    bell->probe_command.done = on_read;
    const struct str words[] = {STR("GET"), str_from(bell->probe_key)};
    if (!redis_conn_send(bell->live, &bell->probe_command, &(struct redis_words){words, 2}, 1))
        end_probe(bell, PROBE_AGAIN_MS);
}

static void on_probe_timer(void *arg)
{
    struct redis_bell *bell = arg;
    if (bell->probe == PROBE_IDLE) {
        redis_bell_probe(bell);
        return;
    }
    if (!probe_stands(bell)) {
        end_probe(bell, 0);
    } else if (++bell->ticks < LISTEN_TICKS) {
        loop_timer_start(bell->loop, &bell->probe_timer, LISTEN_TICK_MS, on_probe_timer, bell);
    } else {
        probe_not_heard(bell);
    }
}

void redis_bell_probe(struct redis_bell *bell)
{
    if (bell->closing || bell->probe != PROBE_IDLE || !readable(bell))
        return;
    loop_timer_stop(bell->loop, &bell->probe_timer);
    begin_probe(bell);
}

/* --- the link ------------------------------------------------------------------------------- */

/* A probe first, so that what is about to be read doesn't keep it waiting. */
static void open_for_reads(struct redis_bell *bell, enum state state)
{
    move(bell, state);
    bell->links++;
    redis_bell_probe(bell);
    bell->ops->open(bell->arg);
}

/* Redis won't link us, or not now. */
static void link_refused(struct redis_bell *bell, const struct redis_reply *reply)
{
    char text[REASON_MAX] = "tracking got an answer that it does not have";
    bool error = redis_reply_error_text(reply, text, sizeof(text));
    if (error && redis_reply_err(reply) != RD_EUNAVAIL && bell->config.live == ROOMLOG_REDIS_AUTO) {
        logger_warn("redis offers no tracking, so the live feed polls", KV_TEXT("reason", text));
        open_for_reads(bell, DEAF);
        return;
    }
    lose_both(bell, text);
    bell->config.health(bell->config.owner, false, text);
}

/* May the linking go on? Where Redis said no, that has been dealt with. */
static bool link_accepted(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (reply == NULL || bell->state != LINKING)
        return false;
    if (redis_reply_err(reply) == RD_OK)
        return true;
    link_refused(bell, reply);
    return false;
}

static void on_tracking(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, link);
    if (!link_accepted(bell, reply))
        return;
    open_for_reads(bell, LINKED);
}

static void on_subscribed(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, link);
    if (!link_accepted(bell, reply))
        return;
    char id[24];
    (void)snprintf(id, sizeof(id), "%" PRIu64, bell->bell_id);
    const struct str words[] = {STR("CLIENT"), STR("TRACKING"), STR("ON"), STR("REDIRECT"),
                                str_from(id)};
    bell->link.done = on_tracking;
    if (!redis_conn_send(bell->live, &bell->link, &(struct redis_words){words, 5}, 1))
        lose_both(bell, "the live connection was lost");
}

static void on_id(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_bell *bell = RD_CONTAINER(command, struct redis_bell, link);
    long long id = 0;
    if (reply == NULL || bell->state != LINKING)
        return;
    if (!redis_reply_integer(reply, &id)) {
        link_refused(bell, reply);
        return;
    }
    bell->bell_id = (uint64_t)id;
    const struct str words[] = {STR("SUBSCRIBE"), CHANNEL};
    bell->link.done = on_subscribed;
    if (!redis_conn_send(bell->bell, &bell->link, &(struct redis_words){words, 2}, 1))
        lose_both(bell, "the bell's connection was lost");
}

static void on_up(void *arg)
{
    struct redis_bell *bell = arg;
    assert(bell->state == DOWN);
    if (!redis_conn_is_up(bell->live))
        return;
    if (bell->bell == NULL) {
        open_for_reads(bell, DEAF);
        return;
    }
    if (!redis_conn_is_up(bell->bell))
        return;
    move(bell, LINKING);
    const struct str words[] = {STR("CLIENT"), STR("ID")};
    bell->link.done = on_id;
    if (!redis_conn_send(bell->bell, &bell->link, &(struct redis_words){words, 2}, 1))
        lose_both(bell, "the bell's connection was lost");
}

static void on_down(void *arg, const char *reason)
{
    struct redis_bell *bell = arg;
    if (bell->closing)
        return;
    lose_both(bell, reason);
    bell->config.health(bell->config.owner, false, reason);
}

/* --- bells ---------------------------------------------------------------------------------- */

static void hear(struct redis_bell *bell)
{
    bell->heard = true;
    if (bell->probe == PROBE_LISTENING && probe_stands(bell))
        probe_heard(bell);
}

static void on_push(void *arg, const struct redis_reply *reply)
{
    struct redis_bell *bell = arg;
    size_t count = 0;
    enum redis_reply_bell kind = redis_reply_bell(reply, &count);
    metrics_inc(bell->metrics, M_FEED_BELLS);
    if (kind != REDIS_REPLY_KEYS) {
        /* What we don't understand may have meant anything. */
        bell->ops->rung_all(bell->arg);
        if (kind == REDIS_REPLY_ALL)
            hear(bell);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct str key = redis_reply_bell_key(reply, i);
        if (str_eq(key, str_from(bell->probe_key)))
            hear(bell);
        else
            bell->ops->rung(bell->arg, key);
    }
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_closed(void *arg)
{
    struct redis_bell *bell = arg;
    if (--bell->open_conns != 0)
        return;
    const struct redis_bell_ops *ops = bell->ops;
    void *ops_arg = bell->arg;
    free(bell);
    ops->closed(ops_arg);
}

static const struct redis_conn_ops live_ops = {.up = on_up, .down = on_down, .closed = on_closed};
static const struct redis_conn_ops bell_ops = {
    .up = on_up, .down = on_down, .push = on_push, .closed = on_closed};

struct redis_bell *redis_bell_open(struct loop *loop, struct metrics *metrics,
                                   const struct redis_bell_config *config,
                                   const struct redis_bell_ops *ops, void *arg)
{
    struct redis_bell *bell = xalloc_zero(sizeof(*bell));
    bell->loop = loop;
    bell->metrics = metrics;
    bell->config = *config;
    bell->ops = ops;
    bell->arg = arg;
    (void)snprintf(bell->probe_key, sizeof(bell->probe_key), "roomd:hb:%016" PRIx64,
                   loop_random(loop));

    struct redis_conn_config conn = {.url = config->url,
                                     .finder = config->finder,
                                     .name = "roomd-live",
                                     .connect_ms = config->connect_ms,
                                     .command_ms = config->command_ms};
    bell->live = redis_conn_open(loop, metrics, &conn, &live_ops, bell);
    bell->open_conns = 1;
    if (config->live == ROOMLOG_REDIS_POLL)
        return bell;
    conn.name = "roomd-bell";
    bell->bell = redis_conn_open(loop, metrics, &conn, &bell_ops, bell);
    bell->open_conns = 2;
    return bell;
}

void redis_bell_close(struct redis_bell *bell)
{
    bell->closing = true;
    loop_timer_stop(bell->loop, &bell->probe_timer);
    redis_conn_close(bell->live);
    if (bell->bell != NULL)
        redis_conn_close(bell->bell);
}

bool redis_bell_read(struct redis_bell *bell, struct redis_command *command,
                     const struct redis_words *commands, size_t count)
{
    return readable(bell) && redis_conn_send(bell->live, command, commands, count);
}

bool redis_bell_proven(const struct redis_bell *bell)
{
    return bell->state == PROVEN;
}
