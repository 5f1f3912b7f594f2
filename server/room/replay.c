#include "room/replay.h"

#include <assert.h>

enum {
    RETRY_MS = 250 /* until a page that failed is asked for again, and as much again at random */
};

static void want_page(struct replay *replay, struct room_member *member);

static bool is_fresh(enum roomlog_from from)
{
    return from != ROOMLOG_AFTER;
}

/* --- one member's walk ---------------------------------------------------------------------- */

static void go_live(struct room_member *member)
{
    room_go_live(member);
    if (member->replay.announced)
        return;
    member->replay.announced = true;
    member->ops->live(member, member->last, member->replay.replayed);
}

/* Returns its bytes. */
static size_t send_entry(struct room_member *member, struct packet *p)
{
    member->last = p->id;
    member->replay.replayed++;
    metrics_inc(member->room->metrics, M_ENTRIES_REPLAYED);
    (void)member->ops->entry(member, p, true);
    return packet_len(p);
}

static void send_pending(struct room_member *member)
{
    for (struct packet *p; (p = pending_front(&member->pending)) != NULL;) {
        (void)packet_ref(p);
        pending_pop(&member->pending, member->budget);
        (void)send_entry(member, p); /* the replay's last: never refused */
        packet_unref(p);
    }
}

/* After a page: is this member at the live edge? position is where the feed stood when the page was
 * asked for, so a page that reached the end holds everything up to there: what is pending at or
 * below it was sent, or is not in the log any more. */
static void settle(struct replay *replay, struct room_member *member, bool at_end,
                   struct stream_id position)
{
    struct stream_id covered = member->last;
    if (at_end && stream_id_cmp(position, covered) > 0)
        covered = position;
    pending_drop_to(&member->pending, member->budget, covered);

    const struct packet *front = pending_front(&member->pending);
    if (front != NULL && stream_id_eq(front->prev, member->last)) {
        send_pending(member);
        go_live(member);
    } else if (front == NULL && at_end && stream_id_cmp(member->room->position, covered) <= 0) {
        go_live(member);
    } else {
        want_page(replay, member); /* the list spilled, or there is more in the log */
    }
}

static void start_fresh(struct replay *replay, struct room_member *member, enum verdict why)
{
    metrics_inc(replay->metrics, M_RESYNCS);
    member->last = STREAM_ID_ZERO;
    member->replay.from = member->replay.newest != 0 ? ROOMLOG_NEWEST : ROOMLOG_ALL;
    member->replay.answered = true;
    member->replay.announced = false;
    member->replay.replayed = 0;
    member->ops->resync(member, why);
    want_page(replay, member);
}

static void answer_join(struct room_member *member, const struct verdict_info *info)
{
    struct stream_id cursor = member->last;
    bool fresh = is_fresh(member->replay.from);
    member->replay.answered = true;
    metrics_inc(member->room->metrics, M_JOINS);
    member->ops->joined(member, fresh ? NULL : &cursor, info);
}

/* Returns the bytes that it was sent. */
static size_t apply_page(struct replay *replay, struct room_member *member,
                         const struct fetch *fetch)
{
    const struct roomlog_page *page = &fetch->page;
    member->replay.doubts_ring = false;
    if (page->verdict != VERDICT_OK) {
        start_fresh(replay, member, page->verdict);
        return 0;
    }
    if (!member->replay.answered)
        answer_join(member, &page->info);
    if (page->count == 0 && is_fresh(member->replay.from))
        member->last = page->info.last;
    member->replay.from = ROOMLOG_AFTER;

    size_t bytes = 0;
    for (size_t i = 0; i < page->count; i++)
        bytes += send_entry(member, fetch->packets[i]);
    settle(replay, member, page->at_end, fetch->position);
    return bytes;
}

/* The snapshot, and then what came after it: to a member that begins afresh. Returns the bytes that
 * it was sent. */
static size_t apply_snapshot(struct replay *replay, struct room_member *member,
                             const struct fetch *fetch)
{
    const struct snapshot *snapshot = fetch->snapshot;
    if (!member->ops->may_read(member))
        return 0; /* replay_resume goes on */
    if (!member->replay.answered)
        answer_join(member, &fetch->page.info);
    metrics_inc(replay->metrics, M_SNAPSHOTS);
    size_t bytes = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        member->ops->snapshot(member, snapshot->packets[i]);
        bytes += packet_len(snapshot->packets[i]);
    }
    if (snapshot->stands) {
        member->last = snapshot->position;
        member->replay.from = ROOMLOG_AFTER;
    }
    return bytes + apply_page(replay, member, fetch);
}

/* Sends what the ring holds after the member's last, about a page of it. To a join that was not yet
 * answered, info says where the log stands. Returns the bytes that it was sent. */
static size_t apply_ring(struct replay *replay, struct room_member *member,
                         const struct fetch *fetch)
{
    struct ring *ring = &member->room->ring;
    if (!member->ops->may_read(member))
        return 0; /* replay_resume goes on */
    if (!ring_holds(ring, member->last)) {
        want_page(replay, member); /* it was emptied */
        return 0;
    }
    if (!member->replay.answered) {
        /* The log is behind the feed: it has lost its tail, and the feed doesn't know it yet. */
        if (stream_id_cmp(fetch->page.info.last, fetch->position) < 0) {
            member->replay.doubts_ring = true;
            want_page(replay, member);
            return 0;
        }
        answer_join(member, &fetch->page.info);
    }
    metrics_inc(replay->metrics, M_RING_HITS);
    ring_touch(ring);
    size_t bytes = 0;
    struct packet *p;
    for (size_t place = ring_after(ring, member->last);
         bytes < replay->limits.page_bytes && (p = ring_at(ring, place)) != NULL; place++)
        bytes += send_entry(member, p);
    struct stream_id position = member->room->position;
    settle(replay, member, stream_id_eq(member->last, position), position);
    return bytes;
}

static void fail(struct room_member *member, enum rd_err err)
{
    struct room *room = member->room; /* stays, if empty, for a turn at least */
    room_exit(member);
    member->ops->failed(member, room_name(room), err);
}

static void on_retry(void *arg);

/* Might it go better later? */
static bool passes(enum rd_err err)
{
    return err == RD_EUNAVAIL || err == RD_ETIMEDOUT || err == RD_EBUSY || err == RD_EUNKNOWN;
}

/* A join that can't be answered is refused; whoever is in already waits for the log to come back.
 */
static void page_failed(struct replay *replay, struct room_member *member, enum rd_err err)
{
    if (!member->replay.answered || !passes(err)) {
        fail(member, err);
        return;
    }
    loop_timer_start(replay->loop, &member->replay.retry,
                     RETRY_MS + loop_random_below(replay->loop, RETRY_MS), on_retry, member);
}

/* --- asking and answering ------------------------------------------------------------------- */

static struct fetch_want want_of(const struct room_member *member, enum fetch_kind kind)
{
    const struct room *room = member->room;
    struct fetch_want want = {.room = (uintptr_t)room, .epoch = room->epoch, .kind = (uint8_t)kind};
    want.from = (uint8_t)member->replay.from;
    if (member->replay.from == ROOMLOG_AFTER)
        want.after = member->last;
    if (member->replay.from == ROOMLOG_NEWEST)
        want.newest = member->replay.newest;
    /* The answer to a join tells of the log, and a fresh start that finds nothing stands at its
     * head. */
    want.info = !member->replay.answered || is_fresh(member->replay.from);
    if (member->replay.state && is_fresh(member->replay.from))
        want.kind = FETCH_STATE;
    return want;
}

/* Many came back whom the ring can't serve: does this one wait for it to be warmed? */
static bool waits_for_warming(struct replay *replay, struct room_member *member,
                              const struct fetch_want *page, const struct fetch_want *warm)
{
    if (member->replay.from != ROOMLOG_AFTER || member->replay.doubts_ring)
        return false;
    if (fetch_wanted(&replay->fetches, warm))
        return true;
    return !member->replay.answered && !fetch_wanted(&replay->fetches, page) &&
           ring_miss(&member->room->ring);
}

static void want_page(struct replay *replay, struct room_member *member)
{
    if (!member->ops->may_read(member))
        return; /* replay_resume goes on */

    struct fetch_want want = want_of(member, FETCH_PAGE);
    struct fetch_want warm = {.room = want.room, .epoch = want.epoch, .kind = FETCH_WARM};
    warm.from = ROOMLOG_NEWEST;
    warm.info = 1;
    if (member->replay.from == ROOMLOG_AFTER && !member->replay.doubts_ring &&
        ring_holds(&member->room->ring, member->last)) {
        /* A join asks where the log stands, as one that wants only what is new does. */
        want = (struct fetch_want){.room = want.room, .epoch = want.epoch, .kind = FETCH_RING};
        if (!member->replay.answered) {
            want.kind = FETCH_PAGE;
            want.from = ROOMLOG_HEAD;
            want.info = 1;
        }
    } else if (waits_for_warming(replay, member, &want, &warm)) {
        want = warm;
    }
    fetch_join(&replay->fetches, member, &want);
}

static void on_retry(void *arg)
{
    struct room_member *member = arg;
    want_page(member->replay.owner, member);
}

static void on_arrived(struct fetch *fetch, void *arg)
{
    (void)arg;
    struct ring *ring = &fetch->room->ring;
    if (fetch->packets != NULL)
        ring_extend(ring, fetch->packets, fetch->page.count);
    if (fetch->want.kind == FETCH_WARM)
        ring_warmed(ring);
    /* The feed doesn't hear of deletions: whoever joins now must not be shown what is gone. */
    if (fetch->want.info)
        ring_drop_to(ring, fetch->page.info.max_deleted);
}

static size_t on_hand_out(struct fetch *fetch, struct room_member *member, void *arg)
{
    struct replay *replay = arg;
    if (fetch->err != RD_OK) {
        page_failed(replay, member, fetch->err);
        return 0;
    }
    if (fetch_stale(fetch)) {
        want_page(replay, member); /* its position means nothing any more */
        return 0;
    }
    if (fetch->want.kind == FETCH_STATE)
        return apply_snapshot(replay, member, fetch);
    bool asked_as_told = fetch->want.kind == FETCH_PAGE && fetch->want.from == member->replay.from;
    return asked_as_told ? apply_page(replay, member, fetch) : apply_ring(replay, member, fetch);
}

static const struct fetch_ops FETCH_OPS = {on_arrived, on_hand_out};

/* --- from outside --------------------------------------------------------------------------- */

void replay_init(struct replay *replay, struct loop *loop, struct roomlog *log,
                 struct metrics *metrics, const struct replay_limits *limits)
{
    *replay = (struct replay){.loop = loop, .metrics = metrics, .limits = *limits};
    const struct fetch_limits fetches = {.page_entries = limits->page_entries,
                                         .page_bytes = limits->page_bytes,
                                         .frame_bytes = limits->frame_bytes,
                                         .in_flight = limits->in_flight};
    fetch_queue_init(&replay->fetches, loop, log, metrics, &fetches, &FETCH_OPS, replay);
}

void replay_fini(struct replay *replay)
{
    fetch_queue_fini(&replay->fetches);
}

static void on_start_limit(void *arg)
{
    struct room *room = arg;
    for (struct list *link; (link = list_pop_front(&room->waiting)) != NULL;)
        fail(LIST_ITEM(link, struct room_member, replay.link), RD_EUNAVAIL);
}

void replay_start(struct replay *replay, struct room_member *member, const struct room_start *start)
{
    struct room *room = member->room;
    member->last = start->from == ROOMLOG_AFTER ? start->after : STREAM_ID_ZERO;
    member->replay = (struct room_member_replay){
        .owner = replay, .from = start->from, .newest = start->newest, .state = start->state};
    list_init(&member->replay.link);
    if (room->started) {
        want_page(replay, member);
        return;
    }
    list_push_back(&room->waiting, &member->replay.link);
    if (!loop_timer_running(&room->start_limit))
        loop_timer_start(replay->loop, &room->start_limit, replay->limits.start_limit_ms,
                         on_start_limit, room);
}

void replay_again(struct replay *replay, struct room_member *member)
{
    assert(member->state == ROOM_MEMBER_REPLAYING);
    want_page(replay, member);
}

void replay_stop(struct replay *replay, struct room_member *member)
{
    fetch_leave(&replay->fetches, member);
    loop_timer_stop(replay->loop, &member->replay.retry);
    if (list_empty(&member->room->waiting))
        loop_timer_stop(replay->loop, &member->room->start_limit);
}

void replay_resume(struct replay *replay, struct room_member *member)
{
    if (member->state == ROOM_MEMBER_REPLAYING && list_empty(&member->replay.link) &&
        !loop_timer_running(&member->replay.retry))
        want_page(replay, member);
}

void replay_room_started(struct replay *replay, struct room *room)
{
    loop_timer_stop(replay->loop, &room->start_limit);
    for (struct list *link; (link = list_pop_front(&room->waiting)) != NULL;)
        want_page(replay, LIST_ITEM(link, struct room_member, replay.link));
}

void replay_room_gone(struct replay *replay, struct room *room)
{
    loop_timer_stop(replay->loop, &room->start_limit);
    list_remove(&room->fetch_link);
}
