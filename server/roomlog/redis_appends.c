#include "roomlog/redis_appends.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_reply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SHA_MAX = 64,
    NUMBER_MAX = 24,
    REASON_MAX = 192,
    OVERHEAD_MAX = 4096 /* words beside the texts */
};

/* KEYS: the room, what is remembered. ARGV: how long that is, then XADD's words after the key. */
static const char script[] = "local first = redis.call('GET', KEYS[2])\n"
                             "if first then return {first, 1} end\n"
                             "local id = redis.call('XADD', KEYS[1], unpack(ARGV, 2))\n"
                             "redis.call('SET', KEYS[2], id, 'PX', ARGV[1])\n"
                             "return {id, 0}\n";

struct redis_appends {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_appends_config config;
    const struct redis_appends_ops *ops;
    void *arg;
    struct redis_conn *conn;
    struct redis_command load;
    char sha[SHA_MAX]; /* of the script; "": not loaded on this connection */
    size_t in_flight;
    size_t bytes;     /* of their texts */
    size_t asked_for; /* of these, not cancelled */
};

/* One append on its way. The texts are copies: it may have to be sent twice. */
struct request {
    struct redis_command command;
    struct redis_appends *appends;
    struct roomlog_append *append; /* NULL: cancelled */
    struct roomlog_publish what;
    struct str key;
    bool sent_twice;
    bool ahead; /* its slot is still on the way to this Redis */
    unsigned redirects;
    char bytes[];
};

/* The words of a command, as they are put together. */
struct words {
    struct str p[REDIS_CONN_WORDS_MAX];
    size_t count;
};

static void put(struct words *words, struct str word)
{
    assert(words->count < REDIS_CONN_WORDS_MAX);
    words->p[words->count++] = word;
}

static void put_field(struct words *words, struct str name, struct str value)
{
    if (!str_present(value))
        return;
    put(words, name);
    put(words, value);
}

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

static struct request *request_create(struct redis_appends *appends, struct str key,
                                      const struct roomlog_publish *what,
                                      struct roomlog_append *append)
{
    struct request *request = xalloc(sizeof(*request) + key.len + text_bytes(what));
    *request = (struct request){.appends = appends, .append = append};
    char *at = request->bytes;
    request->key = copy(&at, key);
    request->what.type = copy(&at, what->type);
    request->what.data = copy(&at, what->data);
    request->what.from = copy(&at, what->from);
    request->what.ref = copy(&at, what->ref);
    request->what.key = copy(&at, what->key);
    return request;
}

static void request_finish(struct request *request, enum rd_err err, struct stream_id id,
                           bool duplicate)
{
    struct redis_appends *appends = request->appends;
    struct roomlog_append *append = request->append;
    appends->in_flight--;
    appends->bytes -= text_bytes(&request->what);
    free(request);
    if (append == NULL)
        return;
    appends->asked_for--;
    append->impl = NULL;
    append->done(append, err, id, duplicate);
}

/* --- commands ------------------------------------------------------------------------------- */

static bool deduplicated(const struct request *request)
{
    return request->appends->config.dedupe_ms != 0 && str_present(request->what.ref);
}

/* The id below which entries are too old. Returns its text's length; 0: no entry can be. */
static size_t oldest_kept(const struct redis_appends *appends, char *dst)
{
    uint64_t now = loop_wall_ms(appends->loop);
    if (appends->config.max_age_ms == 0 || appends->config.max_age_ms >= now)
        return 0;
    return stream_id_format((struct stream_id){now - appends->config.max_age_ms, 0}, dst);
}

/* What follows XADD and the key. `limit` is MAXLEN's, or else MINID's; XADD takes only one. */
static void put_entry(struct words *words, const struct roomlog_publish *what, struct str keyword,
                      struct str limit)
{
    if (limit.len != 0) {
        put(words, keyword);
        put(words, STR("~"));
        put(words, limit);
    }
    put(words, STR("*"));
    put_field(words, STR("type"), what->type);
    put_field(words, STR("data"), what->data);
    put_field(words, STR("from"), what->from);
    put_field(words, STR("ref"), what->ref);
    put_field(words, STR("key"), what->key);
}

/* {<key>}:ref:<length of user>:<user>:<ref>. Returns owned. The length keeps user "a:b" with ref
 * "c" and user "a" with ref "b:c" apart. */
static struct str ref_key(const struct request *request)
{
    struct str parts[] = {STR("{"), request->key,       STR("}:ref:"), {NULL, 0},
                          STR(":"), request->what.from, STR(":"),      request->what.ref};
    char number[NUMBER_MAX];
    (void)snprintf(number, sizeof(number), "%zu", request->what.from.len);
    parts[3] = str_from(number);

    size_t len = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        len += parts[i].len;
    char *text = xalloc(len);
    char *at = text;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        (void)copy(&at, parts[i]);
    return (struct str){text, len};
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply);

/* reload: with the script ahead. */
static bool request_send(struct request *request, bool reload)
{
    struct redis_appends *appends = request->appends;
    char minid[STREAM_ID_TEXT_MAX];
    char maxlen[NUMBER_MAX] = "";
    char window[NUMBER_MAX];
    struct str oldest = {minid, oldest_kept(appends, minid)};
    if (appends->config.max_entries != 0)
        (void)snprintf(maxlen, sizeof(maxlen), "%" PRIu64, appends->config.max_entries);
    struct str newest = str_from(maxlen);

    const struct str load[] = {STR("SCRIPT"), STR("LOAD"), STR(script)};
    const struct str trim[] = {STR("XTRIM"), request->key, STR("MINID"), STR("~"), oldest};
    struct words words = {.count = 0};
    struct str ref = {NULL, 0};
    if (deduplicated(request)) {
        ref = ref_key(request);
        (void)snprintf(window, sizeof(window), "%" PRIu64, appends->config.dedupe_ms);
        put(&words, STR("EVALSHA"));
        put(&words, str_from(appends->sha));
        put(&words, STR("2"));
        put(&words, request->key);
        put(&words, ref);
        put(&words, str_from(window));
    } else {
        put(&words, STR("XADD"));
        put(&words, request->key);
    }
    if (newest.len != 0)
        put_entry(&words, &request->what, STR("MAXLEN"), newest);
    else
        put_entry(&words, &request->what, STR("MINID"), oldest);

    static const struct str asking[] = {{"ASKING", 6}};
    struct redis_words commands[5];
    size_t count = 0;
    if (reload)
        commands[count++] = (struct redis_words){load, 3};
    if (newest.len != 0 && oldest.len != 0) {
        if (request->ahead)
            commands[count++] = (struct redis_words){asking, 1};
        commands[count++] = (struct redis_words){trim, 5};
    }
    if (request->ahead)
        commands[count++] = (struct redis_words){asking, 1};
    commands[count++] = (struct redis_words){words.p, words.count};
    request->command.done = on_answer;
    bool sent = redis_conn_send(appends->conn, &request->command, commands, count);
    free((char *)ref.p);
    return sent;
}

static void on_redirect(struct request *request, const struct redis_redirect *redirect)
{
    struct redis_appends *from = request->appends;
    struct redis_appends *to =
        from->ops->redirect == NULL ? NULL : from->ops->redirect(from->arg, redirect);
    if (to != NULL && ++request->redirects <= REDIS_REDIRECTS_MAX) {
        size_t bytes = text_bytes(&request->what);
        size_t asked_for = request->append != NULL ? 1 : 0;
        from->in_flight--;
        from->bytes -= bytes;
        from->asked_for -= asked_for;
        to->in_flight++;
        to->bytes += bytes;
        to->asked_for += asked_for;
        request->appends = to;
        request->ahead = redirect->kind == REDIS_REDIRECT_ASK;
        request->sent_twice = false;
        if (redis_appends_up(to) && request_send(request, false))
            return;
    }
    request_finish(request, RD_EUNAVAIL, STREAM_ID_ZERO, false);
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct request *request = RD_CONTAINER(command, struct request, command);
    struct redis_redirect redirect;
    if (reply != NULL && redis_redirect_of(reply, &redirect)) {
        on_redirect(request, &redirect);
        return;
    }
    struct stream_id id = STREAM_ID_ZERO;
    bool duplicate = false;
    if (reply == NULL) {
        request_finish(request, RD_EUNKNOWN, id, false);
        return;
    }
    if (redis_reply_appended(reply, &id, &duplicate)) {
        request_finish(request, RD_OK, id, duplicate);
        return;
    }
    if (redis_reply_is(reply, "NOSCRIPT") && !request->sent_twice) {
        request->sent_twice = true;
        if (!request_send(request, true))
            request_finish(request, RD_EUNAVAIL, id, false);
        return;
    }
    char text[REASON_MAX] = "an answer of another shape";
    bool error = redis_reply_error_text(reply, text, sizeof(text));
    logger_warn("redis refused an append", KV_TEXT("reason", text));
    /* An answer that we can't read doesn't say that nothing was appended. */
    request_finish(request, error ? redis_reply_err(reply) : RD_EUNKNOWN, id, false);
}

/* --- the connection ------------------------------------------------------------------------- */

/* SCRIPT LOAD's answer is the script's digest. */
static void on_loaded(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_appends *appends = RD_CONTAINER(command, struct redis_appends, load);
    if (reply == NULL)
        return;
    char text[REASON_MAX] = "SCRIPT LOAD got an answer that it does not have";
    (void)redis_reply_error_text(reply, text, sizeof(text));
    struct str sha;
    if (!redis_reply_text(reply, &sha) || sha.len >= sizeof(appends->sha)) {
        redis_conn_drop(appends->conn, text);
        return;
    }
    memcpy(appends->sha, sha.p, sha.len);
    appends->sha[sha.len] = '\0';
    appends->ops->up(appends->arg);
}

static void on_up(void *arg)
{
    struct redis_appends *appends = arg;
    if (appends->config.dedupe_ms == 0) {
        appends->ops->up(appends->arg);
        return;
    }
    const struct str words[] = {STR("SCRIPT"), STR("LOAD"), STR(script)};
    appends->load.done = on_loaded;
    if (!redis_conn_send(appends->conn, &appends->load, &(struct redis_words){words, 3}, 1))
        redis_conn_drop(appends->conn, "the script could not be sent");
}

static void on_down(void *arg, const char *reason)
{
    struct redis_appends *appends = arg;
    appends->sha[0] = '\0';
    appends->ops->down(appends->arg, reason);
}

static void on_closed(void *arg)
{
    struct redis_appends *appends = arg;
    const struct redis_appends_ops *ops = appends->ops;
    void *ops_arg = appends->arg;
    assert(appends->in_flight == 0);
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
    appends->ops = ops;
    appends->arg = arg;
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
    redis_conn_close(appends->conn);
}

enum rd_err redis_appends_add(struct redis_appends *appends, struct str key,
                              const struct roomlog_publish *what, struct roomlog_append *append)
{
    if (text_bytes(what) > REDIS_CONN_BYTES_MAX - OVERHEAD_MAX)
        return RD_ETOOBIG;
    if (!redis_appends_up(appends))
        return RD_EUNAVAIL;
    /* A Redis that stalls must not make us grow with what clients go on publishing. */
    if (appends->in_flight >= appends->config.max_in_flight ||
        text_bytes(what) > REDIS_CONN_BYTES_MAX - appends->bytes) {
        metrics_inc(appends->metrics, M_LOG_BUSY);
        return RD_EBUSY;
    }
    struct request *request = request_create(appends, key, what, append);
    if (!request_send(request, false)) {
        free(request);
        return RD_EUNAVAIL;
    }
    appends->in_flight++;
    appends->bytes += text_bytes(what);
    appends->asked_for++;
    append->impl = request;
    return RD_OK;
}

void redis_appends_cancel(struct roomlog_append *append)
{
    struct request *request = append->impl;
    struct redis_appends *appends = request->appends;
    request->append = NULL;
    append->impl = NULL;
    appends->asked_for--;
}

bool redis_appends_idle(const struct redis_appends *appends)
{
    return appends->asked_for == 0;
}

bool redis_appends_up(const struct redis_appends *appends)
{
    return redis_conn_is_up(appends->conn) &&
           (appends->config.dedupe_ms == 0 || appends->sha[0] != '\0');
}

bool redis_appends_send(struct redis_appends *appends, struct redis_command *command,
                        const struct redis_words *words)
{
    return redis_appends_up(appends) && redis_conn_send(appends->conn, command, words, 1);
}
