#include "roomlog/redis_reads.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_ask.h"

#include <assert.h>
#include <stdlib.h>

enum { REASON_MAX = 192 };

struct redis_reads {
    struct metrics *metrics;
    struct redis_feed *feed;
    const struct redis_reads_ops *ops;
    void *arg;
    struct redis_conn *conn;
    size_t max_in_flight;
    struct redis_state_limits state;
    size_t in_flight;
    size_t asked_for; /* of these, not cancelled */
    struct redis_reply_entries scratch;
};

/* One read on its way. */
struct request {
    struct redis_command command;
    struct redis_reads *reads;
    struct roomlog_read *read; /* one of these; both NULL: cancelled */
    struct roomlog_state *state;
    enum redis_state_step step; /* of a state */
    struct str key;
    size_t count; /* entries that it may be given */
    size_t asked; /* COUNT */
    bool fewest;  /* more than one is more than a reply may be */
    enum redis_ask_how how;
    bool ahead; /* its slot is still on the way to this Redis */
    unsigned redirects;
    char bytes[];
};

/* --- asking --------------------------------------------------------------------------------- */

static size_t count_for(const struct redis_reads *reads, struct str key,
                        const struct roomlog_read *read)
{
    size_t fits = read->max_bytes / redis_feed_entry_bytes(reads->feed, key) + 1;
    size_t most = read->from == ROOMLOG_NEWEST ? read->newest : read->max_entries;
    return fits < most ? fits : most;
}

/* One XRANGE is enough to begin with where a cursor may prove itself by it. */
static enum redis_ask_how how_to_ask(const struct roomlog_read *read)
{
    bool more = read->want_info || read->from != ROOMLOG_AFTER || stream_id_is_zero(read->after);
    return more ? REDIS_ASK_MULTI : REDIS_ASK_PLAIN;
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply);

static enum redis_reply_order order_of(const struct roomlog_read *read)
{
    return read->from == ROOMLOG_NEWEST ? REDIS_REPLY_DESCENDING : REDIS_REPLY_ASCENDING;
}

static bool request_send_state(struct request *request)
{
    struct redis_state_ask ask;
    redis_state_ask(&ask, request->step, request->key);
    static const struct str asking[] = {{"ASKING", 6}};
    const struct redis_words both[] = {{asking, 1}, ask.command};
    unsigned from = request->ahead ? 0 : 1;
    bool sent = redis_conn_send(request->reads->conn, &request->command, &both[from], 2 - from);
    redis_state_ask_fini(&ask);
    return sent;
}

static bool request_send(struct request *request)
{
    const struct roomlog_read *read = request->read;
    struct redis_ask ask;
    request->command.done = on_answer;
    if (request->state != NULL)
        return request_send_state(request);
    /* Beside the page: the cursor's own entry, or the one before the newest; and one behind, which
     * tells whether the page is at the end. */
    request->asked = request->count + (read->from == ROOMLOG_AFTER ? 2 : 1);
    if (read->from == ROOMLOG_HEAD)
        redis_ask_info(&ask, request->key);
    else
        redis_ask_range(&ask, request->how,
                        &(struct redis_ask_range){
                            .key = request->key,
                            .order = order_of(read),
                            .from = read->from == ROOMLOG_AFTER ? read->after : STREAM_ID_ZERO,
                            .count = request->asked});
    if (request->ahead)
        redis_ask_ahead(&ask);
    return redis_conn_send(request->reads->conn, &request->command, ask.commands, ask.count);
}

/* --- answering ------------------------------------------------------------------------------ */

static void request_finish(struct request *request, enum rd_err err,
                           const struct roomlog_page *page)
{
    struct redis_reads *reads = request->reads;
    struct roomlog_read *read = request->read;
    reads->in_flight--;
    free(request);
    if (read == NULL)
        return;
    reads->asked_for--;
    read->impl = NULL;
    read->done(read, err, page);
}

static void request_finish_state(struct request *request, enum rd_err err,
                                 const struct roomlog_state_view *view)
{
    struct redis_reads *reads = request->reads;
    struct roomlog_state *state = request->state;
    reads->in_flight--;
    reads->asked_for--;
    free(request);
    state->impl = NULL;
    state->done(state, err, view);
}

/* The same once more, with more effort. */
static void ask_again(struct request *request, enum redis_ask_how how)
{
    request->how = how;
    if (!request_send(request))
        request_finish(request, RD_EUNAVAIL, NULL);
}

static void request_fail(struct request *request, const struct redis_reply *reply, enum rd_err err)
{
    char text[REASON_MAX];
    if (redis_reply_error_text(reply, text, sizeof(text)))
        logger_warn("redis refused a read", KV_TEXT("reason", text));
    else
        logger_warn("redis refused a read", KV_TEXT("reason", rd_err_text(err)));
    request_finish(request, err, NULL);
}

/* May one more entry be given, beside `count` of `bytes` together? */
static bool takes(const struct request *request, size_t count, size_t bytes, size_t more)
{
    size_t max_bytes = request->read->max_bytes;
    return count == 0 ||
           (count < request->count && bytes <= max_bytes && more <= max_bytes - bytes);
}

/* Cuts what came, from place `at` on, to what may be given. */
static void cut(struct request *request, size_t at, struct roomlog_page *page)
{
    const struct redis_reply_entries *scratch = &request->reads->scratch;
    size_t came = scratch->count - at;
    size_t bytes = 0;
    page->entries = came == 0 ? NULL : &scratch->p[at];
    for (; page->count < came; page->count++) {
        size_t len = roomlog_entry_bytes(&page->entries[page->count]);
        if (!takes(request, page->count, bytes, len))
            break;
        bytes += len;
    }
    page->at_end = page->count == came && scratch->count < request->asked;
    redis_feed_learn(request->reads->feed, request->key, page->count, bytes);
}

/* After a cursor that holds. */
static void cut_after(struct request *request, struct roomlog_page *page)
{
    struct redis_reply_entries *scratch = &request->reads->scratch;
    struct stream_id after = request->read->after;
    size_t at = scratch->count != 0 && stream_id_eq(scratch->p[0].id, after) ? 1 : 0;
    if (at < scratch->count) {
        scratch->p[at].prev = after;
        scratch->p[at].prev_known = true;
    }
    cut(request, at, page);
}

/* Everything, by MULTI. */
static void cut_all(struct request *request, struct roomlog_page *page)
{
    struct redis_reply_entries *scratch = &request->reads->scratch;
    /* Where nothing was ever removed, the first that is there is the very first, which is chained
     * to 0-0. */
    if (scratch->count != 0)
        scratch->p[0].prev_known = verdict_complete(&page->info);
    cut(request, 0, page);
}

/* The newest, by MULTI. False: more of them may fit than were asked for; request->count is what to
 * ask for now. */
static bool cut_newest(struct request *request, struct roomlog_page *page)
{
    struct redis_reply_entries *scratch = &request->reads->scratch;
    const struct roomlog_read *read = request->read;
    size_t at = scratch->count;
    size_t bytes = 0;
    for (; at != 0; at--) {
        size_t len = roomlog_entry_bytes(&scratch->p[at - 1]);
        if (!takes(request, scratch->count - at, bytes, len))
            break;
        bytes += len;
    }
    page->count = scratch->count - at;
    page->entries = page->count == 0 ? NULL : &scratch->p[at];
    page->at_end = true;
    redis_feed_learn(request->reads->feed, request->key, page->count, bytes);

    /* There is one before these, so it isn't the bytes but their number that ended the page. */
    if (at != 0 && page->count == request->count && page->count < read->newest &&
        !request->fewest && bytes < read->max_bytes &&
        roomlog_entry_bytes(&scratch->p[at - 1]) <= read->max_bytes - bytes) {
        request->count = 2 * page->count < read->newest ? 2 * page->count : read->newest;
        return false;
    }
    /* As in cut_all: what came is all there is. */
    if (at == 0 && page->count != 0)
        scratch->p[0].prev_known = verdict_complete(&page->info);
    return true;
}

static void on_exec(struct request *request, const struct redis_reply *reply)
{
    struct redis_reply_entries *scratch = &request->reads->scratch;
    struct roomlog_page page = {.verdict = VERDICT_OK};
    enum rd_err err;
    size_t bytes;
    if (request->how == REDIS_ASK_MULTI && redis_reply_exec_refused(reply)) {
        ask_again(request, REDIS_ASK_SCRIPT);
        return;
    }
    if (!redis_reply_exec(reply, order_of(request->read), &page.info, &bytes, scratch, &err)) {
        request_fail(request, reply, err);
        return;
    }
    if (request->read->from == ROOMLOG_NEWEST) {
        if (cut_newest(request, &page))
            request_finish(request, RD_OK, &page);
        else
            ask_again(request, request->how);
        return;
    }
    if (request->read->from == ROOMLOG_ALL) {
        cut_all(request, &page);
        request_finish(request, RD_OK, &page);
        return;
    }
    page.verdict = verdict_of(request->read->after, scratch->count != 0 ? &scratch->p[0].id : NULL,
                              &page.info);
    if (page.verdict == VERDICT_OK)
        cut_after(request, &page);
    request_finish(request, RD_OK, &page);
}

static void on_info(struct request *request, const struct redis_reply *reply)
{
    struct roomlog_page page = {.verdict = VERDICT_OK, .at_end = true};
    size_t bytes;
    if (redis_reply_info(reply, &page.info, &bytes)) {
        request_finish(request, RD_OK, &page);
        return;
    }
    enum rd_err err = redis_reply_err(reply);
    request_fail(request, reply, err == RD_OK ? RD_ELOG : err);
}

static void on_range(struct request *request, const struct redis_reply *reply)
{
    struct redis_reply_entries *scratch = &request->reads->scratch;
    struct roomlog_page page = {.verdict = VERDICT_OK};
    if (!redis_reply_range(reply, REDIS_REPLY_ASCENDING, scratch)) {
        enum rd_err err = redis_reply_err(reply);
        request_fail(request, reply, err == RD_OK ? RD_ELOG : err);
        return;
    }
    if (scratch->count == 0 || !stream_id_eq(scratch->p[0].id, request->read->after)) {
        ask_again(request, REDIS_ASK_MULTI); /* no proof: why? */
        return;
    }
    cut_after(request, &page);
    request_finish(request, RD_OK, &page);
}

/* --- states --------------------------------------------------------------------------------- */

static void state_fail(struct request *request, const struct redis_reply *reply)
{
    char text[REASON_MAX] = "an answer of another shape";
    enum rd_err err = redis_reply_err(reply);
    (void)redis_reply_error_text(reply, text, sizeof(text));
    logger_warn("redis refused a read of a state", KV_TEXT("reason", text));
    request_finish_state(request, err == RD_OK ? RD_ELOG : err, NULL);
}

static void on_state_guard(struct request *request, const struct redis_reply *reply)
{
    const struct roomlog_state_view empty = {.count = 0};
    switch (redis_state_guard(reply, &request->reads->state)) {
    case REDIS_STATE_EMPTY:
        request_finish_state(request, RD_OK, &empty);
        break;
    case REDIS_STATE_LARGE:
        metrics_inc(request->reads->metrics, M_STATES_TOO_LARGE);
        logger_warn("a room's state is too large to be read", KV_STR("key", request->key));
        request_finish_state(request, RD_ETOOBIG, NULL);
        break;
    case REDIS_STATE_BAD:
        state_fail(request, reply);
        break;
    case REDIS_STATE_READ:
        request->step = REDIS_STATE_ALL;
        if (!request_send(request))
            request_finish_state(request, RD_EUNAVAIL, NULL);
        break;
    }
}

static void on_state(struct request *request, const struct redis_reply *reply)
{
    struct redis_state state;
    if (request->step == REDIS_STATE_GUARD) {
        on_state_guard(request, reply);
        return;
    }
    if (redis_state_take(reply, &state)) {
        if (state.odd != 0)
            logger_warn("a room's state has fields that are not ours", KV_STR("key", request->key),
                        KV_NUM("fields", state.odd));
        request_finish_state(request, RD_OK, &state.view);
    } else {
        state_fail(request, reply);
    }
    redis_state_fini(&state);
}

static void ask_for_one(struct request *request)
{
    request->fewest = true;
    request->count = 1;
    ask_again(request, request->how);
}

static void request_unavailable(struct request *request)
{
    if (request->state != NULL)
        request_finish_state(request, RD_EUNAVAIL, NULL);
    else
        request_finish(request, RD_EUNAVAIL, NULL);
}

/* Somebody asks for it. */
static bool wanted(const struct request *request)
{
    return request->read != NULL || request->state != NULL;
}

static void on_redirect(struct request *request, const struct redis_redirect *redirect)
{
    struct redis_reads *from = request->reads;
    struct redis_reads *to =
        from->ops->redirect == NULL ? NULL : from->ops->redirect(from->arg, redirect);
    if (to == NULL || ++request->redirects > REDIS_REDIRECTS_MAX) {
        request_unavailable(request);
        return;
    }
    from->in_flight--;
    from->asked_for--;
    to->in_flight++;
    to->asked_for++;
    request->reads = to;
    request->ahead = redirect->kind == REDIS_REDIRECT_ASK;
    if (!request_send(request))
        request_unavailable(request);
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct request *request = RD_CONTAINER(command, struct request, command);
    struct redis_redirect redirect;
    if (reply != NULL && wanted(request) && redis_redirect_of(reply, &redirect))
        on_redirect(request, &redirect);
    else if (request->state != NULL && reply == NULL)
        request_finish_state(request, RD_EUNAVAIL, NULL);
    else if (request->state != NULL)
        on_state(request, reply);
    else if (reply == NULL || request->read == NULL)
        request_finish(request, RD_EUNAVAIL, NULL);
    else if (request->read->from == ROOMLOG_HEAD)
        on_info(request, reply);
    else if (request->count > 1 && redis_reply_err(reply) == RD_ETOOBIG)
        ask_for_one(request);
    else if (request->how == REDIS_ASK_PLAIN)
        on_range(request, reply);
    else
        on_exec(request, reply);
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_up(void *arg)
{
    struct redis_reads *reads = arg;
    reads->ops->up(reads->arg);
}

static void on_down(void *arg, const char *reason)
{
    struct redis_reads *reads = arg;
    reads->ops->down(reads->arg, reason);
}

static void on_closed(void *arg)
{
    struct redis_reads *reads = arg;
    const struct redis_reads_ops *ops = reads->ops;
    void *ops_arg = reads->arg;
    assert(reads->in_flight == 0);
    redis_reply_entries_fini(&reads->scratch);
    free(reads);
    ops->closed(ops_arg);
}

static const struct redis_conn_ops conn_ops = {.up = on_up, .down = on_down, .closed = on_closed};

struct redis_reads *redis_reads_open(struct loop *loop, struct metrics *metrics,
                                     struct redis_feed *feed,
                                     const struct redis_reads_config *config,
                                     const struct redis_reads_ops *ops, void *arg)
{
    struct redis_reads *reads = xalloc_zero(sizeof(*reads));
    reads->metrics = metrics;
    reads->feed = feed;
    reads->ops = ops;
    reads->arg = arg;
    reads->max_in_flight = config->max_in_flight;
    reads->state = config->state;
    const struct redis_conn_config conn = {.url = config->url,
                                           .finder = config->finder,
                                           .name = "roomd-read",
                                           .connect_ms = config->connect_ms,
                                           .command_ms = config->command_ms};
    reads->conn = redis_conn_open(loop, metrics, &conn, &conn_ops, reads);
    return reads;
}

void redis_reads_close(struct redis_reads *reads)
{
    assert(reads->asked_for == 0);
    redis_conn_close(reads->conn);
}

static enum rd_err admit(struct redis_reads *reads)
{
    if (!redis_reads_up(reads))
        return RD_EUNAVAIL;
    if (reads->in_flight < reads->max_in_flight)
        return RD_OK;
    metrics_inc(reads->metrics, M_LOG_BUSY);
    return RD_EBUSY;
}

static struct request *request_create(struct redis_reads *reads, struct str key)
{
    struct request *request = xalloc(sizeof(*request) + key.len);
    *request = (struct request){.reads = reads};
    memcpy(request->bytes, key.p, key.len);
    request->key = (struct str){request->bytes, key.len};
    return request;
}

/* Frees it where it can't be sent. */
static enum rd_err request_start(struct request *request, void **out_impl)
{
    if (!request_send(request)) {
        free(request);
        return RD_EUNAVAIL;
    }
    request->reads->in_flight++;
    request->reads->asked_for++;
    *out_impl = request;
    return RD_OK;
}

enum rd_err redis_reads_add(struct redis_reads *reads, struct str key, struct roomlog_read *read)
{
    enum rd_err err = admit(reads);
    if (err != RD_OK)
        return err;
    struct request *request = request_create(reads, key);
    request->read = read;
    request->how = how_to_ask(read);
    request->count = count_for(reads, key, read);
    return request_start(request, &read->impl);
}

enum rd_err redis_reads_state(struct redis_reads *reads, struct str key,
                              struct roomlog_state *state)
{
    enum rd_err err = admit(reads);
    if (err != RD_OK)
        return err;
    struct request *request = request_create(reads, key);
    request->state = state;
    request->step = REDIS_STATE_GUARD;
    return request_start(request, &state->impl);
}

void redis_reads_cancel_state(struct roomlog_state *state)
{
    struct request *request = state->impl;
    struct redis_reads *reads = request->reads;
    request->state = NULL;
    state->impl = NULL;
    reads->asked_for--;
}

void redis_reads_cancel(struct roomlog_read *read)
{
    struct request *request = read->impl;
    struct redis_reads *reads = request->reads;
    request->read = NULL;
    read->impl = NULL;
    reads->asked_for--;
}

bool redis_reads_idle(const struct redis_reads *reads)
{
    return reads->asked_for == 0;
}

bool redis_reads_up(const struct redis_reads *reads)
{
    return redis_conn_is_up(reads->conn);
}
