/* A redis-server of its own; what is done to it goes over a connection of the test's, pipelined. */
#include "base/xalloc.h"
#include "roomlog/roomlog_redis.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"
#include "tests/model/log_store.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_MS = 20000, KEY_MAX = 48, NUMBER_MAX = 24, WORDS_MAX = 10 };

static struct redis_server server;
static redisContext *wire; /* blocking, and ours */
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *log_there;

/* Check's own assertions write a file each: too dear for each command. */
static void need(bool truth, const char *what)
{
    if (!truth)
        ck_abort_msg("redis: %s", what == NULL ? "an answer of another shape" : what);
}

/* --- asking --------------------------------------------------------------------------------- */

struct words {
    const char *p[WORDS_MAX];
    size_t len[WORDS_MAX];
    int count;
    char id[STREAM_ID_TEXT_MAX + 1];
    char number[NUMBER_MAX];
    char tag[NUMBER_MAX];
};

static void put(struct words *words, const char *word)
{
    words->p[words->count] = word;
    words->len[words->count++] = strlen(word);
}

static void put_id(struct words *words, struct stream_id id)
{
    words->id[stream_id_format(id, words->id)] = '\0';
    put(words, words->id);
}

/* Sends them; its answer is to be taken later. */
static void send_words(const struct words *words)
{
    int rc =
        redisAppendCommandArgv(wire, words->count, (const char **)(void *)words->p, words->len);
    need(rc == REDIS_OK, wire->errstr);
}

static void send_word(const char *word)
{
    struct words words = {.count = 0};
    put(&words, word);
    send_words(&words);
}

static void put_bound(struct words *words, const struct log_history_op *op)
{
    bool by_id = op->kind == LOG_HISTORY_TRIM_MINID;
    put(words, by_id ? "MINID" : "MAXLEN");
    put(words, op->exact ? "=" : "~");
    if (by_id) {
        put_id(words, op->id);
        return;
    }
    (void)snprintf(words->number, sizeof(words->number), "%" PRIu64, op->number);
    put(words, words->number);
}

static void put_entry(struct words *words, const struct log_history_op *op)
{
    if (op->kind == LOG_HISTORY_ADD_MAXLEN)
        put_bound(words, op);
    put_id(words, op->id);
    put(words, "data");
    (void)snprintf(words->tag, sizeof(words->tag), "%" PRIu32, op->tag);
    put(words, words->tag);
}

static void put_copy(struct words *words, const struct log_history_saved *saved)
{
    if (saved->blob == NULL)
        return; /* there was no room: DEL */
    put(words, "0");
    words->p[words->count] = saved->blob;
    words->len[words->count++] = saved->blob_len;
    put(words, "REPLACE");
}

static const char *verb(const struct log_history *h, const struct log_history_op *op)
{
    static const char *const verbs[LOG_HISTORY_KINDS] = {
        [LOG_HISTORY_ADD] = "XADD",          [LOG_HISTORY_ADD_MAXLEN] = "XADD",
        [LOG_HISTORY_TRIM_MAXLEN] = "XTRIM", [LOG_HISTORY_TRIM_MINID] = "XTRIM",
        [LOG_HISTORY_DELETE] = "XDEL",       [LOG_HISTORY_SET_ID] = "XSETID",
        [LOG_HISTORY_RESET] = "DEL",         [LOG_HISTORY_SAVE] = "DUMP",
        [LOG_HISTORY_FAIL_OVER] = "RESTORE"};
    bool nothing = op->kind == LOG_HISTORY_FAIL_OVER && h->saved[op->slot].blob == NULL;
    return nothing ? "DEL" : verbs[op->kind];
}

static void send_op(const struct log_history *h, const struct log_history_op *op, const char *key)
{
    struct words words = {.count = 0};
    put(&words, verb(h, op));
    put(&words, key);
    switch (op->kind) {
    case LOG_HISTORY_ADD:
    case LOG_HISTORY_ADD_MAXLEN:
        put_entry(&words, op);
        break;
    case LOG_HISTORY_TRIM_MAXLEN:
    case LOG_HISTORY_TRIM_MINID:
        put_bound(&words, op);
        break;
    case LOG_HISTORY_DELETE:
    case LOG_HISTORY_SET_ID:
        put_id(&words, op->id);
        break;
    case LOG_HISTORY_FAIL_OVER:
        put_copy(&words, &h->saved[op->slot]);
        break;
    default:
        break;
    }
    send_words(&words);
}

/* One transaction: a feed hears of all of it at once. Behind each op, how long the stream is. */
static void send_round(const struct log_history *h)
{
    char key[KEY_MAX];
    (void)snprintf(key, sizeof(key), "room:%s", h->room);
    send_word("MULTI");
    for (size_t i = 0; i < h->count; i++) {
        struct words length = {.count = 0};
        send_op(h, &h->ops[i], key);
        put(&length, "XLEN");
        put(&length, key);
        send_words(&length);
    }
    send_word("EXEC");
}

/* --- answers -------------------------------------------------------------------------------- */

/* Returns owned. */
static redisReply *next_reply(void)
{
    void *reply = NULL;
    need(redisGetReply(wire, &reply) == REDIS_OK, wire->errstr);
    return reply;
}

/* Takes the blob out of the reply. */
static char *blob_of(redisReply *reply, size_t *out_len)
{
    char *blob = NULL;
    *out_len = 0;
    if (reply->type == REDIS_REPLY_STRING) {
        *out_len = reply->len;
        blob = xalloc(reply->len);
        memcpy(blob, reply->str, reply->len);
    }
    return blob;
}

static void op_done(struct log_history *h, const struct log_history_op *op, redisReply *reply,
                    uint64_t length)
{
    size_t len;
    if (reply->type == REDIS_REPLY_ERROR) {
        /* Only an id may be refused: it is too small, or there is no room. */
        need(op->kind == LOG_HISTORY_ADD || op->kind == LOG_HISTORY_ADD_MAXLEN ||
                 op->kind == LOG_HISTORY_SET_ID,
             reply->str);
        return;
    }
    switch (op->kind) {
    case LOG_HISTORY_ADD:
    case LOG_HISTORY_ADD_MAXLEN:
        log_history_added(h, op, length);
        break;
    case LOG_HISTORY_TRIM_MAXLEN:
    case LOG_HISTORY_TRIM_MINID:
        log_history_trimmed(h, (uint64_t)reply->integer);
        break;
    case LOG_HISTORY_DELETE:
        if (reply->integer == 1)
            log_history_deleted(h, op);
        break;
    case LOG_HISTORY_SET_ID:
        log_history_set(h, op);
        break;
    case LOG_HISTORY_RESET:
        log_history_was_reset(h);
        break;
    case LOG_HISTORY_SAVE: {
        char *blob = blob_of(reply, &len);
        log_history_saved_as(h, op, blob, len);
        break;
    }
    case LOG_HISTORY_FAIL_OVER:
        log_history_failed_over(h, op);
        break;
    default:
        break;
    }
}

static void take_round(struct log_history *h)
{
    for (size_t i = 0; i < 1 + 2 * h->count; i++) {
        redisReply *reply = next_reply();
        need(reply->type == REDIS_REPLY_STATUS, reply->str);
        freeReplyObject(reply);
    }
    redisReply *exec = next_reply();
    need(exec->type == REDIS_REPLY_ARRAY && exec->elements == 2 * h->count, exec->str);
    for (size_t i = 0; i < h->count; i++)
        op_done(h, &h->ops[i], exec->element[2 * i], (uint64_t)exec->element[2 * i + 1]->integer);
    freeReplyObject(exec);
}

static void apply(struct log_history *histories, size_t count)
{
    for (size_t i = 0; i < count; i++)
        send_round(&histories[i]);
    for (size_t i = 0; i < count; i++)
        take_round(&histories[i]);
}

/* --- life ----------------------------------------------------------------------------------- */

static bool run(bool (*done)(void *arg), void *arg)
{
    return poll_loop_run(&loop, LIMIT_MS, done, arg);
}

static bool ready(void *arg)
{
    (void)arg;
    return roomlog_ready(log_there);
}

static struct roomlog *open_log(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    redis_server_start(&server, NULL);
    wire = redisConnectUnix(server.socket);
    ck_assert_ptr_nonnull(wire);
    ck_assert_int_eq(wire->err, 0);
    poll_loop_init(&loop);
    log_there = roomlog_redis_create(&loop.loop, &metrics,
                                     &(struct roomlog_redis_config){.url = server.url,
                                                                    .prefix = "room:",
                                                                    .live = ROOMLOG_REDIS_AUTO,
                                                                    .poll_ms = 1000,
                                                                    .connect_ms = 3000,
                                                                    .command_ms = 5000,
                                                                    .max_appends = 16,
                                                                    .max_reads = 4096});
    ck_assert_ptr_nonnull(log_there);
    ck_assert(run(ready, NULL));
    return log_there;
}

static void close_log(void)
{
    roomlog_close(log_there);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    poll_loop_fini(&loop);
    redisFree(wire);
    redis_server_hang_up(&server);
    redis_server_end(&server);
}

static void begin(unsigned node_entries)
{
    redis_server_do(&server, "FLUSHALL");
    redis_server_do(&server, "CONFIG SET stream-node-max-entries %u", node_entries);
}

const struct log_store log_store_redis = {
    .can = (1u << LOG_HISTORY_KINDS) - 1,
    .can_follow = true,
    .open = open_log,
    .close = close_log,
    .begin = begin,
    .apply = apply,
    .run = run,
};
