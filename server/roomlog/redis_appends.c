#include "roomlog/redis_appends_impl.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_ways.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REASON_MAX = 192,
    TRIES_MAX = 3 /* of one request, where Redis has not done it */
};

#define TO(phase) (1u << (phase))
static const unsigned phase_moves[REDIS_APPENDS_PHASES] = {
    [REDIS_APPENDS_DOWN] = TO(REDIS_APPENDS_GETTING_READY),
    [REDIS_APPENDS_GETTING_READY] = TO(REDIS_APPENDS_OPEN) | TO(REDIS_APPENDS_DOWN),
    [REDIS_APPENDS_OPEN] = TO(REDIS_APPENDS_HALTED) | TO(REDIS_APPENDS_DOWN),
    [REDIS_APPENDS_HALTED] = TO(REDIS_APPENDS_OPEN) | TO(REDIS_APPENDS_DOWN),
};
#undef TO

static void pump(struct redis_appends *appends);

/* --- halting -------------------------------------------------------------------------------- */

static void phase_move(struct redis_appends *appends, enum redis_appends_phase phase)
{
    assert((phase_moves[appends->phase] & (1u << phase)) != 0);
    appends->phase = phase;
}

/* What wasn't done goes first. */
static void take_again(struct redis_appends *appends)
{
    struct list later;
    list_init(&later);
    list_move_all(&later, &appends->waiting);
    while (!list_empty(&appends->again)) {
        struct redis_appends_request *request =
            LIST_ITEM(appends->again.next, struct redis_appends_request, link);
        redis_appends_move(request, REDIS_APPENDS_WAITING);
        redis_appends_wait(request);
    }
    list_move_all(&appends->waiting, &later);
}

/* Is all that was sent answered? Then what isn't so is put right. */
static void go_on(struct redis_appends *appends)
{
    if (appends->phase != REDIS_APPENDS_HALTED || appends->sent != 0 || appends->committing ||
        appends->closing)
        return;
    take_again(appends);
    if (appends->leave) {
        redis_conn_drop(appends->conn, "this is no master any more");
        return;
    }
    phase_move(appends, REDIS_APPENDS_OPEN);
    redis_ready_reload(&appends->ready); /* its answer comes before those of what is sent now */
    pump(appends);
}

/* Redis has not done it, and can't do what comes behind it either. */
static void halt(struct redis_appends_request *request, bool for_another)
{
    struct redis_appends *appends = request->appends;
    redis_appends_move(request, REDIS_APPENDS_AGAIN);
    list_push_back(&appends->again, &request->link);
    if (appends->phase == REDIS_APPENDS_OPEN) {
        phase_move(appends, REDIS_APPENDS_HALTED);
        appends->leave = false;
    }
    appends->leave = appends->leave || for_another;
}

/* --- durability ----------------------------------------------------------------------------- */

/* Once each time that it changes. */
static void say_durable(struct redis_appends *appends, bool holds)
{
    const char *who =
        appends->config.durable.kind == REDIS_DURABLE_DISK ? "append-only file" : "replicas";
    if (!holds && !appends->undurable)
        logger_warn("publishes get no ack: what must hold them does not say so in time",
                    KV_TEXT("who", who));
    if (holds && appends->undurable)
        logger_info("publishes get their acks again", KV_TEXT("who", who));
    appends->undurable = !holds;
}

static void on_committed(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_appends *appends = RD_CONTAINER(command, struct redis_appends, wait);
    bool holds = reply != NULL && redis_durable_holds(&appends->config.durable, reply);
    struct list held;
    appends->committing = false;
    list_init(&held);
    list_move_all(&held, &appends->held);
    if (reply != NULL)
        say_durable(appends, holds);
    go_on(appends);
    pump(appends);
    while (!list_empty(&held)) {
        if (!holds)
            metrics_inc(appends->metrics, M_PUBLISHES_NOT_DURABLE);
        redis_appends_finish(LIST_ITEM(held.next, struct redis_appends_request, link),
                             holds ? RD_OK : RD_EUNKNOWN);
    }
}

/* Behind all that this turn has sent. */
static void commit(void *arg)
{
    struct redis_appends *appends = arg;
    struct redis_durable_ask ask;
    redis_durable_ask(&ask, &appends->config.durable, appends->config.durable.wait_ms);
    appends->wait.done = on_committed;
    /* False: the connection is lost, and those that were sent are about to hear of it. */
    appends->committing = redis_conn_send(appends->conn, &appends->wait, &ask.command, 1);
}

static bool durable(const struct redis_appends *appends)
{
    return appends->config.durable.kind != REDIS_DURABLE_MEMORY;
}

/* --- sending -------------------------------------------------------------------------------- */

static void on_answer(struct redis_command *command, const struct redis_reply *reply);

static bool request_send(struct redis_appends_request *request)
{
    struct redis_appends *appends = request->appends;
    const struct redis_script_config *config = &appends->config.script;
    /* A plain one must not be done where the script before it wasn't. */
    bool script = redis_script_asked(config, &request->what) ||
                  (appends->scripted[request->bucket] != 0 && redis_script_needed(config));
    const struct redis_script_how how = {
        .sha = script ? str_from(appends->ready.sha) : (struct str){NULL, 0},
        .asking = request->asking,
        .wary = request->way != NULL && appends->scripted[request->bucket] != 0,
        .wall_ms = loop_wall_ms(appends->loop)};
    struct redis_script_ask ask;
    redis_script_ask(&ask, config, &how, request->key, &request->what);
    /* Ahead of the connection's own write, so that WAIT goes out with it. */
    if (durable(appends))
        loop_defer(appends->loop, &appends->commit, commit, appends);
    request->command.done = on_answer;
    bool sent = redis_conn_send(appends->conn, &request->command, ask.commands, ask.count);
    redis_script_ask_fini(&ask);
    if (!sent)
        return false;
    redis_appends_move(request, REDIS_APPENDS_SENT);
    request->scripted = script;
    appends->scripted[request->bucket] += script;
    appends->sent++;
    return true;
}

static void pump(struct redis_appends *appends)
{
    while (appends->phase == REDIS_APPENDS_OPEN && !appends->committing &&
           !list_empty(&appends->waiting))
        if (!request_send(LIST_ITEM(appends->waiting.next, struct redis_appends_request, link)))
            break;
}

/* --- answers -------------------------------------------------------------------------------- */

static void refuse(struct redis_appends_request *request, const struct redis_reply *reply,
                   enum rd_err err)
{
    char text[REASON_MAX] = "an answer of another shape";
    (void)redis_reply_error_text(reply, text, sizeof(text));
    logger_warn("redis refused an append", KV_TEXT("reason", text));
    struct redis_appends *appends = request->appends;
    bool of_this_room = err == RD_EWRONGTYPE || err == RD_ENOIDS || err == RD_ESTATEFULL;
    if (!of_this_room && appends->ops->refused != NULL)
        appends->ops->refused(appends->arg);
    redis_appends_finish(request, err);
}

static void send_or_wait(struct redis_appends_request *request)
{
    struct redis_appends *appends = request->appends;
    redis_appends_wait(request);
    if (redis_appends_connected(appends))
        pump(appends);
    else
        redis_appends_begin_expiry(appends);
}

void redis_appends_hand(struct redis_appends_request *request, bool asking)
{
    request->asking = asking;
    redis_appends_move(request, REDIS_APPENDS_WAITING);
    send_or_wait(request);
}

/* Waits for its turn at another Redis from here on. */
static void move_to(struct redis_appends_request *request, struct redis_appends *to, bool asking)
{
    redis_appends_move(request, REDIS_APPENDS_WAITING);
    redis_appends_leave(request);
    redis_appends_enter(to, request);
    request->asking = asking;
    send_or_wait(request);
}

/* Keeps its place in its room's way there. */
static void turn(struct redis_appends_request *request, const struct redis_redirect *redirect,
                 struct redis_appends *to)
{
    if (redirect->kind == REDIS_REDIRECT_TRYAGAIN)
        metrics_inc(request->appends->metrics, M_PUBLISHES_TRIED_AGAIN);
    if (!redis_ways_turn(request, redirect->kind, to))
        redis_appends_finish(request, RD_EUNAVAIL);
}

static bool send_elsewhere(struct redis_appends_request *request, const struct redis_reply *reply)
{
    struct redis_appends *from = request->appends;
    struct redis_redirect redirect;
    if (!redis_redirect_of(reply, &redirect))
        return false;
    bool again = redirect.kind == REDIS_REDIRECT_TRYAGAIN;
    struct redis_appends *to =
        from->ops->redirect == NULL ? NULL : from->ops->redirect(from->arg, &redirect);
    if (again && request->way != NULL && !from->closing)
        turn(request, &redirect, from); /* for no longer than it may wait */
    else if (to == NULL || ++request->redirects > REDIS_REDIRECTS_MAX)
        redis_appends_finish(request, RD_EUNAVAIL);
    else if (request->way != NULL)
        turn(request, &redirect, to);
    else
        move_to(request, to, redirect.kind == REDIS_REDIRECT_ASK);
    return true;
}

/* Redis has not done it, but once something is put right it would. */
static bool try_again(struct redis_appends_request *request, const struct redis_reply *reply)
{
    struct redis_appends *appends = request->appends;
    bool master = redis_reply_err(reply) == RD_EREADONLY &&
                  appends->config.finder->no_master != NULL && appends->config.wait_ms != 0;
    if (!master && !redis_reply_is(reply, "NOSCRIPT"))
        return false;
    if (++request->tries >= TRIES_MAX)
        return false;
    halt(request, master);
    return true;
}

static void take_answer(struct redis_appends_request *request, const struct redis_reply *reply)
{
    struct redis_appends *appends = request->appends;
    enum rd_err err = redis_script_answer(reply, &request->answer);
    if (err != RD_OK) {
        if (!send_elsewhere(request, reply))
            refuse(request, reply, err);
        return;
    }
    if (str_present(request->answer.refused))
        logger_warn("redis refused what belongs to an append",
                    KV_STR("reason", request->answer.refused));
    request->answer.refused = (struct str){NULL, 0}; /* the reply's */
    if (!durable(appends)) {
        redis_appends_finish(request, RD_OK);
        return;
    }
    if (request->way != NULL)
        redis_ways_leave(request);
    redis_appends_move(request, REDIS_APPENDS_HELD);
    list_push_back(&appends->held, &request->link);
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_appends_request *request =
        RD_CONTAINER(command, struct redis_appends_request, command);
    struct redis_appends *appends = request->appends;
    appends->sent--;
    appends->scripted[request->bucket] -= request->scripted;
    bool again = reply != NULL && try_again(request, reply);
    go_on(appends);
    if (again)
        return;
    if (reply == NULL)
        redis_appends_finish(request, RD_EUNKNOWN);
    else
        take_answer(request, reply);
}

/* --- the connection ------------------------------------------------------------------------- */

static void on_ready(void *arg)
{
    struct redis_appends *appends = arg;
    if (appends->phase != REDIS_APPENDS_GETTING_READY) /* the script was loaded again */
        return;
    phase_move(appends, REDIS_APPENDS_OPEN);
    redis_appends_arm_expiry(appends);
    pump(appends);
    appends->ops->up(appends->arg);
}

static void on_up(void *arg)
{
    struct redis_appends *appends = arg;
    phase_move(appends, REDIS_APPENDS_GETTING_READY);
    redis_ready_start(&appends->ready, appends->conn);
}

static void on_down(void *arg, const char *reason)
{
    struct redis_appends *appends = arg;
    redis_ready_stop(&appends->ready);
    loop_cancel(&appends->commit);
    take_again(appends);
    if (appends->phase != REDIS_APPENDS_DOWN)
        phase_move(appends, REDIS_APPENDS_DOWN);
    redis_appends_begin_expiry(appends);
    appends->ops->down(appends->arg, reason);
}

static void on_closed(void *arg)
{
    struct redis_appends *appends = arg;
    const struct redis_appends_ops *ops = appends->ops;
    void *ops_arg = appends->arg;
    take_again(appends);
    while (!list_empty(&appends->waiting))
        redis_appends_finish(LIST_ITEM(appends->waiting.next, struct redis_appends_request, link),
                             RD_EUNAVAIL);
    assert(appends->in_flight == 0);
    loop_cancel(&appends->commit);
    free(appends);
    ops->closed(ops_arg);
}

static const struct redis_conn_ops conn_ops = {.up = on_up, .down = on_down, .closed = on_closed};

struct redis_appends *redis_appends_open(struct loop *loop, struct metrics *metrics,
                                         const struct redis_appends_config *config,
                                         const struct redis_appends_ops *ops, void *arg)
{
    struct redis_appends *appends = xalloc_zero(sizeof(*appends));
    appends->loop = loop;
    appends->metrics = metrics;
    appends->config = *config;
    appends->config.script.touch = durable(appends);
    appends->ops = ops;
    appends->arg = arg;
    appends->seed[0] = loop_random(loop);
    appends->seed[1] = loop_random(loop);
    list_init(&appends->waiting);
    list_init(&appends->held);
    list_init(&appends->again);
    const struct redis_ready_config ready = {.script = redis_script_needed(&config->script),
                                             .durable = config->durable,
                                             .require_noeviction = config->require_noeviction};
    redis_ready_init(&appends->ready, &ready, on_ready, appends);
    const struct redis_conn_config conn = {.url = config->url,
                                           .finder = config->finder,
                                           .name = "roomd-append",
                                           .connect_ms = config->connect_ms,
                                           .command_ms = config->command_ms};
    appends->conn = redis_conn_open(loop, metrics, &conn, &conn_ops, appends);
    return appends;
}

void redis_appends_close(struct redis_appends *appends)
{
    assert(appends->asked_for == 0);
    appends->closing = true;
    loop_timer_stop(appends->loop, &appends->expiry);
    redis_conn_close(appends->conn);
}

/* --- from outside --------------------------------------------------------------------------- */

/* A Redis that stalls must not make us grow with what clients go on publishing. */
static bool is_full(const struct redis_appends *appends, const struct roomlog_publish *what)
{
    return appends->in_flight >= appends->config.max_in_flight ||
           appends->bytes + redis_appends_text_bytes(what) > REDIS_CONN_BYTES_MAX;
}

enum rd_err redis_appends_add(struct redis_appends *appends, struct str key,
                              const struct roomlog_publish *what, struct roomlog_append *append)
{
    struct redis_ways *ways = appends->config.ways;
    struct redis_way *way = NULL;
    if (ways != NULL) {
        way = redis_ways_find(ways, key);
        appends = redis_ways_at(way, appends);
    }
    if (redis_script_bytes_max(key, what) > REDIS_CONN_BYTES_MAX)
        return RD_ETOOBIG;
    if (appends->config.wait_ms == 0 && !redis_appends_up(appends))
        return RD_EUNAVAIL;
    if (is_full(appends, what)) {
        metrics_inc(appends->metrics, M_LOG_BUSY);
        return RD_EBUSY;
    }
    struct redis_appends_request *request = redis_appends_create(appends, key, what, append);
    append->impl = request;
    if (ways != NULL)
        redis_ways_add(ways, way, request);
    else
        redis_appends_hand(request, false);
    return RD_OK;
}

void redis_appends_recall(struct redis_appends *appends)
{
    if (redis_appends_connected(appends))
        return;
    list_for_each_safe (it, after, &appends->waiting) {
        struct redis_appends_request *request = LIST_ITEM(it, struct redis_appends_request, link);
        if (request->way != NULL)
            redis_ways_recall(request);
    }
    redis_appends_arm_expiry(appends);
}

void redis_appends_cancel(struct roomlog_append *append)
{
    struct redis_appends_request *request = append->impl;
    request->append = NULL;
    append->impl = NULL;
    request->appends->asked_for--;
}

bool redis_appends_idle(const struct redis_appends *appends)
{
    return appends->in_flight == 0;
}

bool redis_appends_up(const struct redis_appends *appends)
{
    return redis_appends_connected(appends) && redis_conn_is_up(appends->conn);
}

bool redis_appends_send(struct redis_appends *appends, struct redis_command *command,
                        const struct redis_words *words)
{
    return redis_appends_up(appends) && redis_conn_send(appends->conn, command, words, 1);
}
