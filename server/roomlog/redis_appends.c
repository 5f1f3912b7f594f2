#include "roomlog/redis_appends.h"

#include "base/logger.h"
#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_ready.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    REASON_MAX = 192,
    BUCKETS = 1024, /* of rooms */
    TRIES_MAX = 3   /* of one request, where Redis has not done it */
};

/*      DOWN --> GETTING_READY --> OPEN <--> HALTED
 *       ^             |            |           |
 *       +-------------+------------+-----------+
 *
 * HALTED: Redis has not done some of what it was sent. Nothing is sent until all of that is
 * answered; then what isn't so is put right. */
enum phase { DOWN, GETTING_READY, OPEN, HALTED, PHASES };

#define TO(phase) (1u << (phase))
static const unsigned phase_moves[PHASES] = {
    [DOWN] = TO(GETTING_READY),
    [GETTING_READY] = TO(OPEN) | TO(DOWN),
    [OPEN] = TO(HALTED) | TO(DOWN),
    [HALTED] = TO(OPEN) | TO(DOWN),
};

/*   WAITING --> SENT --> (answered)
 *     ^  ^       |  \--> HELD, until WAIT is answered --> (answered)
 *     |  +-------+ another Redis is to be asked
 *     +-- AGAIN, until all that was sent is answered
 */
enum stage { WAITING, SENT, HELD, AGAIN, STAGES };

static const unsigned stage_moves[STAGES] = {
    [WAITING] = TO(SENT),
    [SENT] = TO(WAITING) | TO(HELD) | TO(AGAIN),
    [HELD] = 0,
    [AGAIN] = TO(WAITING),
};
#undef TO

struct redis_appends {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_appends_config config;
    const struct redis_appends_ops *ops;
    void *arg;
    struct redis_conn *conn;
    struct redis_ready ready;

    enum phase phase;
    bool leave; /* HALTED: for another connection; else for the script */
    bool closing;
    struct list waiting, held, again; /* each in order */
    size_t sent;
    size_t in_flight; /* all of them */
    size_t bytes;     /* of their texts */
    size_t asked_for; /* of these, not cancelled */
    uint64_t seed[2];
    uint32_t scripted[BUCKETS]; /* of each bucket of rooms: sent as scripts */

    struct loop_timer expiry;
    struct loop_task commit;
    struct redis_command wait;
    bool committing; /* WAIT is not answered yet */
    bool undurable;  /* the last answer to it was too few */
};

/* The texts are copies: it may have to be sent twice. */
struct redis_appends_request {
    struct redis_command command;
    struct list link;
    struct redis_appends *appends;
    struct roomlog_append *append; /* NULL: cancelled */
    struct roomlog_publish what;
    struct str key;
    enum stage stage;
    unsigned bucket;
    unsigned tries, redirects;
    bool scripted, asking;
    uint64_t due_ms;                   /* of waiting without a connection; 0: there has been one */
    struct redis_script_answer answer; /* HELD */
    char bytes[];
};

static void pump(struct redis_appends *appends);

/* --- requests ------------------------------------------------------------------------------- */

static struct str copy(char **at, struct str text)
{
    if (!str_present(text))
        return text;
    if (text.len != 0)
        memcpy(*at, text.p, text.len);
    struct str copied = {*at, text.len};
    *at += text.len;
    return copied;
}

static size_t text_bytes(const struct roomlog_publish *what)
{
    return what->type.len + what->data.len + what->from.len + what->ref.len + what->key.len;
}

/* Counts it where it is from now on. */
static void enter(struct redis_appends *appends, struct redis_appends_request *request)
{
    request->appends = appends;
    request->bucket = (unsigned)(strmap_hash(request->key, appends->seed) % BUCKETS);
    appends->in_flight++;
    appends->bytes += text_bytes(&request->what);
    appends->asked_for += request->append != NULL;
}

static void leave(struct redis_appends_request *request)
{
    struct redis_appends *appends = request->appends;
    appends->in_flight--;
    appends->bytes -= text_bytes(&request->what);
    appends->asked_for -= request->append != NULL;
}

static struct redis_appends_request *request_create(struct redis_appends *appends, struct str key,
                                                    const struct roomlog_publish *what,
                                                    struct roomlog_append *append)
{
    struct redis_appends_request *request = xalloc(sizeof(*request) + key.len + text_bytes(what));
    *request = (struct redis_appends_request){.append = append, .stage = WAITING};
    list_init(&request->link);
    char *at = request->bytes;
    request->key = copy(&at, key);
    request->what.type = copy(&at, what->type);
    request->what.data = copy(&at, what->data);
    request->what.from = copy(&at, what->from);
    request->what.ref = copy(&at, what->ref);
    request->what.key = copy(&at, what->key);
    enter(appends, request);
    return request;
}

static void request_move(struct redis_appends_request *request, enum stage stage)
{
    struct redis_appends *appends = request->appends;
    assert((stage_moves[request->stage] & (1u << stage)) != 0);
    if (request->stage == WAITING)
        metrics_dec(appends->metrics, M_PUBLISHES_WAITING);
    request->stage = stage;
    list_remove(&request->link);
}

static void wait_here(struct redis_appends_request *request)
{
    request->due_ms = 0;
    metrics_inc(request->appends->metrics, M_PUBLISHES_WAITING);
    list_push_back(&request->appends->waiting, &request->link);
}

static void request_finish(struct redis_appends_request *request, enum rd_err err)
{
    struct roomlog_append *append = request->append;
    struct redis_script_answer answer = request->answer;
    if (request->stage == WAITING)
        metrics_dec(request->appends->metrics, M_PUBLISHES_WAITING);
    list_remove(&request->link);
    leave(request);
    free(request);
    if (append == NULL)
        return;
    append->impl = NULL;
    append->done(append, err, err == RD_OK ? answer.id : STREAM_ID_ZERO,
                 err == RD_OK && answer.duplicate);
}

/* --- waiting -------------------------------------------------------------------------------- */

static bool connected(const struct redis_appends *appends)
{
    return appends->phase == OPEN || appends->phase == HALTED;
}

static void on_expiry(void *arg);

static void arm_expiry(struct redis_appends *appends)
{
    if (connected(appends) || list_empty(&appends->waiting)) {
        loop_timer_stop(appends->loop, &appends->expiry);
        return;
    }
    const struct redis_appends_request *first =
        LIST_ITEM(appends->waiting.next, struct redis_appends_request, link);
    uint64_t now = loop_now_ms(appends->loop);
    uint64_t wait = first->due_ms > now ? first->due_ms - now : 0;
    loop_timer_start(appends->loop, &appends->expiry, wait, on_expiry, appends);
}

static void on_expiry(void *arg)
{
    struct redis_appends *appends = arg;
    uint64_t now = loop_now_ms(appends->loop);
    while (!list_empty(&appends->waiting)) {
        struct redis_appends_request *first =
            LIST_ITEM(appends->waiting.next, struct redis_appends_request, link);
        if (first->due_ms > now)
            break;
        metrics_inc(appends->metrics, M_PUBLISHES_EXPIRED);
        request_finish(first, RD_EUNAVAIL);
    }
    if (!appends->closing)
        arm_expiry(appends);
}

/* From now on, for those that have not begun to be. */
static void begin_expiry(struct redis_appends *appends)
{
    uint64_t due_ms = loop_now_ms(appends->loop) + appends->config.wait_ms;
    for (struct list *at = appends->waiting.next; at != &appends->waiting; at = at->next) {
        struct redis_appends_request *request = LIST_ITEM(at, struct redis_appends_request, link);
        if (request->due_ms == 0)
            request->due_ms = due_ms;
    }
    arm_expiry(appends);
}

/* --- halting -------------------------------------------------------------------------------- */

static void phase_move(struct redis_appends *appends, enum phase phase)
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
        request_move(request, WAITING);
        wait_here(request);
    }
    list_move_all(&appends->waiting, &later);
}

/* Is all that was sent answered? Then what isn't so is put right. */
static void go_on(struct redis_appends *appends)
{
    if (appends->phase != HALTED || appends->sent != 0 || appends->committing || appends->closing)
        return;
    take_again(appends);
    if (appends->leave) {
        redis_conn_drop(appends->conn, "this is no master any more");
        return;
    }
    phase_move(appends, OPEN);
    redis_ready_reload(&appends->ready); /* its answer comes before those of what is sent now */
    pump(appends);
}

/* Redis has not done it, and can't do what comes behind it either. */
static void halt(struct redis_appends_request *request, bool for_another)
{
    struct redis_appends *appends = request->appends;
    request_move(request, AGAIN);
    list_push_back(&appends->again, &request->link);
    if (appends->phase == OPEN) {
        phase_move(appends, HALTED);
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
        request_finish(LIST_ITEM(held.next, struct redis_appends_request, link),
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
    const struct redis_script_how how = {.sha = script ? str_from(appends->ready.sha)
                                                       : (struct str){NULL, 0},
                                         .asking = request->asking,
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
    request_move(request, SENT);
    request->scripted = script;
    appends->scripted[request->bucket] += script;
    appends->sent++;
    return true;
}

static void pump(struct redis_appends *appends)
{
    while (appends->phase == OPEN && !appends->committing && !list_empty(&appends->waiting))
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
    request_finish(request, err);
}

/* Waits for its turn at another Redis from here on. */
static void move_to(struct redis_appends_request *request, struct redis_appends *to, bool asking)
{
    request_move(request, WAITING);
    leave(request);
    enter(to, request);
    request->asking = asking;
    wait_here(request);
    if (connected(to))
        pump(to);
    else
        begin_expiry(to);
}

static bool send_elsewhere(struct redis_appends_request *request, const struct redis_reply *reply)
{
    struct redis_appends *from = request->appends;
    struct redis_redirect redirect;
    if (!redis_redirect_of(reply, &redirect))
        return false;
    struct redis_appends *to =
        from->ops->redirect == NULL ? NULL : from->ops->redirect(from->arg, &redirect);
    if (to == NULL || ++request->redirects > REDIS_REDIRECTS_MAX)
        request_finish(request, RD_EUNAVAIL);
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
        request_finish(request, RD_OK);
        return;
    }
    request_move(request, HELD);
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
        request_finish(request, RD_EUNKNOWN);
    else
        take_answer(request, reply);
}

/* --- the connection ------------------------------------------------------------------------- */

static void on_ready(void *arg)
{
    struct redis_appends *appends = arg;
    if (appends->phase != GETTING_READY) /* the script was loaded again */
        return;
    phase_move(appends, OPEN);
    arm_expiry(appends);
    pump(appends);
    appends->ops->up(appends->arg);
}

static void on_up(void *arg)
{
    struct redis_appends *appends = arg;
    phase_move(appends, GETTING_READY);
    redis_ready_start(&appends->ready, appends->conn);
}

static void on_down(void *arg, const char *reason)
{
    struct redis_appends *appends = arg;
    redis_ready_stop(&appends->ready);
    loop_cancel(&appends->commit);
    take_again(appends);
    if (appends->phase != DOWN)
        phase_move(appends, DOWN);
    begin_expiry(appends);
    appends->ops->down(appends->arg, reason);
}

static void on_closed(void *arg)
{
    struct redis_appends *appends = arg;
    const struct redis_appends_ops *ops = appends->ops;
    void *ops_arg = appends->arg;
    take_again(appends);
    while (!list_empty(&appends->waiting))
        request_finish(LIST_ITEM(appends->waiting.next, struct redis_appends_request, link),
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

enum rd_err redis_appends_add(struct redis_appends *appends, struct str key,
                              const struct roomlog_publish *what, struct roomlog_append *append)
{
    if (redis_script_bytes_max(key, what) > REDIS_CONN_BYTES_MAX)
        return RD_ETOOBIG;
    if (appends->config.wait_ms == 0 && !redis_appends_up(appends))
        return RD_EUNAVAIL;
    /* A Redis that stalls must not make us grow with what clients go on publishing. */
    if (appends->in_flight >= appends->config.max_in_flight ||
        appends->bytes + text_bytes(what) > REDIS_CONN_BYTES_MAX) {
        metrics_inc(appends->metrics, M_LOG_BUSY);
        return RD_EBUSY;
    }
    struct redis_appends_request *request = request_create(appends, key, what, append);
    append->impl = request;
    wait_here(request);
    if (connected(appends))
        pump(appends);
    else
        begin_expiry(appends);
    return RD_OK;
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
    return appends->asked_for == 0;
}

bool redis_appends_up(const struct redis_appends *appends)
{
    return connected(appends) && redis_conn_is_up(appends->conn);
}

bool redis_appends_send(struct redis_appends *appends, struct redis_command *command,
                        const struct redis_words *words)
{
    return redis_appends_up(appends) && redis_conn_send(appends->conn, command, words, 1);
}
