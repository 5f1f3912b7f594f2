/* Lanes: through which one a room is read, and what rings there. */
#include "roomlog/redis_feed_impl.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum {
    READS_MAX = 64,
    LONGEST_TICK_MS = 1000,
    AUDIT_PARTS = 100 /* of the rooms, one after the other, so that audits make no bursts */
};

/* --- reading -------------------------------------------------------------------------------- */

void redis_feed_pump(struct redis_feed_lane *lane)
{
    while (lane->reading < READS_MAX && !list_empty(&lane->dirty)) {
        struct redis_feed_room *room = LIST_ITEM(lane->dirty.next, struct redis_feed_room, queue);
        if (!redis_feed_ask(room, lane, false))
            return; /* `open` will pump */
    }
    if (lane->reading == 0)
        redis_bell_idle(lane->bell);
}

static void soil_all(void *arg)
{
    struct redis_feed_lane *lane = arg;
    list_for_each_safe (it, after, &lane->rooms)
        redis_feed_soil(LIST_ITEM(it, struct redis_feed_room, link));
    redis_feed_pump(lane);
}

/* --- from lane to lane ---------------------------------------------------------------------- */

void redis_feed_enter(struct redis_feed_room *room, struct redis_feed_lane *lane)
{
    room->lane = lane;
    lane->count++;
    list_push_back(&lane->rooms, &room->link);
    redis_bell_arm(lane->bell, room->key);
}

void redis_feed_stay_behind(struct redis_feed_room *room)
{
    if (room->ahead == NULL)
        return;
    room->ahead->ahead--;
    redis_bell_disarm(room->ahead->bell, room->key);
    room->ahead = NULL;
}

void redis_feed_leave(struct redis_feed_room *room)
{
    redis_feed_stay_behind(room);
    redis_bell_disarm(room->lane->bell, room->key);
    room->lane->count--;
    list_remove(&room->link);
    list_remove(&room->queue);
    room->dirty = false;
}

static void pass_to(struct redis_feed_room *room, struct redis_feed_lane *lane)
{
    if (room->lane == lane)
        return;
    redis_feed_leave(room);
    redis_feed_enter(room, lane);
    room->by_script = false;
    redis_feed_soil(room);
}

/* Its slot is on the way to that lane, and the room has gone ahead. */
static void read_ahead(struct redis_feed_room *room, struct redis_feed_lane *lane)
{
    if (room->ahead != lane) {
        redis_feed_stay_behind(room);
        room->ahead = lane;
        lane->ahead++;
        redis_bell_arm(lane->bell, room->key);
    }
    if (!redis_feed_ask(room, lane, true))
        redis_feed_soil_soon(room);
}

void redis_feed_redirect(struct redis_feed_room *room, struct redis_feed_lane *from,
                         const struct redis_redirect *redirect)
{
    struct redis_feed_lane *to =
        from->ops->redirect == NULL ? NULL : from->ops->redirect(from->arg, redirect);
    /* Nodes that don't agree send us round in circles until they do. */
    if (to == NULL || ++room->redirects > REDIS_REDIRECTS_MAX) {
        room->redirects = 0;
        redis_feed_soil_soon(room);
    } else if (redirect->kind == REDIS_REDIRECT_ASK && to != room->lane) {
        read_ahead(room, to);
    } else {
        pass_to(room, to);
        redis_feed_soil(room);
        redis_feed_pump(to);
    }
}

void redis_feed_route(struct redis_feed *feed,
                      struct redis_feed_lane *(*lane_of)(void *arg, struct str key), void *arg)
{
    size_t at = 0;
    for (struct redis_feed_room *room; (room = strmap_next(&feed->map, &at)) != NULL;)
        pass_to(room, lane_of(arg, room->key));
    list_for_each_safe (it, after, &feed->lanes)
        redis_feed_pump(LIST_ITEM(it, struct redis_feed_lane, link));
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
        redis_feed_soil(LIST_ITEM(link, struct redis_feed_room, link));
    }
    redis_feed_pump(lane);
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

/* Rooms of other lanes that have gone ahead to this one. What they ask at home leads here again. */
static void open_ahead(struct redis_feed_lane *lane)
{
    size_t at = 0;
    for (struct redis_feed_room *room; (room = strmap_next(&lane->feed->map, &at)) != NULL;) {
        if (room->ahead != lane)
            continue;
        redis_bell_arm(lane->bell, room->key);
        redis_feed_soil(room);
        redis_feed_pump(room->lane);
    }
}

static void on_open(void *arg)
{
    struct redis_feed_lane *lane = arg;
    tick_later(lane, 0);
    lane->polled_ms = loop_now_ms(lane->feed->loop);
    list_for_each_safe (it, after, &lane->rooms)
        redis_bell_arm(lane->bell, LIST_ITEM(it, struct redis_feed_room, link)->key);
    soil_all(lane);
    if (lane->ahead != 0)
        open_ahead(lane);
}

static void on_rung(void *arg, struct str key)
{
    struct redis_feed_lane *lane = arg;
    struct redis_feed_room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL)
        return; /* nobody follows it any more */
    redis_feed_ring(room);
    redis_feed_pump(room->lane);
}

/* Applied where it is the next entry for sure, and nothing that is being read could bring it too.
 */
static void on_hint(void *arg, struct str key, const struct roomlog_entry *entry)
{
    struct redis_feed_lane *lane = arg;
    struct redis_feed_room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL)
        return;
    bool known = !stream_id_is_zero(entry->prev); /* 0-0: the log may be another one by now */
    if (known && redis_feed_settled(room) && stream_id_eq(entry->prev, room->cursor)) {
        struct roomlog_entry copy = *entry;
        metrics_inc(lane->feed->metrics, M_FEED_HINTS);
        room->busy = true;
        redis_feed_deliver(room, &copy, 1);
        room->busy = false;
        (void)redis_feed_release(room);
        return;
    }
    if (known && room->reading) {
        /* That read may bring it: its answer will tell. */
        if (stream_id_cmp(room->hinted, entry->id) < 0)
            room->hinted = entry->id;
        return;
    }
    redis_feed_ring(room);
    redis_feed_pump(room->lane);
}

static bool on_cursor(void *arg, struct str key, struct stream_id *out_id)
{
    struct redis_feed_lane *lane = arg;
    const struct redis_feed_room *room = strmap_find(&lane->feed->map, key);
    if (room == NULL || !redis_feed_settled(room))
        return false;
    *out_id = room->cursor;
    return true;
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
    redis_feed_later_init(&lane->later, feed);
    list_init(&lane->link);
    list_push_back(&feed->lanes, &lane->link);
    lane->bell = redis_bell_open(feed->loop, feed->metrics, config, &bell_ops, lane);
    return lane;
}

void redis_feed_lane_close(struct redis_feed_lane *lane)
{
    assert(lane->count == 0);
    size_t at = 0;
    for (struct redis_feed_room *room; (room = strmap_next(&lane->feed->map, &at)) != NULL;)
        if (room->ahead == lane)
            redis_feed_stay_behind(room);
    loop_timer_stop(lane->feed->loop, &lane->tick);
    loop_timer_stop(lane->feed->loop, &lane->later.timer);
    redis_bell_close(lane->bell);
}

bool redis_feed_lane_idle(const struct redis_feed_lane *lane)
{
    return lane->count == 0 && lane->ahead == 0;
}

bool redis_feed_lane_readable(const struct redis_feed_lane *lane)
{
    return redis_bell_readable(lane->bell);
}

void redis_feed_lane_probe(struct redis_feed_lane *lane)
{
    redis_bell_probe(lane->bell);
}
