#include "roomlog/redis_feed.h"

#include "base/logger.h"
#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_ask.h"
#include "roomlog/redis_followers.h"
#include "roomlog/redis_reply.h"

#include <assert.h>
#include <stdlib.h>

enum {
    READS_MAX = 64,
    COUNT_MAX = 100,         /* entries of one live read, the cursor's own not counted */
    FEWEST = 2,              /* a read asks for the cursor's own entry and at least one more */
    READ_BYTES = 256 * 1024, /* what one read may bring, about */
    FIRST_GUESS_BYTES = 1024,
    ENTRY_OVERHEAD = 64, /* of an entry's id and framing, about */
    LONGEST_TICK_MS = 1000,
    AUDIT_PARTS = 100, /* of the rooms, one after the other, so that audits make no bursts */
    LATER_MS = 250,    /* after an error that may pass */
    VAIN_BELLS = 3,    /* that rang for nothing, in a row, are no accident */
    VAIN_MS = 1000,    /* the longest that such a room waits for its next read */
    DENIED_MS = 2000   /* after one that passes only where somebody changes our rights */
};

/*            XINFO answered                       last follower gone
 *   STARTING --------------> LIVE ---------------------------------> GONE, freed once its
 *      |                     ^  | not a stream,                      read is answered
 *      |                     |  v or denied
 *      +-- not a stream --> WRONG   a stream that may be read again: LIVE
 *          or denied
 */
enum state { STARTING, LIVE, WRONG, GONE, STATES };

#define TO(state) (1u << (state))
static const unsigned moves[STATES] = {
    [STARTING] = TO(LIVE) | TO(WRONG) | TO(GONE),
    [LIVE] = TO(WRONG) | TO(GONE),
    [WRONG] = TO(LIVE) | TO(GONE),
    [GONE] = 0,
};
#undef TO

struct room {
    struct redis_feed *feed;
    struct redis_feed_lane *lane;
    struct str key; /* owned */
    enum state state;
    struct list link;  /* in lane->rooms */
    struct list queue; /* in lane->dirty, later, denied or vain; alone while it needn't be read */
    bool dirty;        /* it is in lane->dirty, and keeps its place there */

    struct redis_followers followers;
    bool busy;              /* an answer is on the stack: not freed meanwhile */
    struct loop_task greet; /* whoever came to a room that is live already */

    struct stream_id cursor; /* up to here everything was delivered */
    bool proofless;          /* the cursor's own entry isn't in the log: only more can tell */
    bool by_script;          /* MULTI was refused just now */
    bool reading;
    bool changed;            /* since the read under way was sent */
    struct stream_id hinted; /* the newest entry that was announced since then */
    bool rung;               /* a bell asks for the next read; */
    bool by_bell;            /* one asked for this read; */
    unsigned vain;           /* so many in a row found nothing, each soon after the one before */
    uint64_t read_ms;        /* when the last read was sent */
    size_t asked;            /* COUNT of the read under way */
    size_t entry_bytes;
    struct redis_command read;
    struct redis_feed_lane *via;   /* of the read under way */
    struct redis_feed_lane *ahead; /* another than `lane`, armed there too; or NULL */
    unsigned redirects;            /* in a row */
};

/* Rooms to be read once the timer has run. */
struct later {
    struct redis_feed *feed;
    struct list rooms;
    struct loop_timer timer;
};

struct redis_feed_lane {
    struct redis_feed *feed;
    struct list link; /* in feed->lanes */
    struct redis_bell *bell;
    const struct redis_feed_lane_ops *ops;
    void *arg;

    struct list rooms; /* the longest ago audited first */
    size_t count;      /* of these */
    size_t due;        /* for the next part of an audit, in parts of a room */
    struct list dirty; /* to be read, in this order */
    size_t reading;
    struct loop_timer tick; /* polls or audits */
    uint64_t polled_ms;     /* when all were to be read last */
};

struct redis_feed {
    struct loop *loop;
    struct metrics *metrics;
    uint64_t poll_ms;

    struct strmap map; /* key to room */
    struct list lanes;
    struct later later;
    struct later denied;
    struct later vain;
    struct redis_reply_entries scratch;
};

static void move(struct room *room, enum state state)
{
    assert((moves[room->state] & (1u << state)) != 0);
    room->state = state;
}

static void pump(struct redis_feed_lane *lane);

/* --- rooms ---------------------------------------------------------------------------------- */

/* Frees a room that nobody needs any more. True: it is gone. */
static bool release(struct room *room)
{
    if (room->state != GONE || room->reading || room->busy || room->followers.walks != 0)
        return false;
    free((char *)room->key.p);
    free(room);
    return true;
}

/* Up to its cursor everything was delivered, and nobody knows of more. */
static bool settled(const struct room *room)
{
    return room->state == LIVE && !room->reading && list_empty(&room->queue);
}

/* It must be read, or read again. What waits already keeps its place: a sweep that takes longer
 * than poll_ms still comes to the last room. */
static void soil(struct room *room)
{
    if (room->state == GONE)
        return;
    if (room->reading) {
        room->changed = true;
        return;
    }
    if (room->dirty)
        return;
    room->dirty = true;
    list_remove(&room->queue);
    list_push_back(&room->lane->dirty, &room->queue);
}

static void soil_all(void *arg)
{
    struct redis_feed_lane *lane = arg;
    list_for_each_safe (it, after, &lane->rooms)
        soil(LIST_ITEM(it, struct room, link));
    pump(lane);
}

static void on_later(void *arg)
{
    struct later *later = arg;
    while (!list_empty(&later->rooms))
        soil(LIST_ITEM(later->rooms.next, struct room, queue));
    list_for_each_safe (it, after, &later->feed->lanes)
        pump(LIST_ITEM(it, struct redis_feed_lane, link));
}

/* Redis couldn't just now, or wouldn't. */
static void soil_later(struct room *room, struct later *later, uint64_t ms)
{
    if (room->state == GONE)
        return;
    room->dirty = false;
    list_remove(&room->queue);
    list_push_back(&later->rooms, &room->queue);
    if (!loop_timer_running(&later->timer))
        loop_timer_start(room->feed->loop, &later->timer, ms, on_later, later);
}

/* A room whose bells ring for nothing again and again is read a little later. Where there are more
 * keys than Redis tracks, it forgets some and rings for them; each read that this asks for makes it
 * forget another, as fast as both of us can. */
static void soil_for_bell(struct room *room)
{
    if (room->vain < VAIN_BELLS) {
        soil(room);
    } else if (list_empty(&room->queue)) {
        metrics_inc(room->feed->metrics, M_FEED_VAIN);
        soil_later(room, &room->feed->vain, VAIN_MS);
    }
}

static void ring(struct room *room)
{
    room->rung = true;
    if (loop_now_ms(room->feed->loop) - room->read_ms >= VAIN_MS)
        room->vain = 0;
    if (room->reading)
        room->changed = true;
    else
        soil_for_bell(room);
}

/* What a read has found says whether bells can be believed. */
static void weigh_bells(struct room *room, bool found)
{
    if (!found) {
        room->vain += room->by_bell;
        return;
    }
    room->vain = 0;
    if (!list_empty(&room->queue))
        soil(room); /* it rang meanwhile */
}

static void learn(struct room *room, size_t bytes)
{
    bytes += ENTRY_OVERHEAD;
    /* Up at once, down slowly: too small a guess costs memory, too large a one a round trip. */
    room->entry_bytes = bytes > room->entry_bytes ? bytes : (room->entry_bytes * 7 + bytes) / 8;
}

/* --- telling -------------------------------------------------------------------------------- */

static void on_greet(void *arg)
{
    struct room *room = arg;
    redis_followers_start(&room->followers, room->cursor);
    (void)release(room);
}

static void tell_broken(struct room *room, enum verdict why, struct stream_id head)
{
    room->cursor = head;
    room->proofless = false;
    redis_bell_arm(room->lane->bell, room->key);
    if (room->ahead != NULL)
        redis_bell_arm(room->ahead->bell, room->key);
    metrics_inc(room->feed->metrics, M_FEED_BREAKS);
    redis_followers_broken(&room->followers, why, head);
}

/* entries come after the cursor, and the one after the other. */
static void deliver(struct room *room, struct roomlog_entry *entries, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += roomlog_entry_bytes(&entries[i]);
    learn(room, bytes / count);
    entries[0].prev = room->cursor;
    entries[0].prev_known = true;
    room->cursor = entries[count - 1].id;
    room->proofless = false;
    redis_followers_entries(&room->followers, entries, count);
}

/* Delivers what was read, from at on; the one before `at` is the cursor's, or the verdict says it
 * needn't be there. */
static void tell_entries(struct room *room, size_t at)
{
    struct redis_reply_entries *scratch = &room->feed->scratch;
    weigh_bells(room, scratch->count != at);
    if (scratch->count != at)
        deliver(room, &scratch->p[at], scratch->count - at);
    else
        room->proofless = at == 0;
}

/* --- answers -------------------------------------------------------------------------------- */

/* There is no log to be read, and members must not wait for it: each reads for itself, and is told
 * why not. head: where the feed goes on if it can be read again. */
static void go_wrong(struct room *room, struct stream_id head)
{
    bool started = room->state != STARTING;
    move(room, WRONG);
    if (started)
        tell_broken(room, VERDICT_RESET, head);
    else
        on_greet(room);
}

static void on_error(struct room *room, const struct redis_reply *reply, enum rd_err err)
{
    bool wrong = room->state == WRONG;
    if (err == RD_EWRONGTYPE) {
        if (wrong)
            return;
        logger_warn("a room's key holds something else than a stream", KV_STR("key", room->key));
        go_wrong(room, STREAM_ID_ZERO);
        return;
    }
    if (err == RD_ETOOBIG && room->asked > FEWEST) {
        room->entry_bytes = READ_BYTES; /* so many at once were more than a reply may be */
        soil(room);
        return;
    }
    /* What even the fewest are too large for stays so for a while. */
    bool denied = err == RD_EDENIED || err == RD_ETOOBIG;
    if (denied)
        soil_later(room, &room->feed->denied, DENIED_MS);
    else
        soil_later(room, &room->feed->later, LATER_MS);
    if (denied && wrong)
        return;
    char text[160];
    bool said = redis_reply_error_text(reply, text, sizeof(text));
    logger_warn("a room could not be read", KV_STR("key", room->key),
                KV_TEXT("reason", said ? text : "an answer of another shape"));
    if (denied)
        go_wrong(room, room->cursor);
}

/* XINFO STREAM, of a room that starts or went wrong. */
static void on_info(struct room *room, const struct redis_reply *reply)
{
    struct verdict_info info;
    size_t bytes;
    if (!redis_reply_info(reply, &info, &bytes)) {
        on_error(room, reply, redis_reply_err(reply));
        return;
    }
    bool started = room->state == WRONG;
    if (bytes != 0)
        learn(room, bytes);
    move(room, LIVE);
    if (started) {
        /* What is there now is held against its cursor. 0-0: it was no stream, and what has come
         * into the new log since is read as after a reset. */
        if (info.exists || !stream_id_is_zero(room->cursor))
            soil(room);
        return;
    }
    room->cursor = info.last;
    on_greet(room);
}

static void on_plain(struct room *room, const struct redis_reply *reply)
{
    struct redis_reply_entries *scratch = &room->feed->scratch;
    if (!redis_reply_range(reply, REDIS_REPLY_ASCENDING, scratch)) {
        on_error(room, reply, redis_reply_err(reply));
        return;
    }
    if (scratch->count == 0 || !stream_id_eq(scratch->p[0].id, room->cursor)) {
        room->proofless = true;
        soil(room);
        return;
    }
    if (scratch->count >= room->asked)
        soil(room); /* what lies behind this page has rung already */
    tell_entries(room, 1);
}

static void on_exec(struct room *room, const struct redis_reply *reply)
{
    struct redis_reply_entries *scratch = &room->feed->scratch;
    struct verdict_info info;
    size_t bytes;
    enum rd_err err;
    if (!room->by_script && redis_reply_exec_refused(reply)) {
        room->by_script = true;
        soil(room);
        return;
    }
    room->by_script = false;
    if (!redis_reply_exec(reply, REDIS_REPLY_ASCENDING, &info, &bytes, scratch, &err)) {
        on_error(room, reply, err);
        return;
    }
    const struct stream_id *first = scratch->count != 0 ? &scratch->p[0].id : NULL;
    enum verdict verdict = verdict_of(room->cursor, first, &info);
    if (verdict != VERDICT_OK) {
        tell_broken(room, verdict, info.last);
        return;
    }
    if (scratch->count >= room->asked)
        soil(room);
    tell_entries(room, first != NULL && stream_id_eq(*first, room->cursor) ? 1 : 0);
}

/* Doesn't change between a question and its answer. */
static enum redis_ask_how how_to_ask(const struct room *room)
{
    if (!room->proofless && !stream_id_is_zero(room->cursor))
        return REDIS_ASK_PLAIN;
    return room->by_script ? REDIS_ASK_SCRIPT : REDIS_ASK_MULTI;
}

static void stay_behind(struct room *room);
static void on_redirect(struct room *room, struct redis_feed_lane *from,
                        const struct redis_redirect *redirect);

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct room *room = RD_CONTAINER(command, struct room, read);
    struct redis_feed_lane *lane = room->via;
    bool changed = room->changed || reply == NULL;
    lane->reading--;
    room->reading = false;
    room->changed = false;
    if (release(room)) {
        pump(lane);
        return;
    }
    if (changed)
        soil_for_bell(room);
    struct redis_redirect redirect;
    if (reply != NULL && redis_redirect_of(reply, &redirect)) {
        on_redirect(room, lane, &redirect);
        pump(lane);
        return;
    }
    room->redirects = 0;
    if (lane == room->lane)
        stay_behind(room);

    struct redis_feed_lane *home = room->lane;
    room->busy = true; /* callbacks may let go of the room */
    if (reply == NULL) {
        /* The connection is gone; `open` reads everything again. */
    } else if (room->state == STARTING || room->state == WRONG) {
        on_info(room, reply);
    } else if (how_to_ask(room) == REDIS_ASK_PLAIN) {
        on_plain(room, reply);
    } else {
        on_exec(room, reply);
    }
    room->busy = false;
    if (stream_id_cmp(room->cursor, room->hinted) < 0)
        soil(room);
    room->hinted = STREAM_ID_ZERO;
    (void)release(room);
    pump(lane);
    if (home != lane)
        pump(home);
}

/* --- asking --------------------------------------------------------------------------------- */

static size_t count_for(const struct room *room)
{
    size_t count = READ_BYTES / room->entry_bytes;
    return count > COUNT_MAX ? COUNT_MAX : count == 0 ? 1 : count;
}

/* ahead: the room's slot is on its way to this lane, which is not its own yet. */
static bool ask(struct room *room, struct redis_feed_lane *lane, bool ahead)
{
    struct redis_ask ask;
    room->asked = count_for(room) + 1;
    room->read.done = on_answer;
    if (room->state != LIVE)
        redis_ask_info(&ask, room->key);
    else
        redis_ask_range(&ask, how_to_ask(room),
                        &(struct redis_ask_range){.key = room->key,
                                                  .order = REDIS_REPLY_ASCENDING,
                                                  .from = room->cursor,
                                                  .count = room->asked});
    if (ahead)
        redis_ask_ahead(&ask);
    if (!redis_bell_read(lane->bell, &room->read, ask.commands, ask.count))
        return false;
    list_remove(&room->queue);
    room->dirty = false;
    room->reading = true;
    room->by_bell = room->rung;
    room->rung = false;
    room->read_ms = loop_now_ms(room->feed->loop);
    room->via = lane;
    lane->reading++;
    metrics_inc(lane->feed->metrics, M_FEED_READS);
    return true;
}

static void pump(struct redis_feed_lane *lane)
{
    while (lane->reading < READS_MAX && !list_empty(&lane->dirty)) {
        struct room *room = LIST_ITEM(lane->dirty.next, struct room, queue);
        if (!ask(room, lane, false))
            return; /* `open` will pump */
    }
    if (lane->reading == 0)
        redis_bell_idle(lane->bell);
}

/* --- from lane to lane ---------------------------------------------------------------------- */

static void enter(struct room *room, struct redis_feed_lane *lane)
{
    room->lane = lane;
    lane->count++;
    list_push_back(&lane->rooms, &room->link);
    redis_bell_arm(lane->bell, room->key);
}

static void stay_behind(struct room *room)
{
    if (room->ahead != NULL)
        redis_bell_disarm(room->ahead->bell, room->key);
    room->ahead = NULL;
}

static void leave(struct room *room)
{
    stay_behind(room);
    redis_bell_disarm(room->lane->bell, room->key);
    room->lane->count--;
    list_remove(&room->link);
    list_remove(&room->queue);
    room->dirty = false;
}

static void pass_to(struct room *room, struct redis_feed_lane *lane)
{
    if (room->lane == lane)
        return;
    leave(room);
    enter(room, lane);
    room->by_script = false;
    soil(room);
}

/* Its slot is on the way to that lane, and the room has gone ahead. */
static void read_ahead(struct room *room, struct redis_feed_lane *lane)
{
    if (room->ahead != lane) {
        stay_behind(room);
        room->ahead = lane;
        redis_bell_arm(lane->bell, room->key);
    }
    if (!ask(room, lane, true))
        soil_later(room, &room->feed->later, LATER_MS);
}

static void on_redirect(struct room *room, struct redis_feed_lane *from,
                        const struct redis_redirect *redirect)
{
    struct redis_feed_lane *to =
        from->ops->redirect == NULL ? NULL : from->ops->redirect(from->arg, redirect);
    /* Nodes that don't agree send us round in circles until they do. */
    if (to == NULL || ++room->redirects > REDIS_REDIRECTS_MAX) {
        room->redirects = 0;
        soil_later(room, &room->feed->later, LATER_MS);
    } else if (redirect->kind == REDIS_REDIRECT_ASK && to != room->lane) {
        read_ahead(room, to);
    } else {
        pass_to(room, to);
        soil(room);
        pump(to);
    }
}

void redis_feed_route(struct redis_feed *feed,
                      struct redis_feed_lane *(*lane_of)(void *arg, struct str key), void *arg)
{
    size_t at = 0;
    for (struct room *room; (room = strmap_next(&feed->map, &at)) != NULL;)
        pass_to(room, lane_of(arg, room->key));
    list_for_each_safe (it, after, &feed->lanes)
        pump(LIST_ITEM(it, struct redis_feed_lane, link));
}

/* --- bells ---------------------------------------------------------------------------------- */

static void on_tick(void *arg);

/* The next look at who needs to be read though nothing rang. */
static void tick_later(struct redis_feed_lane *lane, uint64_t audit_ms)
{
    uint64_t next_ms = audit_ms != 0 ? audit_ms / AUDIT_PARTS : lane->feed->poll_ms;
    if (next_ms > LONGEST_TICK_MS)
        next_ms = LONGEST_TICK_MS;
    loop_timer_start(lane->feed->loop, &lane->tick, next_ms, on_tick, lane);
}

static void poll_rooms(struct redis_feed_lane *lane)
{
    uint64_t now = loop_now_ms(lane->feed->loop);
    if (now - lane->polled_ms < lane->feed->poll_ms)
        return;
    lane->polled_ms = now;
    soil_all(lane);
}

static void audit(struct redis_feed_lane *lane)
{
    lane->due += lane->count;
    for (; lane->due >= AUDIT_PARTS; lane->due -= AUDIT_PARTS) {
        struct list *link = list_pop_front(&lane->rooms);
        list_push_back(&lane->rooms, link);
        soil(LIST_ITEM(link, struct room, link));
    }
    pump(lane);
}

static void on_tick(void *arg)
{
    struct redis_feed_lane *lane = arg;
    uint64_t audit_ms = redis_bell_audit_ms(lane->bell);
    tick_later(lane, audit_ms);
    if (audit_ms == 0)
        poll_rooms(lane);
    else
        audit(lane);
}

static void on_open(void *arg)
{
    struct redis_feed_lane *lane = arg;
    tick_later(lane, 0);
    lane->polled_ms = loop_now_ms(lane->feed->loop);
    list_for_each_safe (it, after, &lane->rooms)
        redis_bell_arm(lane->bell, LIST_ITEM(it, struct room, link)->key);
    soil_all(lane);
}

static void on_rung(void *arg, struct str key)
{
    struct redis_feed_lane *lane = arg;
    struct room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL)
        return; /* nobody follows it any more */
    ring(room);
    pump(room->lane);
}

/* Applied where it is the next entry for sure, and nothing that is being read could bring it too.
 */
static void on_hint(void *arg, struct str key, const struct roomlog_entry *entry)
{
    struct redis_feed_lane *lane = arg;
    struct room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL)
        return;
    bool known = !stream_id_is_zero(entry->prev); /* 0-0: the log may be another one by now */
    if (known && settled(room) && stream_id_eq(entry->prev, room->cursor)) {
        struct roomlog_entry copy = *entry;
        metrics_inc(lane->feed->metrics, M_FEED_HINTS);
        room->busy = true;
        deliver(room, &copy, 1);
        room->busy = false;
        (void)release(room);
        return;
    }
    if (known && room->reading) {
        /* That read may bring it: its answer will tell. */
        if (stream_id_cmp(room->hinted, entry->id) < 0)
            room->hinted = entry->id;
        return;
    }
    ring(room);
    pump(room->lane);
}

static bool on_cursor(void *arg, struct str key, struct stream_id *out_id)
{
    struct redis_feed_lane *lane = arg;
    const struct room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL || !settled(room))
        return false;
    *out_id = room->cursor;
    return true;
}

/* --- following ------------------------------------------------------------------------------ */

static struct room *room_create(struct redis_feed_lane *lane, struct str key)
{
    struct room *room = xalloc_zero(sizeof(*room));
    room->feed = lane->feed;
    room->key = (struct str){xalloc_str(key), key.len};
    room->state = STARTING;
    room->entry_bytes = FIRST_GUESS_BYTES;
    list_init(&room->link);
    list_init(&room->queue);
    redis_followers_init(&room->followers);
    strmap_put(&room->feed->map, room->key, room);
    enter(room, lane);
    soil(room);
    pump(lane);
    return room;
}

void redis_feed_follow(struct redis_feed_lane *lane, struct str key,
                       struct roomlog_follower *follower)
{
    struct room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL)
        room = room_create(lane, key);
    redis_followers_add(&room->followers, follower, room);
    if (room->state != STARTING)
        loop_defer(lane->feed->loop, &room->greet, on_greet, room);
}

void redis_feed_unfollow(struct roomlog_follower *follower)
{
    struct room *room = redis_followers_room(follower);
    redis_followers_remove(&room->followers, follower);
    if (room->followers.count != 0)
        return;
    loop_cancel(&room->greet);
    leave(room);
    (void)strmap_remove(&room->feed->map, room->key);
    move(room, GONE);
    (void)release(room);
}

size_t redis_feed_entry_bytes(const struct redis_feed *feed, struct str key)
{
    const struct room *room = strmap_find(&feed->map, key);
    return room == NULL ? FIRST_GUESS_BYTES : room->entry_bytes;
}

void redis_feed_learn(struct redis_feed *feed, struct str key, size_t count, size_t bytes)
{
    struct room *room = strmap_find(&feed->map, key);
    if (room != NULL && count != 0)
        learn(room, bytes / count);
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_closed(void *arg)
{
    struct redis_feed_lane *lane = arg;
    const struct redis_feed_lane_ops *ops = lane->ops;
    void *ops_arg = lane->arg;
    assert(lane->reading == 0);
    list_remove(&lane->link);
    free(lane);
    ops->closed(ops_arg);
}

static const struct redis_bell_ops bell_ops = {.open = on_open,
                                               .rung = on_rung,
                                               .rung_all = soil_all,
                                               .hint = on_hint,
                                               .cursor = on_cursor,
                                               .closed = on_closed};

struct redis_feed_lane *redis_feed_lane_open(struct redis_feed *feed,
                                             const struct redis_bell_config *config,
                                             const struct redis_feed_lane_ops *ops, void *arg)
{
    struct redis_feed_lane *lane = xalloc_zero(sizeof(*lane));
    lane->feed = feed;
    lane->ops = ops;
    lane->arg = arg;
    list_init(&lane->rooms);
    list_init(&lane->dirty);
    list_init(&lane->link);
    list_push_back(&feed->lanes, &lane->link);
    lane->bell = redis_bell_open(feed->loop, feed->metrics, config, &bell_ops, lane);
    return lane;
}

void redis_feed_lane_close(struct redis_feed_lane *lane)
{
    assert(lane->count == 0);
    size_t at = 0;
    for (struct room *room; (room = strmap_next(&lane->feed->map, &at)) != NULL;)
        if (room->ahead == lane)
            stay_behind(room);
    loop_timer_stop(lane->feed->loop, &lane->tick);
    redis_bell_close(lane->bell);
}

bool redis_feed_lane_readable(const struct redis_feed_lane *lane)
{
    return redis_bell_readable(lane->bell);
}

void redis_feed_lane_probe(struct redis_feed_lane *lane)
{
    redis_bell_probe(lane->bell);
}

struct redis_feed *redis_feed_create(struct loop *loop, struct metrics *metrics, uint64_t poll_ms)
{
    struct redis_feed *feed = xalloc_zero(sizeof(*feed));
    feed->loop = loop;
    feed->metrics = metrics;
    feed->poll_ms = poll_ms;
    strmap_init(&feed->map, loop_random(loop), loop_random(loop));
    list_init(&feed->lanes);
    feed->later.feed = feed->denied.feed = feed->vain.feed = feed;
    list_init(&feed->later.rooms);
    list_init(&feed->denied.rooms);
    list_init(&feed->vain.rooms);
    return feed;
}

void redis_feed_destroy(struct redis_feed *feed)
{
    if (feed == NULL)
        return;
    assert(feed->map.count == 0 && list_empty(&feed->lanes));
    loop_timer_stop(feed->loop, &feed->later.timer);
    loop_timer_stop(feed->loop, &feed->denied.timer);
    loop_timer_stop(feed->loop, &feed->vain.timer);
    redis_reply_entries_fini(&feed->scratch);
    strmap_fini(&feed->map);
    free(feed);
}
