#include "roomlog/roomlog_mem.h"

#include "base/xalloc.h"
#include "roomlog/mem_refs.h"
#include "roomlog/mem_store.h"

#include <assert.h>
#include <stdlib.h>

enum { FEED_BATCH = 128 /* entries a follower is given at a time; the rest a turn later */ };

/* An append or a read that waits for its turn. */
struct request {
    struct list link;
    struct mem_entry *entry;       /* of an append */
    struct roomlog_append *append; /* NULL: cancelled, and done all the same */
    struct roomlog_read *read;
    struct roomlog_state *state;
    struct str room;
    char bytes[];
};

struct follower {
    struct roomlog_follower *follower;
    struct mem_room *room;
    struct list in_room;
    struct list due; /* in log->due or log->feeding while there may be something to hear */
    struct stream_id cursor;
    bool started;
};

struct mem_log {
    struct roomlog log;
    struct loop *loop;
    struct metrics *metrics;
    struct mem_store store;
    struct mem_refs refs;

    struct list requests;
    struct list answering; /* those of this turn: here and not on the stack, for cancel and close */
    size_t in_flight;
    struct loop_task answer_later;
    struct list due;
    struct list feeding;
    struct loop_task feed;

    struct loop_timer sweep; /* of what is too old in rooms that nobody appends to */
    size_t sweep_at;

    bool calling;
    bool closing;
};

static struct mem_log *mem_of(struct roomlog *log)
{
    return RD_CONTAINER(log, struct mem_log, log);
}

/* --- calling out ---------------------------------------------------------------------------- */

static void destroy(struct mem_log *log);

/* Around every callback: its entries are borrowed from the store, and it may append, trim or reset.
 */
static void call_begin(struct mem_log *log)
{
    log->calling = true;
    mem_store_hold(&log->store);
}

/* False: the callback has closed the log, and it is gone. */
static bool call_end(struct mem_log *log)
{
    log->calling = false;
    mem_store_release(&log->store);
    if (!log->closing)
        return true;
    destroy(log);
    return false;
}

/* --- requests ------------------------------------------------------------------------------- */

static void answer_all(void *arg);

static bool admit_request(struct mem_log *log)
{
    if (log->in_flight < log->store.limits.max_in_flight)
        return true;
    metrics_inc(log->metrics, M_LOG_BUSY);
    return false;
}

static struct request *request_create(struct mem_log *log, struct str room)
{
    struct request *r = xalloc(sizeof(*r) + room.len);
    *r = (struct request){.room = {r->bytes, room.len}};
    if (room.len != 0)
        memcpy(r->bytes, room.p, room.len);
    list_push_back(&log->requests, &r->link);
    log->in_flight++;
    loop_defer(log->loop, &log->answer_later, answer_all, log);
    return r;
}

static void request_destroy(struct mem_log *log, struct request *r)
{
    list_remove(&r->link);
    log->in_flight--;
    free(r->entry);
    free(r);
}

static enum rd_err mem_append(struct roomlog *base, struct str room,
                              const struct roomlog_publish *what, struct roomlog_append *append)
{
    struct mem_log *log = mem_of(base);
    if (mem_room_cost(what) > log->store.limits.max_bytes)
        return RD_ETOOBIG;
    if (!admit_request(log))
        return RD_EBUSY;
    struct request *r = request_create(log, room);
    r->entry = mem_room_entry(what);
    r->append = append;
    append->impl = r;
    return RD_OK;
}

static void mem_cancel_append(struct roomlog *base, struct roomlog_append *append)
{
    struct request *r = append->impl;
    r->append = NULL;
    append->impl = NULL;
}

static enum rd_err mem_read(struct roomlog *base, struct str room, struct roomlog_read *read)
{
    struct mem_log *log = mem_of(base);
    if (!admit_request(log))
        return RD_EBUSY;
    struct request *r = request_create(log, room);
    r->read = read;
    read->impl = r;
    return RD_OK;
}

static void mem_cancel_read(struct roomlog *base, struct roomlog_read *read)
{
    request_destroy(mem_of(base), read->impl);
    read->impl = NULL;
}

static enum rd_err mem_state(struct roomlog *base, struct str room, struct roomlog_state *state)
{
    struct mem_log *log = mem_of(base);
    if (!admit_request(log))
        return RD_EBUSY;
    struct request *r = request_create(log, room);
    r->state = state;
    state->impl = r;
    return RD_OK;
}

static void mem_cancel_state(struct roomlog *base, struct roomlog_state *state)
{
    request_destroy(mem_of(base), state->impl);
    state->impl = NULL;
}

/* False: the callback closed the log. */
static bool answer_append(struct mem_log *log, struct request *r)
{
    struct roomlog_append *append = r->append;
    struct str from = r->entry->e.from;
    struct str ref = r->entry->e.ref;
    uint64_t now_ms = loop_now_ms(log->loop);
    struct stream_id id = STREAM_ID_ZERO;
    enum rd_err err = RD_OK;

    bool duplicate = mem_refs_find(&log->refs, now_ms, r->room, from, ref, &id);
    if (!duplicate) {
        const struct mem_entry *entry = r->entry;
        err = mem_store_append(&log->store, r->room, loop_wall_ms(log->loop), &r->entry);
        if (err == RD_OK) {
            /* Its texts are still there: it is the newest of its room now. */
            id = entry->e.id;
            metrics_add(log->metrics, M_LOG_REFS_FORGOTTEN,
                        mem_refs_remember(&log->refs, now_ms, r->room, from, ref, id));
        }
    }
    request_destroy(log, r);
    if (append == NULL)
        return true;

    append->impl = NULL;
    call_begin(log);
    append->done(append, err, id, duplicate);
    return call_end(log);
}

/* The entries from place on, as far as the read's bounds allow. Returns owned, NULL where there are
 * none. */
static struct roomlog_entry *views(const struct mem_room *room, size_t place, size_t max_entries,
                                   size_t max_bytes, size_t *out_count)
{
    size_t most = room == NULL ? 0 : room->count - place;
    if (most > max_entries)
        most = max_entries;

    struct roomlog_entry *entries =
        most == 0 ? NULL : xalloc_array(NULL, most, sizeof(struct roomlog_entry));
    size_t count = 0;
    for (size_t left = max_bytes; count < most; count++) {
        entries[count] = mem_room_view(room, place + count);
        size_t len = roomlog_entry_bytes(&entries[count]);
        if (len > left && count != 0)
            break;
        left = len > left ? 0 : left - len;
    }
    *out_count = count;
    return entries;
}

/* Where the newest entries begin that a read of them may be given. */
static size_t place_of_newest(const struct mem_room *room, const struct roomlog_read *read)
{
    size_t all = room == NULL ? 0 : room->count;
    size_t place = all;
    for (size_t left = read->max_bytes; place != 0 && all - place < read->newest; place--) {
        size_t len = roomlog_entry_bytes(&mem_room_at(room, place - 1)->e);
        if (len > left && place != all)
            break;
        left = len > left ? 0 : left - len;
    }
    return place;
}

static bool answer_read(struct mem_log *log, struct request *r)
{
    struct roomlog_read *read = r->read;
    const struct mem_room *room = mem_store_find(&log->store, r->room);
    struct roomlog_page page = {.verdict = VERDICT_OK};
    struct roomlog_entry *entries = NULL;
    size_t all = room == NULL ? 0 : room->count;
    size_t place = 0;

    if (read->from == ROOMLOG_AFTER)
        page.verdict = mem_room_verdict(room, read->after, &place);
    else if (read->from == ROOMLOG_NEWEST)
        place = place_of_newest(room, read);
    else if (read->from == ROOMLOG_HEAD)
        place = all;

    if (page.verdict == VERDICT_OK) {
        /* The newest are bounded at their other end. */
        bool whole = read->from == ROOMLOG_NEWEST;
        entries = views(room, place, whole ? SIZE_MAX : read->max_entries,
                        whole ? SIZE_MAX : read->max_bytes, &page.count);
        page.at_end = place + page.count == all;
    }
    if (read->from == ROOMLOG_AFTER && page.count != 0) {
        entries[0].prev = read->after;
        entries[0].prev_known = true;
    }
    page.entries = entries;
    if (read->want_info || read->from == ROOMLOG_HEAD || page.verdict != VERDICT_OK)
        page.info = mem_room_info(room);

    request_destroy(log, r);
    read->impl = NULL;
    call_begin(log);
    read->done(read, RD_OK, &page);
    free(entries);
    return call_end(log);
}

static bool answer_state(struct mem_log *log, struct request *r)
{
    struct roomlog_state *state = r->state;
    const struct mem_room *room = mem_store_find(&log->store, r->room);
    const struct mem_state *of = room == NULL ? NULL : room->state;
    struct roomlog_state_view view = {.count = 0};
    struct roomlog_entry *items = NULL;

    if (of != NULL) {
        view.position = of->position;
        items = xalloc_array(NULL, of->by_key.count + 1, sizeof(*items));
        for (struct list *at = of->items.next; at != &of->items; at = at->next)
            items[view.count++] = LIST_ITEM(at, struct mem_entry, link)->e;
    }
    view.items = items;

    request_destroy(log, r);
    state->impl = NULL;
    call_begin(log);
    state->done(state, RD_OK, &view);
    free(items);
    return call_end(log);
}

static bool answer(struct mem_log *log, struct request *r)
{
    if (r->read != NULL)
        return answer_read(log, r);
    return r->state != NULL ? answer_state(log, r) : answer_append(log, r);
}

static void answer_all(void *arg)
{
    struct mem_log *log = arg;
    /* What is asked from inside a callback waits for the next turn. */
    list_move_all(&log->answering, &log->requests);
    while (!list_empty(&log->answering)) {
        struct request *r = LIST_ITEM(log->answering.next, struct request, link);
        if (!answer(log, r))
            return;
    }
}

/* --- the feed ------------------------------------------------------------------------------- */

static void feed_all(void *arg);

static void feed_later(struct mem_log *log, struct follower *f)
{
    if (!list_empty(&f->due))
        return;
    list_push_back(&log->due, &f->due);
    loop_defer(log->loop, &log->feed, feed_all, log);
}

/* Something changed in room that its followers may have to hear of. */
static void changed(void *arg, struct mem_room *room)
{
    list_for_each_safe (link, next, &room->followers)
        feed_later(arg, LIST_ITEM(link, struct follower, in_room));
}

static void mem_follow(struct roomlog *base, struct str name, struct roomlog_follower *follower)
{
    struct mem_log *log = mem_of(base);
    struct follower *f = xalloc(sizeof(*f));

    *f = (struct follower){.follower = follower};
    list_init(&f->due);
    f->room = mem_store_follow(&log->store, name, &f->in_room);
    follower->impl = f;
    feed_later(log, f);
}

static void mem_unfollow(struct roomlog *base, struct roomlog_follower *follower)
{
    struct mem_log *log = mem_of(base);
    struct follower *f = follower->impl;

    follower->impl = NULL;
    list_remove(&f->due);
    mem_store_unfollow(&log->store, f->room, &f->in_room);
    free(f);
}

/* Each returns false where the callback closed the log. None touches f after it: it may have
 * unfollowed. */
static bool feed_start(struct mem_log *log, struct follower *f)
{
    f->started = true;
    f->cursor = f->room->last;
    call_begin(log);
    f->follower->ops->started(f->follower, f->cursor);
    return call_end(log);
}

static bool feed_broken(struct mem_log *log, struct follower *f, enum verdict why)
{
    metrics_inc(log->metrics, M_FEED_BREAKS);
    f->cursor = f->room->last;
    call_begin(log);
    f->follower->ops->broken(f->follower, why, f->cursor);
    return call_end(log);
}

static bool feed_entries(struct mem_log *log, struct follower *f, size_t place)
{
    size_t count;
    struct roomlog_entry *entries = views(f->room, place, FEED_BATCH, SIZE_MAX, &count);
    if (count == 0)
        return true;
    entries[0].prev = f->cursor;
    entries[0].prev_known = true;
    f->cursor = entries[count - 1].id;
    if (place + count < f->room->count)
        feed_later(log, f);

    call_begin(log);
    f->follower->ops->entries(f->follower, entries, count);
    free(entries);
    return call_end(log);
}

/* The feed's own place is held against the log like a client's: see verdict.h. */
static bool feed_one(struct mem_log *log, struct follower *f)
{
    size_t place;
    if (!f->started)
        return feed_start(log, f);
    metrics_inc(log->metrics, M_FEED_READS);
    enum verdict verdict = mem_room_verdict(f->room, f->cursor, &place);
    return verdict == VERDICT_OK ? feed_entries(log, f, place) : feed_broken(log, f, verdict);
}

static void feed_all(void *arg)
{
    struct mem_log *log = arg;
    list_move_all(&log->feeding, &log->due);
    for (struct list *link; (link = list_pop_front(&log->feeding)) != NULL;)
        if (!feed_one(log, LIST_ITEM(link, struct follower, due)))
            return;
}

/* --- what is too old ------------------------------------------------------------------------ */

enum { SWEEP_PAUSE_MS = 10, SWEEP_SOONEST_MS = 1000, SWEEP_LATEST_MS = 60 * 1000 };

static void on_sweep(void *arg);

static void sweep_in(struct mem_log *log, uint64_t ms)
{
    loop_timer_start(log->loop, &log->sweep, ms, on_sweep, log);
}

static uint64_t sweep_interval_ms(const struct mem_log *log)
{
    uint64_t tenth = log->store.limits.max_age_ms / 10;
    return tenth < SWEEP_SOONEST_MS  ? SWEEP_SOONEST_MS
           : tenth > SWEEP_LATEST_MS ? SWEEP_LATEST_MS
                                     : tenth;
}

/* Rooms come and go between two turns, so that one may be passed over: the next sweep finds it. */
static void on_sweep(void *arg)
{
    struct mem_log *log = arg;
    if (mem_store_sweep(&log->store, loop_wall_ms(log->loop), &log->sweep_at)) {
        sweep_in(log, SWEEP_PAUSE_MS);
        return;
    }
    log->sweep_at = 0;
    sweep_in(log, sweep_interval_ms(log));
}

/* --- life ----------------------------------------------------------------------------------- */

static bool mem_readable(struct roomlog *base, struct str room)
{
    return true;
}

static bool mem_ready(struct roomlog *base)
{
    return true;
}

static void drop_requests(struct mem_log *log, struct list *requests)
{
    while (!list_empty(requests)) {
        struct request *r = LIST_ITEM(requests->next, struct request, link);
        assert(r->append == NULL && r->read == NULL && r->state == NULL);
        request_destroy(log, r);
    }
}

static void destroy(struct mem_log *log)
{
    mem_store_fini(&log->store);
    mem_refs_fini(&log->refs);
    free(log);
}

static void mem_close(struct roomlog *base)
{
    struct mem_log *log = mem_of(base);
    drop_requests(log, &log->requests);
    drop_requests(log, &log->answering);
    loop_cancel(&log->answer_later);
    loop_cancel(&log->feed);
    loop_timer_stop(log->loop, &log->sweep);
    metrics_set(log->metrics, M_LOG_READY, 0);
    log->closing = true;
    if (!log->calling)
        destroy(log);
}

static const struct roomlog_ops OPS = {
    .append = mem_append,
    .cancel_append = mem_cancel_append,
    .read = mem_read,
    .cancel_read = mem_cancel_read,
    .state = mem_state,
    .cancel_state = mem_cancel_state,
    .follow = mem_follow,
    .unfollow = mem_unfollow,
    .readable = mem_readable,
    .ready = mem_ready,
    .close = mem_close,
};

struct roomlog *roomlog_mem_create(struct loop *loop, struct metrics *metrics,
                                   const struct roomlog_mem_limits *limits)
{
    struct mem_log *log = xalloc(sizeof(*log));
    *log = (struct mem_log){
        .log = {&OPS, limits->max_entries, limits->max_state_keys},
        .loop = loop,
        .metrics = metrics,
    };
    uint64_t seed[2] = {loop_random(loop), loop_random(loop)};
    mem_store_init(&log->store, metrics, limits, seed, changed, log);
    mem_refs_init(&log->refs, limits->max_refs, limits->dedupe_ms, seed);
    list_init(&log->requests);
    list_init(&log->answering);
    list_init(&log->due);
    list_init(&log->feeding);
    metrics_set(metrics, M_LOG_READY, 1);
    if (limits->max_age_ms != 0)
        sweep_in(log, sweep_interval_ms(log));
    return &log->log;
}

/* --- what somebody else may do -------------------------------------------------------------- */

bool roomlog_mem_add(struct roomlog *log, struct str room, struct stream_id id,
                     const struct roomlog_publish *what)
{
    return mem_store_add(&mem_of(log)->store, room, id, what);
}

void roomlog_mem_trim(struct roomlog *log, struct str room, size_t keep)
{
    mem_store_trim(&mem_of(log)->store, room, keep);
}

bool roomlog_mem_delete(struct roomlog *log, struct str room, struct stream_id id)
{
    return mem_store_delete(&mem_of(log)->store, room, id);
}

void roomlog_mem_reset(struct roomlog *log, struct str room)
{
    mem_store_reset(&mem_of(log)->store, room);
}

void roomlog_mem_lose_tail(struct roomlog *log, struct str room, size_t lost)
{
    struct stream_id last = mem_store_lose_tail(&mem_of(log)->store, room, lost);
    mem_refs_forget_above(&mem_of(log)->refs, room, last);
}

size_t roomlog_mem_bytes(struct roomlog *log)
{
    return mem_of(log)->store.bytes;
}

size_t roomlog_mem_states_bytes(struct roomlog *log)
{
    return mem_of(log)->store.states_bytes;
}
