#include "roomlog/redis_feed_impl.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "roomlog/redis_ask.h"

#include <assert.h>
#include <stdlib.h>

enum {
    COUNT_MAX = 100,         /* entries of one live read, the cursor's own not counted */
    FEWEST = 2,              /* a read asks for the cursor's own entry and at least one more */
    READ_BYTES = 256 * 1024, /* what one read may bring, about */
    FIRST_GUESS_BYTES = 1024,
    ENTRY_OVERHEAD = 64, /* of an entry's id and framing, about */
    LATER_MS = 250,      /* after an error that may pass, */
    LATER_FEW = 256,     /* no more at a time while it doesn't */
    VAIN_BELLS = 3,      /* that rang for nothing, in a row, are no accident */
    VAIN_MS = 1000,      /* the longest that such a room waits for its next read */
    DENIED_MS = 2000     /* after one that passes only where somebody changes our rights */
};

#define TO(state) (1u << (state))
static const unsigned moves[REDIS_FEED_STATES] = {
    [REDIS_FEED_STARTING] = TO(REDIS_FEED_LIVE) | TO(REDIS_FEED_WRONG) | TO(REDIS_FEED_GONE),
    [REDIS_FEED_LIVE] = TO(REDIS_FEED_WRONG) | TO(REDIS_FEED_GONE),
    [REDIS_FEED_WRONG] = TO(REDIS_FEED_LIVE) | TO(REDIS_FEED_GONE),
    [REDIS_FEED_GONE] = 0,
};
#undef TO

static void move(struct redis_feed_room *room, enum redis_feed_state state)
{
    assert((moves[room->state] & (1u << state)) != 0);
    room->state = state;
}

/* --- rooms ---------------------------------------------------------------------------------- */

bool redis_feed_release(struct redis_feed_room *room)
{
    if (room->state != REDIS_FEED_GONE || room->reading || room->busy || room->followers.walks != 0)
        return false;
    free((char *)room->key.p);
    free(room);
    return true;
}

bool redis_feed_settled(const struct redis_feed_room *room)
{
    return room->state == REDIS_FEED_LIVE && !room->reading && list_empty(&room->queue);
}

void redis_feed_soil(struct redis_feed_room *room)
{
    if (room->state == REDIS_FEED_GONE)
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

static void on_later(void *arg)
{
    struct redis_feed_later *later = arg;
    size_t left = later->came < later->few / 2 ? SIZE_MAX : later->few;
    later->came = 0;
    for (; left != 0 && !list_empty(&later->rooms); left--)
        redis_feed_soil(LIST_ITEM(later->rooms.next, struct redis_feed_room, queue));
    if (!list_empty(&later->rooms))
        loop_timer_start(later->feed->loop, &later->timer, later->ms, on_later, later);
    list_for_each_safe (it, after, &later->feed->lanes)
        redis_feed_pump(LIST_ITEM(it, struct redis_feed_lane, link));
}

/* Redis couldn't just now, or wouldn't. */
static void soil_later(struct redis_feed_room *room, struct redis_feed_later *later)
{
    if (room->state == REDIS_FEED_GONE)
        return;
    room->dirty = false;
    list_remove(&room->queue);
    list_push_back(&later->rooms, &room->queue);
    later->came++;
    if (!loop_timer_running(&later->timer))
        loop_timer_start(room->feed->loop, &later->timer, later->ms, on_later, later);
}

void redis_feed_soil_soon(struct redis_feed_room *room)
{
    soil_later(room, &room->lane->later);
}

/* A room whose bells ring for nothing again and again is read a little later. Where there are more
 * keys than Redis tracks, it forgets some and rings for them; each read that this asks for makes it
 * forget another, as fast as both of us can. */
static void soil_for_bell(struct redis_feed_room *room)
{
    if (room->vain < VAIN_BELLS) {
        redis_feed_soil(room);
    } else if (list_empty(&room->queue)) {
        metrics_inc(room->feed->metrics, M_FEED_VAIN);
        soil_later(room, &room->feed->vain);
    }
}

void redis_feed_ring(struct redis_feed_room *room)
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
static void weigh_bells(struct redis_feed_room *room, bool found)
{
    if (!found) {
        room->vain += room->by_bell;
        return;
    }
    room->vain = 0;
    if (!list_empty(&room->queue))
        redis_feed_soil(room); /* it rang meanwhile */
}

static void learn(struct redis_feed_room *room, size_t bytes)
{
    bytes += ENTRY_OVERHEAD;
    /* Up at once, down slowly: too small a guess costs memory, too large a one a round trip. */
    room->entry_bytes = bytes > room->entry_bytes ? bytes : (room->entry_bytes * 7 + bytes) / 8;
}

/* --- telling -------------------------------------------------------------------------------- */

static void on_greet(void *arg)
{
    struct redis_feed_room *room = arg;
    redis_followers_start(&room->followers, room->cursor);
    (void)redis_feed_release(room);
}

static void tell_broken(struct redis_feed_room *room, enum verdict why, struct stream_id head)
{
    room->cursor = head;
    room->proofless = false;
    redis_bell_arm(room->lane->bell, room->key);
    if (room->ahead != NULL)
        redis_bell_arm(room->ahead->bell, room->key);
    metrics_inc(room->feed->metrics, M_FEED_BREAKS);
    redis_followers_broken(&room->followers, why, head);
}

void redis_feed_deliver(struct redis_feed_room *room, struct roomlog_entry *entries, size_t count)
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
static void tell_entries(struct redis_feed_room *room, size_t at)
{
    struct redis_reply_entries *scratch = &room->feed->scratch;
    weigh_bells(room, scratch->count != at);
    if (scratch->count != at)
        redis_feed_deliver(room, &scratch->p[at], scratch->count - at);
    else
        room->proofless = at == 0;
}

/* --- answers -------------------------------------------------------------------------------- */

/* There is no log to be read, and members must not wait for it: each reads for itself, and is told
 * why not. head: where the feed goes on if it can be read again. */
static void go_wrong(struct redis_feed_room *room, struct stream_id head)
{
    bool started = room->state != REDIS_FEED_STARTING;
    move(room, REDIS_FEED_WRONG);
    if (started)
        tell_broken(room, VERDICT_RESET, head);
    else
        on_greet(room);
}

static void on_error(struct redis_feed_room *room, const struct redis_reply *reply, enum rd_err err)
{
    bool wrong = room->state == REDIS_FEED_WRONG;
    if (err == RD_EWRONGTYPE) {
        if (wrong)
            return;
        logger_warn("a room's key holds something else than a stream", KV_STR("key", room->key));
        go_wrong(room, STREAM_ID_ZERO);
        return;
    }
    if (err == RD_ETOOBIG && room->asked > FEWEST) {
        room->entry_bytes = READ_BYTES; /* so many at once were more than a reply may be */
        redis_feed_soil(room);
        return;
    }
    /* What even the fewest are too large for stays so for a while. */
    bool denied = err == RD_EDENIED || err == RD_ETOOBIG;
    if (denied)
        soil_later(room, &room->feed->denied);
    else
        redis_feed_soil_soon(room);
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
static void on_info(struct redis_feed_room *room, const struct redis_reply *reply)
{
    struct verdict_info info;
    size_t bytes;
    if (!redis_reply_info(reply, &info, &bytes)) {
        on_error(room, reply, redis_reply_err(reply));
        return;
    }
    bool started = room->state == REDIS_FEED_WRONG;
    if (bytes != 0)
        learn(room, bytes);
    move(room, REDIS_FEED_LIVE);
    if (started) {
        /* What is there now is held against its cursor. 0-0: it was no stream, and what has come
         * into the new log since is read as after a reset. */
        if (info.exists || !stream_id_is_zero(room->cursor))
            redis_feed_soil(room);
        return;
    }
    room->cursor = info.last;
    on_greet(room);
}

static void on_plain(struct redis_feed_room *room, const struct redis_reply *reply)
{
    struct redis_reply_entries *scratch = &room->feed->scratch;
    if (!redis_reply_range(reply, REDIS_REPLY_ASCENDING, scratch)) {
        on_error(room, reply, redis_reply_err(reply));
        return;
    }
    if (scratch->count == 0 || !stream_id_eq(scratch->p[0].id, room->cursor)) {
        room->proofless = true;
        redis_feed_soil(room);
        return;
    }
    if (scratch->count >= room->asked)
        redis_feed_soil(room); /* what lies behind this page has rung already */
    tell_entries(room, 1);
}

static void on_exec(struct redis_feed_room *room, const struct redis_reply *reply)
{
    struct redis_reply_entries *scratch = &room->feed->scratch;
    struct verdict_info info;
    size_t bytes;
    enum rd_err err;
    if (!room->by_script && redis_reply_exec_refused(reply)) {
        room->by_script = true;
        redis_feed_soil(room);
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
        redis_feed_soil(room);
    tell_entries(room, first != NULL && stream_id_eq(*first, room->cursor) ? 1 : 0);
}

/* Doesn't change between a question and its answer. */
static enum redis_ask_how how_to_ask(const struct redis_feed_room *room)
{
    if (!room->proofless && !stream_id_is_zero(room->cursor))
        return REDIS_ASK_PLAIN;
    return room->by_script ? REDIS_ASK_SCRIPT : REDIS_ASK_MULTI;
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_feed_room *room = RD_CONTAINER(command, struct redis_feed_room, read);
    struct redis_feed_lane *lane = room->via;
    bool changed = room->changed || reply == NULL;
    lane->reading--;
    room->reading = false;
    room->changed = false;
    if (redis_feed_release(room)) {
        redis_feed_pump(lane);
        return;
    }
    if (changed)
        soil_for_bell(room);
    struct redis_redirect redirect;
    if (reply != NULL && redis_redirect_of(reply, &redirect)) {
        redis_feed_redirect(room, lane, &redirect);
        redis_feed_pump(lane);
        return;
    }
    room->redirects = 0;
    if (lane == room->lane)
        redis_feed_stay_behind(room);

    struct redis_feed_lane *home = room->lane;
    room->busy = true; /* callbacks may let go of the room */
    if (reply == NULL) {
        /* The connection is gone; `open` reads everything again. */
    } else if (room->state == REDIS_FEED_STARTING || room->state == REDIS_FEED_WRONG) {
        on_info(room, reply);
    } else if (how_to_ask(room) == REDIS_ASK_PLAIN) {
        on_plain(room, reply);
    } else {
        on_exec(room, reply);
    }
    room->busy = false;
    if (stream_id_cmp(room->cursor, room->hinted) < 0)
        redis_feed_soil(room);
    room->hinted = STREAM_ID_ZERO;
    (void)redis_feed_release(room);
    redis_feed_pump(lane);
    if (home != lane)
        redis_feed_pump(home);
}

/* --- asking --------------------------------------------------------------------------------- */

static size_t count_for(const struct redis_feed_room *room)
{
    size_t count = READ_BYTES / room->entry_bytes;
    return count > COUNT_MAX ? COUNT_MAX : count == 0 ? 1 : count;
}

bool redis_feed_ask(struct redis_feed_room *room, struct redis_feed_lane *lane, bool ahead)
{
    struct redis_ask ask;
    room->asked = count_for(room) + 1;
    room->read.done = on_answer;
    if (room->state != REDIS_FEED_LIVE)
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

/* --- following ------------------------------------------------------------------------------ */

static struct redis_feed_room *room_create(struct redis_feed_lane *lane, struct str key)
{
    struct redis_feed_room *room = xalloc_zero(sizeof(*room));
    room->feed = lane->feed;
    room->key = (struct str){xalloc_str(key), key.len};
    room->state = REDIS_FEED_STARTING;
    room->entry_bytes = FIRST_GUESS_BYTES;
    list_init(&room->link);
    list_init(&room->queue);
    redis_followers_init(&room->followers);
    strmap_put(&room->feed->map, room->key, room);
    redis_feed_enter(room, lane);
    redis_feed_soil(room);
    redis_feed_pump(lane);
    return room;
}

void redis_feed_follow(struct redis_feed_lane *lane, struct str key,
                       struct roomlog_follower *follower)
{
    struct redis_feed_room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL)
        room = room_create(lane, key);
    redis_followers_add(&room->followers, follower, room);
    if (room->state != REDIS_FEED_STARTING)
        loop_defer(lane->feed->loop, &room->greet, on_greet, room);
}

void redis_feed_unfollow(struct roomlog_follower *follower)
{
    struct redis_feed_room *room = redis_followers_room(follower);
    redis_followers_remove(&room->followers, follower);
    if (room->followers.count != 0)
        return;
    loop_cancel(&room->greet);
    redis_feed_leave(room);
    (void)strmap_remove(&room->feed->map, room->key);
    move(room, REDIS_FEED_GONE);
    (void)redis_feed_release(room);
}

size_t redis_feed_entry_bytes(const struct redis_feed *feed, struct str key)
{
    const struct redis_feed_room *room = strmap_find(&feed->map, key);
    return room == NULL ? FIRST_GUESS_BYTES : room->entry_bytes;
}

void redis_feed_learn(struct redis_feed *feed, struct str key, size_t count, size_t bytes)
{
    struct redis_feed_room *room = strmap_find(&feed->map, key);
    if (room != NULL && count != 0)
        learn(room, bytes / count);
}

/* --- life ----------------------------------------------------------------------------------- */

static void later_init(struct redis_feed_later *later, struct redis_feed *feed, uint64_t ms,
                       size_t few)
{
    *later = (struct redis_feed_later){.feed = feed, .ms = ms, .few = few};
    list_init(&later->rooms);
}

void redis_feed_later_init(struct redis_feed_later *later, struct redis_feed *feed)
{
    later_init(later, feed, LATER_MS, LATER_FEW);
}

struct redis_feed *redis_feed_create(struct loop *loop, struct metrics *metrics, uint64_t poll_ms)
{
    struct redis_feed *feed = xalloc_zero(sizeof(*feed));
    feed->loop = loop;
    feed->metrics = metrics;
    feed->poll_ms = poll_ms;
    strmap_init(&feed->map, loop_random(loop), loop_random(loop));
    list_init(&feed->lanes);
    later_init(&feed->denied, feed, DENIED_MS, SIZE_MAX);
    later_init(&feed->vain, feed, VAIN_MS, SIZE_MAX);
    return feed;
}

void redis_feed_destroy(struct redis_feed *feed)
{
    if (feed == NULL)
        return;
    assert(feed->map.count == 0 && list_empty(&feed->lanes));
    loop_timer_stop(feed->loop, &feed->denied.timer);
    loop_timer_stop(feed->loop, &feed->vain.timer);
    redis_reply_entries_fini(&feed->scratch);
    strmap_fini(&feed->map);
    free(feed);
}
