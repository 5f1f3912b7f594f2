#include "room/replay.h"

#include "base/xalloc.h"
#include "room/entry_packet.h"

#include <assert.h>
#include <stdlib.h>

enum {
    BUSY_MS = 20,   /* until a log that was busy is asked again */
    RETRY_MS = 250, /* until a page that failed is asked for again, and as much again at random */
};

/* One page that members wait for. Lives from the first that wants it to the answer. */
struct replay_fetch {
    struct list room_link; /* in room->fetches */
    struct list idle_link; /* in room->fetches_idle until it is asked for */
    struct list members;
    struct replay *replay;
    struct room *room;
    struct roomlog_read read;
    bool asked;
    uint64_t epoch;            /* the room's, when it was asked for */
    struct stream_id position; /* likewise: how far the feed had come */
};

static void want_page(struct replay *replay, struct room_member *member);
static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page);
static void pump(void *arg);

/* --- fetches -------------------------------------------------------------------------------- */

static bool is_fresh(enum roomlog_from from)
{
    return from != ROOMLOG_AFTER;
}

/* The answer to a join tells of the log, and a fresh start that finds nothing stands at its head.
 */
static bool wants_info(const struct room_member *member)
{
    return !member->replay.answered || is_fresh(member->replay.from);
}

static bool wants(const struct room_member *member, const struct replay_fetch *fetch)
{
    const struct roomlog_read *read = &fetch->read;
    if (fetch->asked && fetch->epoch != fetch->room->epoch)
        return false;
    if (read->from != member->replay.from || read->want_info != wants_info(member))
        return false;
    return read->from == ROOMLOG_AFTER    ? stream_id_eq(read->after, member->last)
           : read->from == ROOMLOG_NEWEST ? read->newest == member->replay.newest
                                          : true;
}

static struct replay_fetch *find_fetch(const struct room_member *member)
{
    list_for_each_safe (link, after, &member->room->fetches) {
        struct replay_fetch *fetch = LIST_ITEM(link, struct replay_fetch, room_link);
        if (wants(member, fetch))
            return fetch;
    }
    return NULL;
}

static struct replay_fetch *create_fetch(struct replay *replay, const struct room_member *member)
{
    struct room *room = member->room;
    struct replay_fetch *fetch = xalloc_zero(sizeof(*fetch));
    fetch->replay = replay;
    fetch->room = room;
    list_init(&fetch->members);
    fetch->read = (struct roomlog_read){
        .from = member->replay.from,
        .after = member->last,
        .newest = member->replay.newest,
        .want_info = wants_info(member),
        .max_entries = replay->limits.page_entries,
        .max_bytes = replay->limits.page_bytes,
        .done = on_page,
    };
    list_push_back(&room->fetches, &fetch->room_link);
    list_push_back(&room->fetches_idle, &fetch->idle_link);
    if (list_empty(&room->replay_link))
        list_push_back(&replay->rooms, &room->replay_link);
    return fetch;
}

static void destroy_fetch(struct replay_fetch *fetch)
{
    assert(list_empty(&fetch->members));
    list_remove(&fetch->room_link);
    list_remove(&fetch->idle_link);
    free(fetch);
}

static void leave_fetch(struct replay *replay, struct room_member *member)
{
    struct replay_fetch *fetch = member->replay.fetch;
    list_remove(&member->replay.link);
    member->replay.fetch = NULL;
    if (fetch == NULL || !list_empty(&fetch->members))
        return;
    if (fetch->asked) {
        roomlog_cancel_read(replay->log, &fetch->read);
        replay->in_flight--;
        loop_defer(replay->loop, &replay->pump, pump, replay); /* others may wait for this place */
    }
    destroy_fetch(fetch);
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

static void send_pending(struct room_member *member)
{
    for (struct packet *p; (p = pending_front(&member->pending)) != NULL;) {
        (void)packet_ref(p);
        pending_pop(&member->pending, member->budget);
        member->last = p->id;
        member->replay.replayed++;
        (void)member->ops->entry(member, p, true); /* the replay's last: never refused */
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

static void answer_join(struct room_member *member, const struct roomlog_page *page)
{
    struct stream_id cursor = member->last;
    bool fresh = is_fresh(member->replay.from);
    member->replay.answered = true;
    metrics_inc(member->room->metrics, M_JOINS);
    member->ops->joined(member, fresh ? NULL : &cursor, &page->info);
}

static void apply_page(struct replay *replay, struct room_member *member,
                       const struct roomlog_page *page, struct packet **packets,
                       struct stream_id position)
{
    if (page->verdict != VERDICT_OK) {
        start_fresh(replay, member, page->verdict);
        return;
    }
    if (!member->replay.answered)
        answer_join(member, page);
    if (page->count == 0 && is_fresh(member->replay.from))
        member->last = page->info.last;
    member->replay.from = ROOMLOG_AFTER;

    for (size_t i = 0; i < page->count; i++) {
        member->last = packets[i]->id;
        (void)member->ops->entry(member, packets[i], true);
    }
    member->replay.replayed += page->count;
    metrics_add(replay->metrics, M_ENTRIES_REPLAYED, page->count);
    settle(replay, member, page->at_end, position);
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

static void on_again(void *arg);

static void fail_fetch(struct replay_fetch *fetch, enum rd_err err)
{
    struct replay *replay = fetch->replay;
    for (struct list *link; (link = list_pop_front(&fetch->members)) != NULL;) {
        struct room_member *member = LIST_ITEM(link, struct room_member, replay.link);
        member->replay.fetch = NULL;
        page_failed(replay, member, err);
    }
    destroy_fetch(fetch);
}

/* Lets go of members whose sockets have filled since they wanted this page: a session in many rooms
 * asks for one in each. replay_resume brings them back. False: nobody is left. */
static bool still_wanted(struct replay_fetch *fetch)
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

/* False: the log is busy, ask again later. */
static bool ask(struct replay *replay, struct replay_fetch *fetch)
{
    if (!still_wanted(fetch)) {
        destroy_fetch(fetch);
        return true;
    }
    enum rd_err err = roomlog_read(replay->log, room_name(fetch->room), &fetch->read);
    if (err == RD_EBUSY)
        return false;
    list_remove(&fetch->idle_link);
    if (err != RD_OK) {
        fail_fetch(fetch, err);
        return true;
    }
    fetch->asked = true;
    fetch->epoch = fetch->room->epoch;
    fetch->position = fetch->room->position;
    replay->in_flight++;
    metrics_inc(replay->metrics, M_PAGES);
    return true;
}

/* Runs as a task, so that nobody is answered from inside the call that asked. */
static void pump(void *arg)
{
    struct replay *replay = arg;
    while (replay->in_flight < replay->limits.in_flight && !list_empty(&replay->rooms)) {
        struct room *room = LIST_ITEM(replay->rooms.next, struct room, replay_link);
        struct list *link = room->fetches_idle.next;
        if (link != &room->fetches_idle &&
            !ask(replay, LIST_ITEM(link, struct replay_fetch, idle_link))) {
            loop_timer_start(replay->loop, &replay->again, BUSY_MS, on_again, replay);
            return;
        }
        list_remove(&room->replay_link);
        if (!list_empty(&room->fetches_idle))
            list_push_back(&replay->rooms, &room->replay_link);
    }
}

static void on_again(void *arg)
{
    pump(arg);
}

static void want_page(struct replay *replay, struct room_member *member)
{
    assert(member->replay.fetch == NULL && list_empty(&member->replay.link));
    if (!member->ops->may_read(member))
        return; /* replay_resume goes on */

    struct replay_fetch *fetch = find_fetch(member);
    if (fetch == NULL)
        fetch = create_fetch(replay, member);
    else
        metrics_inc(replay->metrics, M_PAGES_SHARED);
    list_push_back(&fetch->members, &member->replay.link);
    member->replay.fetch = fetch;
    loop_defer(replay->loop, &replay->pump, pump, replay);
}

static void on_retry(void *arg)
{
    struct room_member *member = arg;
    want_page(member->replay.owner, member);
}

static struct packet **encode(struct replay_fetch *fetch, const struct roomlog_page *page)
{
    struct packet **packets = xalloc_array(NULL, page->count, sizeof(struct packet *));
    for (size_t i = 0; i < page->count; i++)
        packets[i] =
            entry_packet_create(fetch->replay->packets, room_name(fetch->room), &page->entries[i]);
    return packets;
}

static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct replay_fetch *fetch = RD_CONTAINER(read, struct replay_fetch, read);
    struct replay *replay = fetch->replay;
    replay->in_flight--;
    loop_defer(replay->loop, &replay->pump, pump, replay);
    if (err != RD_OK) {
        fail_fetch(fetch, err);
        return;
    }

    /* Members that want the next page must not find this one. */
    list_remove(&fetch->room_link);
    /* The feed broke after this was asked for: it may be of a log that is no more, and its position
     * means nothing. */
    bool stale = fetch->epoch != fetch->room->epoch;
    struct packet **packets = stale ? NULL : encode(fetch, page);
    for (struct list *link; (link = list_pop_front(&fetch->members)) != NULL;) {
        struct room_member *member = LIST_ITEM(link, struct room_member, replay.link);
        member->replay.fetch = NULL;
        if (stale)
            want_page(replay, member);
        else
            apply_page(replay, member, page, packets, fetch->position);
    }
    for (size_t i = 0; packets != NULL && i < page->count; i++)
        packet_unref(packets[i]);
    free(packets);
    destroy_fetch(fetch);
}

/* --- from outside --------------------------------------------------------------------------- */

void replay_init(struct replay *replay, struct loop *loop, struct roomlog *log,
                 struct packet_account *packets, struct metrics *metrics,
                 const struct replay_limits *limits)
{
    *replay = (struct replay){
        .loop = loop, .log = log, .packets = packets, .metrics = metrics, .limits = *limits};
    list_init(&replay->rooms);
}

void replay_fini(struct replay *replay)
{
    assert(replay->in_flight == 0 && list_empty(&replay->rooms));
    loop_cancel(&replay->pump);
    loop_timer_stop(replay->loop, &replay->again);
}

static void on_start_limit(void *arg)
{
    struct room *room = arg;
    for (struct list *link; (link = list_pop_front(&room->waiting)) != NULL;)
        fail(LIST_ITEM(link, struct room_member, replay.link), RD_EUNAVAIL);
}

void replay_start(struct replay *replay, struct room_member *member, enum roomlog_from from,
                  struct stream_id after, uint32_t newest)
{
    struct room *room = member->room;
    member->last = from == ROOMLOG_AFTER ? after : STREAM_ID_ZERO;
    member->replay = (struct room_member_replay){.owner = replay, .from = from, .newest = newest};
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
    leave_fetch(replay, member);
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
    list_remove(&room->replay_link);
}
