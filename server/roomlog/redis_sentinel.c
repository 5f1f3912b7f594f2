#include "roomlog/redis_sentinel.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_reply.h"

#include <stdio.h>
#include <stdlib.h>

enum { REASON_MAX = 512, NUMBER_MAX = 8 };

#define CHANNEL STR("+switch-master")

struct redis_sentinel {
    struct loop *loop;
    const struct redis_url *url;
    struct redis_url login; /* borrows from url: as whom we come to the sentinels */
    struct redis_finder finder;
    void (*closed)(void *arg);
    void *arg;
    unsigned open_conns;
    bool closing;

    struct redis_finder_turn ask_turn;
    struct redis_conn *ask;
    struct redis_command question;
    struct list asked;   /* finds that the question under way answers */
    struct list waiting; /* for the next one */
    struct list found;
    size_t failures; /* of sentinels, in a row */

    struct redis_finder_turn hear_turn;
    struct redis_conn *hear;
    struct redis_command subscription;

    struct redis_place master; /* the last one that was named */
};

/* --- finds ---------------------------------------------------------------------------------- */

static void fail_all(struct redis_sentinel *sentinel, struct list *finds, const char *reason)
{
    struct list failed;
    list_init(&failed);
    list_move_all(&failed, finds);
    for (struct list *link; (link = list_pop_front(&failed)) != NULL;) {
        struct redis_find *find = LIST_ITEM(link, struct redis_find, link);
        find->done(find, NULL, reason);
    }
    (void)sentinel;
}

static void found_all(struct redis_sentinel *sentinel, const struct redis_place *place)
{
    struct list found;
    list_init(&found);
    list_move_all(&found, &sentinel->asked);
    for (struct list *link; (link = list_pop_front(&found)) != NULL;) {
        struct redis_find *find = LIST_ITEM(link, struct redis_find, link);
        find->place = *place;
        list_push_back(&sentinel->found, &find->link);
        find->done(find, place, NULL);
    }
}

/* Ends the connections to this place, or to any other place. */
static void leave(struct redis_sentinel *sentinel, const struct redis_place *place, bool others,
                  const char *reason)
{
    list_for_each_safe (it, after, &sentinel->found) {
        struct redis_find *find = LIST_ITEM(it, struct redis_find, link);
        if (redis_place_eq(&find->place, place) != others)
            find->leave(find, reason);
    }
}

/* --- asking --------------------------------------------------------------------------------- */

/* [host, port] */
static bool parse_address(const struct redis_reply *reply, struct redis_place *out)
{
    struct redis_reply_parts parts;
    struct redis_reply part;
    struct str host;
    struct str port;
    char number[NUMBER_MAX];
    if (!redis_reply_array(reply, &parts) || parts.left != 2)
        return false;
    if (!redis_reply_part(&parts, &part) || !redis_reply_text(&part, &host) ||
        !redis_reply_part(&parts, &part) || !redis_reply_text(&part, &port) ||
        port.len >= sizeof(number))
        return false;
    memcpy(number, port.p, port.len);
    number[port.len] = '\0';
    return redis_place_set(out, host, strtol(number, NULL, 10));
}

static void name_master(struct redis_sentinel *sentinel, const struct redis_place *place)
{
    char text[REDIS_PLACE_TEXT_MAX];
    if (redis_place_eq(place, &sentinel->master))
        return;
    sentinel->master = *place;
    logger_info("sentinel named the master", KV_TEXT("service", sentinel->url->service),
                KV_TEXT("address", redis_place_format(place, text)));
}

static void ask(struct redis_sentinel *sentinel);

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_sentinel *sentinel = RD_CONTAINER(command, struct redis_sentinel, question);
    struct redis_place place;
    char text[REASON_MAX] = "an answer of another shape";
    if (reply != NULL && parse_address(reply, &place)) {
        sentinel->failures = 0;
        name_master(sentinel, &place);
        found_all(sentinel, &place);
        ask(sentinel);
        return;
    }
    /* Another sentinel may know, and `down` goes on with it; NULL: `down` comes by itself. */
    list_move_all(&sentinel->waiting, &sentinel->asked);
    if (reply == NULL)
        return;
    if (redis_reply_nil(reply))
        (void)snprintf(text, sizeof(text), "it knows no service of this name");
    (void)redis_reply_error_text(reply, text, sizeof(text));
    redis_conn_drop(sentinel->ask, text);
}

/* Where there is somebody to ask for, and no question under way. */
static void ask(struct redis_sentinel *sentinel)
{
    if (sentinel->closing || list_empty(&sentinel->waiting) || !list_empty(&sentinel->asked))
        return;
    const struct str words[] = {STR("SENTINEL"), STR("GET-MASTER-ADDR-BY-NAME"),
                                str_from(sentinel->url->service)};
    sentinel->question.done = on_answer;
    if (redis_conn_send(sentinel->ask, &sentinel->question, &(struct redis_words){words, 3}, 1))
        list_move_all(&sentinel->asked, &sentinel->waiting);
}

static void on_ask_up(void *arg)
{
    ask(arg);
}

static void on_ask_down(void *arg, const char *reason)
{
    struct redis_sentinel *sentinel = arg;
    const struct redis_place *who = &sentinel->url->places[sentinel->ask_turn.at];
    char place[REDIS_PLACE_TEXT_MAX];
    char text[REASON_MAX];
    redis_finder_turn_next(&sentinel->ask_turn);
    if (++sentinel->failures < sentinel->url->count)
        return;
    sentinel->failures = 0;
    (void)snprintf(text, sizeof(text), "sentinel %s: %s", redis_place_format(who, place), reason);
    fail_all(sentinel, &sentinel->waiting, text);
}

/* --- the finder ----------------------------------------------------------------------------- */

static const struct redis_place *find(struct redis_finder *finder, struct redis_find *find)
{
    struct redis_sentinel *sentinel = RD_CONTAINER(finder, struct redis_sentinel, finder);
    list_init(&find->link);
    list_push_back(&sentinel->waiting, &find->link);
    ask(sentinel);
    return NULL;
}

static void cancel(struct redis_finder *finder, struct redis_find *find)
{
    (void)finder;
    if (find->link.next != NULL)
        list_remove(&find->link);
}

static void no_master(struct redis_finder *finder, const struct redis_place *place)
{
    struct redis_sentinel *sentinel = RD_CONTAINER(finder, struct redis_sentinel, finder);
    struct redis_place copy = *place; /* it may be that of a find */
    leave(sentinel, &copy, false, "it is no master");
    if (redis_place_eq(&copy, &sentinel->master))
        redis_conn_drop(sentinel->ask, "it named a Redis that is no master");
}

static void no_answer(struct redis_finder *finder, const struct redis_place *place)
{
    struct redis_sentinel *sentinel = RD_CONTAINER(finder, struct redis_sentinel, finder);
    if (redis_place_eq(place, &sentinel->master))
        redis_conn_drop(sentinel->ask, "it named a Redis that does not answer");
}

/* --- hints ---------------------------------------------------------------------------------- */

/* The n-th word of text, counted from 0; empty: there are fewer. */
static struct str word_of(struct str text, unsigned n)
{
    for (;; n--) {
        const char *blank = memchr(text.p, ' ', text.len);
        size_t len = blank == NULL ? text.len : (size_t)(blank - text.p);
        if (n == 0)
            return (struct str){text.p, len};
        if (blank == NULL)
            return (struct str){text.p, 0};
        text = (struct str){blank + 1, text.len - len - 1};
    }
}

/* "<service> <old host> <old port> <new host> <new port>" */
static void on_switch(struct redis_sentinel *sentinel, struct str text)
{
    struct redis_place place;
    char number[NUMBER_MAX];
    struct str port = word_of(text, 4);
    if (!str_eq(word_of(text, 0), str_from(sentinel->url->service)) || port.len >= sizeof(number))
        return;
    memcpy(number, port.p, port.len);
    number[port.len] = '\0';
    if (!redis_place_set(&place, word_of(text, 3), strtol(number, NULL, 10)))
        return;
    name_master(sentinel, &place);
    leave(sentinel, &place, true, "the sentinels have made another Redis the master");
}

static void on_push(void *arg, const struct redis_reply *reply)
{
    struct redis_reply_parts parts;
    struct redis_reply part;
    struct str kind;
    struct str text;
    if (redis_reply_array(reply, &parts) && parts.left == 3 && redis_reply_part(&parts, &part) &&
        redis_reply_text(&part, &kind) && str_eq(kind, STR("message")) &&
        redis_reply_part(&parts, &part) && redis_reply_part(&parts, &part) &&
        redis_reply_text(&part, &text))
        on_switch(arg, text);
}

static void on_subscribed(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_sentinel *sentinel = RD_CONTAINER(command, struct redis_sentinel, subscription);
    char text[REASON_MAX];
    if (reply != NULL && redis_reply_error_text(reply, text, sizeof(text)))
        redis_conn_drop(sentinel->hear, text);
}

static void on_hear_up(void *arg)
{
    struct redis_sentinel *sentinel = arg;
    const struct str words[] = {STR("SUBSCRIBE"), CHANNEL};
    sentinel->subscription.done = on_subscribed;
    if (!redis_conn_send(sentinel->hear, &sentinel->subscription, &(struct redis_words){words, 2},
                         1))
        redis_conn_drop(sentinel->hear, "the subscription could not be sent");
}

static void on_hear_down(void *arg, const char *reason)
{
    struct redis_sentinel *sentinel = arg;
    (void)reason;
    redis_finder_turn_next(&sentinel->hear_turn);
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_conn_closed(void *arg)
{
    struct redis_sentinel *sentinel = arg;
    if (--sentinel->open_conns != 0)
        return;
    void (*closed)(void *arg) = sentinel->closed;
    void *closed_arg = sentinel->arg;
    free(sentinel);
    closed(closed_arg);
}

static const struct redis_conn_ops ask_ops = {
    .up = on_ask_up, .down = on_ask_down, .closed = on_conn_closed};
static const struct redis_conn_ops hear_ops = {
    .up = on_hear_up, .down = on_hear_down, .push = on_push, .closed = on_conn_closed};

struct redis_sentinel *redis_sentinel_open(struct loop *loop, struct metrics *metrics,
                                           const struct redis_url *url, uint64_t connect_ms,
                                           uint64_t command_ms)
{
    struct redis_sentinel *sentinel = xalloc_zero(sizeof(*sentinel));
    sentinel->loop = loop;
    sentinel->url = url;
    sentinel->login = (struct redis_url){.tls = url->tls,
                                         .trust = url->trust,
                                         .user = url->sentinel_user,
                                         .password = url->sentinel_password};
    sentinel->finder = (struct redis_finder){
        .find = find, .cancel = cancel, .no_master = no_master, .no_answer = no_answer};
    list_init(&sentinel->asked);
    list_init(&sentinel->waiting);
    list_init(&sentinel->found);
    redis_finder_turn_init(&sentinel->ask_turn, url->places, url->count);
    redis_finder_turn_init(&sentinel->hear_turn, url->places, url->count);

    struct redis_conn_config conn = {.url = &sentinel->login,
                                     .finder = &sentinel->ask_turn.finder,
                                     .name = "roomd-sentinel",
                                     .connect_ms = connect_ms,
                                     .command_ms = command_ms};
    sentinel->ask = redis_conn_open(loop, metrics, &conn, &ask_ops, sentinel);
    conn.finder = &sentinel->hear_turn.finder;
    sentinel->hear = redis_conn_open(loop, metrics, &conn, &hear_ops, sentinel);
    sentinel->open_conns = 2;
    return sentinel;
}

void redis_sentinel_close(struct redis_sentinel *sentinel, void (*closed)(void *arg), void *arg)
{
    sentinel->closing = true;
    sentinel->closed = closed;
    sentinel->arg = arg;
    redis_conn_close(sentinel->ask);
    redis_conn_close(sentinel->hear);
}

struct redis_finder *redis_sentinel_finder(struct redis_sentinel *sentinel)
{
    return &sentinel->finder;
}
