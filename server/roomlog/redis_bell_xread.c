/* One XREAD BLOCK over all rooms, from where each was read to: as simple as it gets, and right up
 * to a few hundred rooms, for each wake-up costs Redis something for every one of them. It is a
 * bell all the same: what it brings is not delivered, but read again with its proof.
 *
 *            everything that rang was read          a room has something, or time is up
 *   RESTING ------------------------------> ASKING -----------------------------------> RESTING
 *                                             |  a room came, or was read meanwhile:
 *                                             +-- CLIENT UNBLOCK through LIVE, so that time is up
 *
 * Always true: a room that rang isn't asked for before it was read, so this never spins.
 *
 * One key that is no stream, or that we may not read, fails the whole call. Then all its rooms are
 * read: the feed finds which it was, has no cursor for that one any more, and the next call leaves
 * it out.
 *
 * A log that was deleted, or began anew with smaller ids, wakes nobody: the audit finds it. */
#include "roomlog/redis_bell_impl.h"

#include "base/logger.h"
#include "base/strmap.h"
#include "base/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    AUDIT_MS = 3000,
    KEYS_MAX = 1000,      /* of one call, beside the probe's */
    OTHERS_MS = 1000,     /* between two reads of a room above that */
    BLOCK_MS = 1000,      /* at most */
    WAKE_MS = 5,          /* from when a room came until it is asked for: others may come too */
    LONGEST_REST_MS = 50, /* after a bell; earlier where all that rang has been read */
    ERROR_REST_MS = 100,
    ERRORS_MAX = 5 /* in a row: then it isn't the rooms */
};

/* One room that is followed. */
struct watched {
    struct list link;
    bool out; /* of the call under way, or in it from another place than its own */
    struct str key;
    char bytes[];
};

struct id_text {
    char p[STREAM_ID_TEXT_MAX];
    size_t len;
};

struct redis_bell_xread {
    struct redis_bell *bell;
    struct strmap map; /* key to watched */
    struct list rooms; /* in the order they came */
    bool asking;
    bool resting; /* until what rang has been read, or the timer has run */
    bool waking;  /* CLIENT UNBLOCK is under way */
    bool warned;  /* that there are too many rooms */
    size_t asked; /* rooms of the call under way */
    unsigned errors;
    struct stream_id heard;   /* the probe's last entry */
    struct loop_timer timer;  /* to ask; ASKING: to wake it */
    struct loop_timer others; /* to read what doesn't fit into a call */
    struct str *words;        /* of a call */
    struct id_text *ids;
};

static void on_timer(void *arg);

static void wait(struct redis_bell_xread *x, uint64_t ms)
{
    loop_timer_start(x->bell->loop, &x->timer, ms, on_timer, x);
}

/* --- the call ------------------------------------------------------------------------------- */

static void on_answer(struct redis_bell *bell, const struct redis_reply *reply);

/* How long Redis may let us wait: what isn't answered within command_ms ends the connection. */
static uint64_t block_ms(const struct redis_bell *bell)
{
    uint64_t most = bell->config.command_ms / 2;
    return most > BLOCK_MS ? BLOCK_MS : most == 0 ? 1 : most;
}

/* Keys into words, and where each was read to into ids. Returns how many. */
static size_t put_keys(struct redis_bell_xread *x, struct str *words)
{
    struct redis_bell *bell = x->bell;
    words[0] = str_from(bell->probe.stream);
    x->ids[0].len = stream_id_format(x->heard, x->ids[0].p);
    size_t count = 1;
    list_for_each_safe (it, after, &x->rooms) {
        struct watched *room = LIST_ITEM(it, struct watched, link);
        struct stream_id cursor;
        if (count > KEYS_MAX)
            break;
        room->out = !bell->ops->cursor(bell->arg, room->key, &cursor);
        if (room->out)
            continue;
        words[count] = room->key;
        x->ids[count].len = stream_id_format(cursor, x->ids[count].p);
        count++;
    }
    return count;
}

static void ask(struct redis_bell_xread *x)
{
    char block[24];
    (void)snprintf(block, sizeof(block), "%" PRIu64, block_ms(x->bell));
    const struct str head[] = {STR("XREAD"), STR("BLOCK"), str_from(block),
                               STR("COUNT"), STR("1"),     STR("STREAMS")};
    struct str *keys = x->words + sizeof(head) / sizeof(head[0]);
    memcpy(x->words, head, sizeof(head));
    size_t count = put_keys(x, keys);
    for (size_t i = 0; i < count; i++)
        keys[count + i] = (struct str){x->ids[i].p, x->ids[i].len};
    x->asking = true;
    x->resting = false;
    x->asked = count - 1;
    loop_timer_stop(x->bell->loop, &x->timer);
    const struct redis_words words = {x->words, (size_t)(keys - x->words) + 2 * count};
    redis_bell_errand(x->bell, x->bell->bell, &words, on_answer);
}

/* --- waking it ------------------------------------------------------------------------------ */

/* Could a room be asked for that isn't, or isn't rightly? */
static bool worth_waking(const struct redis_bell_xread *x)
{
    size_t left = KEYS_MAX;
    for (struct list *it = x->rooms.next; it != &x->rooms && left != 0; it = it->next, left--) {
        const struct watched *room = LIST_ITEM(it, struct watched, link);
        struct stream_id cursor;
        if (room->out && x->bell->ops->cursor(x->bell->arg, room->key, &cursor))
            return true;
    }
    return false;
}

static void on_unblocked(struct redis_bell *bell, const struct redis_reply *reply)
{
    struct redis_bell_xread *x = bell->xread;
    long long unblocked = 0;
    x->waking = false;
    /* 0: it wasn't blocked. Its answer is on its way to us, or it is still on its way to Redis. An
     * error: we mayn't do that, and wait until its time is up. */
    if (x->asking && redis_reply_integer(reply, &unblocked) && unblocked == 0)
        wait(x, WAKE_MS);
}

static void wake(struct redis_bell_xread *x)
{
    if (x->waking)
        return;
    char id[24];
    (void)snprintf(id, sizeof(id), "%" PRIu64, x->bell->bell_id);
    const struct str words[] = {STR("CLIENT"), STR("UNBLOCK"), str_from(id)};
    x->waking = true;
    redis_bell_errand(x->bell, x->bell->live, &(struct redis_words){words, 3}, on_unblocked);
}

static void on_timer(void *arg)
{
    struct redis_bell_xread *x = arg;
    if (!x->asking)
        ask(x);
    else if (worth_waking(x))
        wake(x);
}

/* --- what it brings ------------------------------------------------------------------------- */

/* [[id, ["n", number]]]. Is it what the probe has just written? */
static bool is_probes(struct redis_bell_xread *x, struct redis_reply *entries)
{
    struct redis_reply_parts list, entry, fields;
    struct redis_reply first, id, texts, name, value;
    struct str text;
    char number[24];
    if (!redis_reply_array(entries, &list) || !redis_reply_part(&list, &first) ||
        !redis_reply_array(&first, &entry) || !redis_reply_part(&entry, &id) ||
        !redis_reply_part(&entry, &texts) || !redis_reply_text(&id, &text) ||
        !stream_id_parse(text, &x->heard))
        return false;
    if (!redis_reply_array(&texts, &fields) || !redis_reply_part(&fields, &name) ||
        !redis_reply_part(&fields, &value) || !redis_reply_text(&value, &text))
        return false;
    (void)snprintf(number, sizeof(number), "%" PRIu64, x->bell->probe.count);
    return str_eq(text, str_from(number));
}

static void ring_all(struct redis_bell_xread *x)
{
    struct redis_bell *bell = x->bell;
    list_for_each_safe (it, after, &x->rooms)
        bell->ops->rung(bell->arg, LIST_ITEM(it, struct watched, link)->key);
}

/* Calling out may end this link, and so is done last. */
static void on_error(struct redis_bell_xread *x, const struct redis_reply *reply)
{
    wait(x, ERROR_REST_MS);
    if (redis_reply_err(reply) == RD_EUNAVAIL)
        return;
    if (x->asked == 0 || ++x->errors == ERRORS_MAX)
        redis_bell_refused(x->bell, reply);
    else
        ring_all(x);
}

/* [[key, [entry]], ...]. */
static void on_streams(struct redis_bell_xread *x, struct redis_reply_parts *streams)
{
    struct redis_bell *bell = x->bell;
    struct redis_reply stream, name, entries;
    struct redis_reply_parts parts;
    struct str key;
    size_t rang = 0;
    bool heard = false;
    while (redis_reply_part(streams, &stream)) {
        if (!redis_reply_array(&stream, &parts) || !redis_reply_part(&parts, &name) ||
            !redis_reply_part(&parts, &entries) || !redis_reply_text(&name, &key))
            continue;
        metrics_inc(bell->metrics, M_FEED_BELLS);
        if (str_eq(key, str_from(bell->probe.stream))) {
            heard = is_probes(x, &entries);
            continue;
        }
        rang++;
        bell->ops->rung(bell->arg, key);
    }
    if (rang == 0) {
        ask(x);
    } else {
        x->resting = true;
        wait(x, LONGEST_REST_MS);
    }
    if (!heard)
        return;
    redis_bell_probe_expire_stream(bell);
    redis_bell_hear(bell);
}

static void on_answer(struct redis_bell *bell, const struct redis_reply *reply)
{
    struct redis_bell_xread *x = bell->xread;
    struct redis_reply_parts streams;
    x->asking = false;
    if (redis_reply_err(reply) != RD_OK) {
        on_error(x, reply);
        return;
    }
    x->errors = 0;
    if (redis_reply_array(reply, &streams))
        on_streams(x, &streams);
    else
        ask(x); /* time is up */
}

/* --- rooms ---------------------------------------------------------------------------------- */

static void on_others(void *arg)
{
    struct redis_bell_xread *x = arg;
    struct redis_bell *bell = x->bell;
    size_t at = 0;
    if (x->map.count > KEYS_MAX)
        loop_timer_start(bell->loop, &x->others, OTHERS_MS, on_others, x);
    list_for_each_safe (it, after, &x->rooms)
        if (at++ >= KEYS_MAX)
            bell->ops->rung(bell->arg, LIST_ITEM(it, struct watched, link)->key);
}

static void watch(struct redis_bell_xread *x, struct str key)
{
    struct watched *room = xalloc(sizeof(*room) + key.len);
    *room = (struct watched){.out = true, .key = {room->bytes, key.len}};
    memcpy(room->bytes, key.p, key.len);
    list_init(&room->link);
    list_push_back(&x->rooms, &room->link);
    strmap_put(&x->map, room->key, room);
    if (x->map.count <= KEYS_MAX || loop_timer_running(&x->others))
        return;
    loop_timer_start(x->bell->loop, &x->others, OTHERS_MS, on_others, x);
    if (!x->warned)
        logger_warn("xread is for fewer rooms: those above are read once a second",
                    KV_NUM("rooms", KEYS_MAX));
    x->warned = true;
}

static void arm(struct redis_bell *bell, struct str key)
{
    struct watched *room = strmap_find(&bell->xread->map, key);
    if (room == NULL)
        watch(bell->xread, key);
    else
        room->out = true; /* its cursor went back, and may never be passed from where we ask */
}

static void disarm(struct redis_bell *bell, struct str key)
{
    struct watched *room = strmap_remove(&bell->xread->map, key);
    if (room == NULL)
        return;
    list_remove(&room->link);
    free(room);
}

static void idle(struct redis_bell *bell)
{
    struct redis_bell_xread *x = bell->xread;
    if (x->resting)
        ask(x);
    else if (x->asking && !x->waking && !loop_timer_running(&x->timer) && worth_waking(x))
        wait(x, WAKE_MS);
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_id(struct redis_bell *bell, const struct redis_reply *reply)
{
    if (!redis_bell_take_id(bell, reply))
        return;
    bell->xread->resting = true;
    wait(bell->xread, LONGEST_REST_MS);
    redis_bell_linked(bell);
}

static void link_xread(struct redis_bell *bell)
{
    struct redis_bell_xread *x = xalloc_zero(sizeof(*x));
    x->bell = bell;
    strmap_init(&x->map, loop_random(bell->loop), loop_random(bell->loop));
    list_init(&x->rooms);
    x->words = xalloc_array(NULL, 8 + 2 * (KEYS_MAX + 1), sizeof(*x->words));
    x->ids = xalloc_array(NULL, KEYS_MAX + 1, sizeof(*x->ids));
    bell->xread = x;
    redis_bell_ask_id(bell, on_id);
}

static void unlink_xread(struct redis_bell *bell)
{
    struct redis_bell_xread *x = bell->xread;
    bell->xread = NULL;
    loop_timer_stop(bell->loop, &x->timer);
    loop_timer_stop(bell->loop, &x->others);
    for (struct list *link; (link = list_pop_front(&x->rooms)) != NULL;)
        free(LIST_ITEM(link, struct watched, link));
    strmap_fini(&x->map);
    free(x->words);
    free(x->ids);
    free(x);
}

/* BELL is subscribed to nothing. */
static void push(struct redis_bell *bell, const struct redis_reply *reply)
{
    (void)reply;
    redis_conn_drop(bell->bell, "an answer came that nobody had asked for");
}

const struct redis_bell_source redis_bell_xread = {
    .name = "xread",
    .kind = REDIS_BELL_XREAD,
    .audit_ms = AUDIT_MS,
    .link = link_xread,
    .unlink = unlink_xread,
    .arm = arm,
    .disarm = disarm,
    .idle = idle,
    .push = push,
    .probe_read = redis_bell_probe_read_stream,
    .probe_write = redis_bell_probe_write_stream,
};
