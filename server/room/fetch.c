#include "room/fetch.h"

#include "base/xalloc.h"
#include "room/entry_packet.h"

#include <assert.h>
#include <stdlib.h>

enum {
    BUSY_MS = 20, /* until a log that was busy is asked again */
    /* What is handed out in one turn of the loop: a millisecond or so. */
    SLICE_MEMBERS = 192,
    SLICE_BYTES = 1 << 20,
    TURN_MEMBERS = 16 /* of one fetch, before the next has its turn; divides SLICE_MEMBERS */
};

static void pump(void *arg);
static void hand_out_slice(void *arg);
static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page);
static void on_state(struct roomlog_state *state, enum rd_err err,
                     const struct roomlog_state_view *view);

static struct str key_of(const struct fetch_want *want)
{
    return (struct str){(const char *)want, sizeof(*want)};
}

static void pump_later(struct fetch_queue *queue)
{
    loop_defer(queue->loop, &queue->pump, pump, queue);
}

static void slice_later(struct fetch_queue *queue)
{
    queue->slicing = true;
    loop_defer(queue->loop, &queue->slice, hand_out_slice, queue);
}

/* --- a fetch's life ------------------------------------------------------------------------- */

/* Members that want the same from here on must not find this one. */
static void hide(struct fetch *fetch)
{
    struct strmap *wanted = &fetch->queue->wanted;
    if (strmap_find(wanted, key_of(&fetch->want)) == fetch)
        (void)strmap_remove(wanted, key_of(&fetch->want));
}

static void make_ready(struct fetch *fetch)
{
    fetch->phase = FETCH_READY;
    list_push_back(&fetch->queue->ready, &fetch->link);
}

/* Being read, or holding memory for those who wait. */
static bool in_flight(const struct fetch *fetch)
{
    bool holds = fetch->packets != NULL || fetch->snapshot != NULL;
    return fetch->phase == FETCH_ASKED || (fetch->phase == FETCH_READY && holds);
}

static void let_packets_go(struct fetch *fetch)
{
    for (size_t i = 0; fetch->packets != NULL && i < fetch->page.count; i++)
        packet_unref(fetch->packets[i]);
    free(fetch->packets);
    fetch->packets = NULL;
}

/* All that it holds for those who wait. */
static void drop(struct fetch *fetch)
{
    let_packets_go(fetch);
    snapshot_destroy(fetch->snapshot);
    fetch->snapshot = NULL;
}

static void destroy(struct fetch *fetch)
{
    struct fetch_queue *queue = fetch->queue;
    assert(list_empty(&fetch->members));
    if (in_flight(fetch)) {
        queue->in_flight--;
        pump_later(queue); /* others may wait for this place */
    }
    hide(fetch);
    list_remove(&fetch->link);
    drop(fetch);
    free(fetch);
}

static struct roomlog_read read_of(const struct fetch_queue *queue, const struct fetch_want *want,
                                   const struct ring_limits *ring)
{
    struct roomlog_read read = {.from = (enum roomlog_from)want->from,
                                .after = want->after,
                                .newest = want->newest,
                                .want_info = want->info != 0,
                                .max_entries = queue->limits.page_entries,
                                .max_bytes = queue->limits.page_bytes,
                                .done = on_page};
    if (want->kind == FETCH_WARM) {
        read.newest = ring->max_entries < UINT32_MAX ? (uint32_t)ring->max_entries : UINT32_MAX;
        read.max_bytes = ring->max_bytes;
    }
    return read;
}

/* To be asked for, in the room's turn. */
static void make_idle(struct fetch *fetch)
{
    struct fetch_queue *queue = fetch->queue;
    fetch->phase = FETCH_IDLE;
    list_push_back(&fetch->room->fetches, &fetch->link);
    if (list_empty(&fetch->room->fetch_link))
        list_push_back(&queue->rooms, &fetch->room->fetch_link);
    pump_later(queue);
}

static struct fetch *create(struct fetch_queue *queue, struct room *room,
                            const struct fetch_want *want)
{
    struct fetch *fetch = xalloc_zero(sizeof(*fetch));
    fetch->want = *want;
    fetch->room = room;
    fetch->queue = queue;
    fetch->epoch = room->epoch;
    list_init(&fetch->link);
    list_init(&fetch->members);
    strmap_put(&queue->wanted, key_of(&fetch->want), fetch);
    if (want->kind == FETCH_RING) {
        make_ready(fetch);
        slice_later(queue);
        return fetch;
    }
    fetch->read = read_of(queue, want, &room->ring.pool->limits);
    fetch->state.done = on_state;
    fetch->page_first = want->from == ROOMLOG_NEWEST;
    make_idle(fetch);
    return fetch;
}

/* --- asking --------------------------------------------------------------------------------- */

/* Lets go of members whose sockets have filled since they wanted this: a session in many rooms asks
 * for a page in each. They come back when they may read again. False: nobody is left. */
static bool still_wanted(struct fetch *fetch)
{
    list_for_each_safe (link, after, &fetch->members) {
        struct room_member *member = LIST_ITEM(link, struct room_member, replay.link);
        if (member->ops->may_read(member))
            continue;
        list_remove(link);
        member->replay.fetch = NULL;
    }
    return !list_empty(&fetch->members);
}

/* There is no place in the log from which a state could go on. */
static void page_goes_first(struct fetch *fetch)
{
    snapshot_destroy(fetch->snapshot);
    fetch->snapshot = NULL;
    fetch->read.from = (enum roomlog_from)fetch->want.from;
    fetch->page_first = true;
}

/* What is next? */
static bool wants_state(const struct fetch *fetch)
{
    return fetch->want.kind == FETCH_STATE && fetch->snapshot == NULL && !fetch->page_first;
}

static enum metric counter_of(const struct fetch *fetch)
{
    return wants_state(fetch)                 ? M_STATES
           : fetch->want.kind == FETCH_WARM   ? M_RING_WARMINGS
           : fetch->read.from == ROOMLOG_HEAD ? M_HEADS
                                              : M_PAGES;
}

/* False: the log is busy, ask again later. */
static bool ask(struct fetch_queue *queue, struct fetch *fetch)
{
    if (!still_wanted(fetch)) {
        destroy(fetch);
        return true;
    }
    struct str room = room_name(fetch->room);
    enum rd_err err = wants_state(fetch) ? roomlog_state(queue->log, room, &fetch->state)
                                         : roomlog_read(queue->log, room, &fetch->read);
    if (err == RD_EBUSY)
        return false;
    list_remove(&fetch->link);
    if (err != RD_OK) {
        fetch->err = err;
        drop(fetch);
        hide(fetch);
        make_ready(fetch);
        slice_later(queue);
        return true;
    }
    fetch->phase = FETCH_ASKED;
    fetch->epoch = fetch->room->epoch;
    fetch->position = fetch->room->position;
    queue->in_flight++;
    metrics_inc(queue->metrics, counter_of(fetch));
    return true;
}

static void on_again(void *arg)
{
    pump(arg);
}

/* Runs as a task, so that nobody is answered from inside the call that asked. */
static void pump(void *arg)
{
    struct fetch_queue *queue = arg;
    while (queue->in_flight < queue->limits.in_flight && !list_empty(&queue->rooms)) {
        struct room *room = LIST_ITEM(queue->rooms.next, struct room, fetch_link);
        struct list *link = room->fetches.next;
        if (link != &room->fetches && !ask(queue, LIST_ITEM(link, struct fetch, link))) {
            loop_timer_start(queue->loop, &queue->again, BUSY_MS, on_again, queue);
            return;
        }
        list_remove(&room->fetch_link);
        if (!list_empty(&room->fetches))
            list_push_back(&queue->rooms, &room->fetch_link);
    }
}

/* --- handing out ---------------------------------------------------------------------------- */

/* Some of fetch's members. Returns how many, and adds to *bytes. fetch is gone if none is left. */
static size_t turn_of(struct fetch *fetch, size_t *bytes)
{
    struct fetch_queue *queue = fetch->queue;
    size_t served = 0;
    while (served < TURN_MEMBERS && *bytes < SLICE_BYTES) {
        struct list *link = list_pop_front(&fetch->members);
        if (link == NULL)
            break;
        struct room_member *member = LIST_ITEM(link, struct room_member, replay.link);
        member->replay.fetch = NULL;
        served++;
        *bytes += queue->ops->hand_out(fetch, member, queue->arg);
    }
    if (list_empty(&fetch->members)) {
        destroy(fetch);
    } else {
        list_remove(&fetch->link);
        list_push_back(&queue->ready, &fetch->link);
    }
    return served;
}

static void hand_out_slice(void *arg)
{
    struct fetch_queue *queue = arg;
    queue->slicing = false;
    size_t members = 0;
    size_t bytes = 0;
    while (!list_empty(&queue->ready) && members < SLICE_MEMBERS && bytes < SLICE_BYTES)
        members += turn_of(LIST_ITEM(queue->ready.next, struct fetch, link), &bytes);
    if (!list_empty(&queue->ready))
        slice_later(queue);
}

/* --- answers -------------------------------------------------------------------------------- */

static void take_page(struct fetch *fetch, const struct roomlog_page *page)
{
    fetch->has_page = true;
    fetch->page = *page;
    fetch->page.entries = NULL;
    if (page->count == 0 || fetch_stale(fetch))
        return;
    fetch->packets = xalloc_array(NULL, page->count, sizeof(struct packet *));
    for (size_t i = 0; i < page->count; i++)
        fetch->packets[i] =
            entry_packet_create(fetch->room->packets, room_name(fetch->room), &page->entries[i]);
}

/* The last read has been answered. */
static void finish(struct fetch *fetch, enum rd_err err)
{
    struct fetch_queue *queue = fetch->queue;
    hide(fetch);
    fetch->err = err;
    if (err != RD_OK)
        drop(fetch);
    if (fetch->snapshot != NULL)
        snapshot_seal(fetch->snapshot, fetch->room->packets, room_name(fetch->room));
    make_ready(fetch);
    if (!in_flight(fetch)) {
        queue->in_flight--;
        pump_later(queue);
    }
    if (err == RD_OK && !fetch_stale(fetch))
        queue->ops->arrived(fetch, queue->arg);
    if (!queue->slicing)
        hand_out_slice(queue);
}

static void ask_again(struct fetch *fetch)
{
    fetch->queue->in_flight--;
    make_idle(fetch);
}

/* --- a state and its page ---------------------------------------------------------------------
 *
 * The state, which says where it stands, and then a page after that place: the proof that the page
 * brings (see ROOMLOG_AFTER) says that the state is this log's, and that nothing is missing behind
 * it. Where there is no such place to go on from, the page comes first: what is published between
 * the two reads is in the state then, and on the pages to come, but never in neither. */

static void state_arrived(struct fetch *fetch)
{
    const struct snapshot *snapshot = fetch->snapshot;
    /* A log that began between the two reads: should it be gone again, whoever stands at 0-0 can't
     * tell. So members must not begin there with a state of its. */
    bool began = fetch->has_page && snapshot->stands && stream_id_is_zero(fetch->page.info.last);
    if (fetch->has_page && !began) {
        snapshot_fall(fetch->snapshot);
        finish(fetch, RD_OK);
        return;
    }
    fetch->has_page = false;
    if (snapshot->stands && fetch->want.from != ROOMLOG_NEWEST) {
        fetch->read.from = ROOMLOG_AFTER;
        fetch->read.after = snapshot->position;
        fetch->page_first = false;
    } else {
        page_goes_first(fetch);
    }
    ask_again(fetch);
}

static void on_state(struct roomlog_state *state, enum rd_err err,
                     const struct roomlog_state_view *view)
{
    struct fetch *fetch = RD_CONTAINER(state, struct fetch, state);
    if (err != RD_OK) {
        finish(fetch, err);
        return;
    }
    fetch->snapshot =
        snapshot_create(view, room_name(fetch->room), fetch->queue->limits.frame_bytes);
    state_arrived(fetch);
}

/* Keeps its place among those in flight, for it has a page. */
static void ask_for_state(struct fetch *fetch)
{
    struct fetch_queue *queue = fetch->queue;
    enum rd_err err = roomlog_state(queue->log, room_name(fetch->room), &fetch->state);
    if (err == RD_OK) {
        metrics_inc(queue->metrics, M_STATES);
    } else if (err == RD_EBUSY) {
        let_packets_go(fetch);
        fetch->has_page = false;
        ask_again(fetch);
    } else {
        finish(fetch, err);
    }
}

static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct fetch *fetch = RD_CONTAINER(read, struct fetch, read);
    bool with_state = fetch->want.kind == FETCH_STATE;
    if (err == RD_OK && with_state && page->verdict != VERDICT_OK) {
        page_goes_first(fetch);
        ask_again(fetch);
        return;
    }
    if (err == RD_OK)
        take_page(fetch, page);
    if (err == RD_OK && with_state && fetch->page_first && !fetch_stale(fetch))
        ask_for_state(fetch);
    else
        finish(fetch, err);
}

/* --- from outside --------------------------------------------------------------------------- */

void fetch_queue_init(struct fetch_queue *queue, struct loop *loop, struct roomlog *log,
                      struct metrics *metrics, const struct fetch_limits *limits,
                      const struct fetch_ops *ops, void *arg)
{
    *queue = (struct fetch_queue){
        .loop = loop, .log = log, .metrics = metrics, .limits = *limits, .ops = ops, .arg = arg};
    strmap_init(&queue->wanted, loop_random(loop), loop_random(loop));
    list_init(&queue->rooms);
    list_init(&queue->ready);
}

void fetch_queue_fini(struct fetch_queue *queue)
{
    assert(queue->in_flight == 0 && list_empty(&queue->rooms) && list_empty(&queue->ready));
    loop_cancel(&queue->pump);
    loop_cancel(&queue->slice);
    loop_timer_stop(queue->loop, &queue->again);
    strmap_fini(&queue->wanted);
}

bool fetch_wanted(const struct fetch_queue *queue, const struct fetch_want *want)
{
    return strmap_find(&queue->wanted, key_of(want)) != NULL;
}

void fetch_join(struct fetch_queue *queue, struct room_member *member,
                const struct fetch_want *want)
{
    assert(member->replay.fetch == NULL && list_empty(&member->replay.link));
    struct fetch *fetch = strmap_find(&queue->wanted, key_of(want));
    if (fetch == NULL)
        fetch = create(queue, member->room, want);
    else if (want->kind == FETCH_PAGE)
        metrics_inc(queue->metrics, M_PAGES_SHARED);
    list_push_back(&fetch->members, &member->replay.link);
    member->replay.fetch = fetch;
}

void fetch_leave(struct fetch_queue *queue, struct room_member *member)
{
    struct fetch *fetch = member->replay.fetch;
    list_remove(&member->replay.link);
    member->replay.fetch = NULL;
    if (fetch == NULL || !list_empty(&fetch->members))
        return;
    roomlog_cancel_read(queue->log, &fetch->read);
    roomlog_cancel_state(queue->log, &fetch->state);
    destroy(fetch);
}
