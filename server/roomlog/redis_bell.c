#include "roomlog/redis_bell_impl.h"

#include "base/logger.h"
#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum {
    TRIES = 2,          /* of a source that isn't refused, before the next has its turn */
    PATIENCE_MS = 1000, /* LIVE waits this long for a source before it is read without */
    AGAIN_PROBES = 12,  /* from when no source would do until the best gets another chance */
};

/* moves[from] has a bit for each state that may follow. */
#define TO(state) (1u << REDIS_BELL_##state)
static const unsigned moves[REDIS_BELL_STATES] = {
    [REDIS_BELL_DOWN] = TO(LINKING) | TO(DEAF),
    [REDIS_BELL_LINKING] = TO(LINKED) | TO(DEAF) | TO(DOWN),
    [REDIS_BELL_DEAF] = TO(LINKED) | TO(DOWN),
    [REDIS_BELL_LINKED] = TO(PROVEN) | TO(DEAF) | TO(DOWN),
    [REDIS_BELL_PROVEN] = TO(DEAF) | TO(DOWN),
};
#undef TO

/* Which sources are tried, and in which order. */
static const struct redis_bell_source *const automatic[] = {&redis_bell_tracking,
                                                            &redis_bell_keyspace, NULL};
static const struct redis_bell_source *const tracking[] = {&redis_bell_tracking, NULL};
static const struct redis_bell_source *const keyspace[] = {&redis_bell_keyspace, NULL};
static const struct redis_bell_source *const xread[] = {&redis_bell_xread, NULL};
static const struct redis_bell_source *const pubsub[] = {&redis_bell_pubsub, NULL};
static const struct redis_bell_source *const none[] = {NULL};

static const struct redis_bell_source *const *const sources[] = {
    [ROOMLOG_REDIS_AUTO] = automatic,    [ROOMLOG_REDIS_TRACKING] = tracking,
    [ROOMLOG_REDIS_KEYSPACE] = keyspace, [ROOMLOG_REDIS_POLL] = none,
    [ROOMLOG_REDIS_XREAD] = xread,       [ROOMLOG_REDIS_PUBSUB] = pubsub,
};

static void move(struct redis_bell *bell, enum redis_bell_state state)
{
    assert((moves[bell->state] & (1u << state)) != 0);
    bell->state = state;
    enum redis_bell_kind kind = state == REDIS_BELL_PROVEN ? (*bell->source)->kind
                                : state < REDIS_BELL_DEAF  ? REDIS_BELL_NONE
                                                           : REDIS_BELL_POLL;
    metrics_set(bell->metrics, M_FEED_SOURCE, kind);
}

/* One line on each change of what is in use, however often the connections are made anew. */
static void tell(struct redis_bell *bell, enum redis_bell_kind kind, const char *reason)
{
    if (bell->told == kind)
        return;
    bell->told = kind;
    if (kind == REDIS_BELL_POLL && *bell->sources == NULL)
        logger_info("redis live feed polls", KV_TEXT("reason", reason));
    else if (kind == REDIS_BELL_POLL)
        logger_warn("redis live feed polls", KV_TEXT("reason", reason));
    else
        logger_info("redis live feed follows bells", KV_TEXT("live", (*bell->source)->name));
}

static bool choosing(const struct redis_bell *bell)
{
    return bell->config.live == ROOMLOG_REDIS_AUTO;
}

/* Not while it closes: reads that are still answered mustn't find a source. */
static bool linked(const struct redis_bell *bell)
{
    return !bell->closing && (bell->state == REDIS_BELL_LINKED || bell->state == REDIS_BELL_PROVEN);
}

/* --- links ---------------------------------------------------------------------------------- */

/* A probe first, so that what is about to be read doesn't keep it waiting. */
static void open_for_reads(struct redis_bell *bell, enum redis_bell_state state)
{
    move(bell, state);
    bell->links++;
    redis_bell_probe(bell);
    bell->ops->open(bell->arg);
}

static void begin_link(struct redis_bell *bell)
{
    bool wanted = bell->state == REDIS_BELL_LINKING || bell->state == REDIS_BELL_DEAF;
    if (!wanted || bell->linking || *bell->source == NULL || !redis_conn_is_up(bell->bell))
        return;
    bell->linking = true;
    bell->unheard = false;
    bell->tries++;
    (void)redis_bell_probe_aim(bell);
    bell->probe.astray = false; /* whatever they are, the source begins with them */
    (*bell->source)->link(bell);
}

static void end_link(struct redis_bell *bell)
{
    if (!bell->linking && !linked(bell))
        return;
    bell->linking = false;
    bell->tries++; /* what is still under way belongs to no link any more */
    if ((*bell->source)->unlink != NULL)
        (*bell->source)->unlink(bell);
}

/* Both connections go, so that no read relies on a bell that doesn't hang any more. */
static void lose_both(struct redis_bell *bell, const char *reason)
{
    end_link(bell);
    if (bell->state != REDIS_BELL_DOWN)
        move(bell, REDIS_BELL_DOWN);
    loop_timer_stop(bell->loop, &bell->patience);
    redis_conn_drop(bell->live, reason);
    if (bell->bell != NULL)
        redis_conn_drop(bell->bell, reason);
}

static void begin_with_the_best(struct redis_bell *bell)
{
    bell->source = bell->sources;
    bell->failures = 0;
}

static void on_again(void *arg)
{
    struct redis_bell *bell = arg;
    begin_with_the_best(bell);
    begin_link(bell);
}

static void on_impatient(void *arg)
{
    struct redis_bell *bell = arg;
    open_for_reads(bell, REDIS_BELL_DEAF);
}

/* auto: *source doesn't do, on a LIVE that is well. It gets another chance, or the next its turn.
 */
static void link_failed(struct redis_bell *bell, const char *reason, bool for_good)
{
    end_link(bell);
    redis_conn_drop(bell->bell, reason);
    if (for_good || ++bell->failures == TRIES) {
        logger_debug("redis live feed tries something else", KV_TEXT("live", (*bell->source)->name),
                     KV_TEXT("reason", reason));
        bell->source++;
        bell->failures = 0;
    }
    if (*bell->source == NULL) {
        tell(bell, REDIS_BELL_POLL, reason);
        loop_timer_start(bell->loop, &bell->patience, AGAIN_PROBES * bell->config.probe_ms,
                         on_again, bell);
    }
    if (linked(bell) || (*bell->source == NULL && bell->state == REDIS_BELL_LINKING))
        open_for_reads(bell, REDIS_BELL_DEAF);
}

void redis_bell_linked(struct redis_bell *bell)
{
    assert(bell->linking);
    bell->linking = false;
    loop_timer_stop(bell->loop, &bell->patience);
    open_for_reads(bell, REDIS_BELL_LINKED);
}

void redis_bell_refused(struct redis_bell *bell, const struct redis_reply *reply)
{
    char text[REDIS_BELL_REASON_MAX] = "an answer that the command does not have";
    bool error = redis_reply_error_text(reply, text, sizeof(text));
    if (choosing(bell)) {
        link_failed(bell, text, error && redis_reply_err(reply) != RD_EUNAVAIL);
        return;
    }
    lose_both(bell, text);
    bell->config.health(bell->config.owner, false, text);
}

/* --- errands -------------------------------------------------------------------------------- */

struct errand {
    struct redis_command command;
    struct redis_bell *bell;
    uint64_t tries;
    redis_bell_fn done;
};

static void on_errand(struct redis_command *command, const struct redis_reply *reply)
{
    struct errand errand = *RD_CONTAINER(command, struct errand, command);
    free(RD_CONTAINER(command, struct errand, command));
    if (reply != NULL && !errand.bell->closing && errand.tries == errand.bell->tries)
        errand.done(errand.bell, reply);
}

void redis_bell_errand(struct redis_bell *bell, struct redis_conn *conn,
                       const struct redis_words *words, redis_bell_fn done)
{
    struct errand *errand = xalloc_zero(sizeof(*errand));
    *errand = (struct errand){.bell = bell, .tries = bell->tries, .done = done};
    errand->command.done = on_errand;
    if (!redis_conn_send(conn, &errand->command, words, 1))
        free(errand); /* it is lost, and will say so */
}

void redis_bell_ask_id(struct redis_bell *bell, redis_bell_fn done)
{
    const struct str words[] = {STR("CLIENT"), STR("ID")};
    redis_bell_errand(bell, bell->bell, &(struct redis_words){words, 2}, done);
}

bool redis_bell_take_id(struct redis_bell *bell, const struct redis_reply *reply)
{
    long long id = 0;
    if (!redis_reply_integer(reply, &id)) {
        redis_bell_refused(bell, reply);
        return false;
    }
    bell->bell_id = (uint64_t)id;
    return true;
}

/* --- probes that ended ---------------------------------------------------------------------- */

void redis_bell_was_heard(struct redis_bell *bell)
{
    if (bell->state == REDIS_BELL_LINKED) {
        move(bell, REDIS_BELL_PROVEN);
        bell->failures = 0;
        tell(bell, (*bell->source)->kind, "");
        /* Where a probe was missed before, so may other bells have been, after the last poll. */
        if (bell->unheard)
            bell->ops->rung_all(bell->arg);
        bell->unheard = false;
    }
    bell->config.health(bell->config.owner, true, "");
}

void redis_bell_was_not_heard(struct redis_bell *bell)
{
    static const char reason[] = "a bell was not heard";
    if (bell->state == REDIS_BELL_PROVEN) {
        logger_warn("redis live feed heard no bell and connects anew",
                    KV_TEXT("live", (*bell->source)->name), KV_NUM("probe", bell->probe.count));
        lose_both(bell, reason);
        return;
    }
    /* It never rang on this link. Redis itself is well. */
    bell->unheard = true;
    if (choosing(bell))
        link_failed(bell, reason, false);
    else
        tell(bell, REDIS_BELL_POLL, reason);
    bell->config.health(bell->config.owner, true, "");
}

/* --- connections ---------------------------------------------------------------------------- */

static void on_live_up(void *arg)
{
    struct redis_bell *bell = arg;
    assert(bell->state == REDIS_BELL_DOWN);
    begin_with_the_best(bell);
    if (*bell->source == NULL) {
        tell(bell, REDIS_BELL_POLL, "it was told to");
        open_for_reads(bell, REDIS_BELL_DEAF);
        return;
    }
    move(bell, REDIS_BELL_LINKING);
    if (choosing(bell))
        loop_timer_start(bell->loop, &bell->patience, PATIENCE_MS, on_impatient, bell);
    begin_link(bell);
}

static void on_live_down(void *arg, const char *reason)
{
    struct redis_bell *bell = arg;
    if (bell->closing)
        return;
    lose_both(bell, reason);
    bell->config.health(bell->config.owner, false, reason);
}

static void on_bell_up(void *arg)
{
    begin_link(arg);
}

static void on_bell_down(void *arg, const char *reason)
{
    struct redis_bell *bell = arg;
    if (bell->closing)
        return;
    if (!choosing(bell) || bell->state == REDIS_BELL_PROVEN) {
        lose_both(bell, reason);
        bell->config.health(bell->config.owner, false, reason);
    } else if (bell->linking || bell->state == REDIS_BELL_LINKED) {
        link_failed(bell, reason, false);
    }
}

static void on_push(void *arg, const struct redis_reply *reply)
{
    struct redis_bell *bell = arg;
    if (!linked(bell))
        return; /* all that is followed will be read */
    metrics_inc(bell->metrics, M_FEED_BELLS);
    (*bell->source)->push(bell, reply);
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

static const struct redis_conn_ops live_ops = {
    .up = on_live_up, .down = on_live_down, .closed = on_closed};
static const struct redis_conn_ops bell_ops = {
    .up = on_bell_up, .down = on_bell_down, .push = on_push, .closed = on_closed};

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
    bell->sources = sources[config->live];
    bell->source = bell->sources;
    redis_bell_probe_init(bell);

    struct redis_conn_config conn = {.url = config->url,
                                     .finder = config->finder,
                                     .name = "roomd-live",
                                     .connect_ms = config->connect_ms,
                                     .command_ms = config->command_ms};
    bell->live = redis_conn_open(loop, metrics, &conn, &live_ops, bell);
    bell->open_conns = 1;
    if (*bell->sources == NULL)
        return bell;
    conn.name = "roomd-bell";
    bell->bell = redis_conn_open(loop, metrics, &conn, &bell_ops, bell);
    bell->open_conns = 2;
    return bell;
}

void redis_bell_close(struct redis_bell *bell)
{
    end_link(bell);
    bell->closing = true;
    redis_bell_probe_stop(bell);
    loop_timer_stop(bell->loop, &bell->patience);
    redis_conn_close(bell->live);
    if (bell->bell != NULL)
        redis_conn_close(bell->bell);
}

bool redis_bell_readable(const struct redis_bell *bell)
{
    return bell->state >= REDIS_BELL_DEAF;
}

bool redis_bell_read(struct redis_bell *bell, struct redis_command *command,
                     const struct redis_words *commands, size_t count)
{
    return redis_bell_readable(bell) && redis_conn_send(bell->live, command, commands, count);
}

void redis_bell_arm(struct redis_bell *bell, struct str key)
{
    if (linked(bell) && (*bell->source)->arm != NULL)
        (*bell->source)->arm(bell, key);
}

void redis_bell_disarm(struct redis_bell *bell, struct str key)
{
    if (linked(bell) && (*bell->source)->disarm != NULL)
        (*bell->source)->disarm(bell, key);
}

void redis_bell_idle(struct redis_bell *bell)
{
    if (linked(bell) && (*bell->source)->idle != NULL)
        (*bell->source)->idle(bell);
}

uint64_t redis_bell_audit_ms(const struct redis_bell *bell)
{
    return bell->state == REDIS_BELL_PROVEN ? (*bell->source)->audit_ms : 0;
}
