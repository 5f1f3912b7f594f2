#include "room/room.h"

#include "base/xalloc.h"
#include "room/entry_packet.h"

#include <assert.h>
#include <stdlib.h>

enum { BATCH = 128 /* entries encoded before they meet the members */ };

static struct room *of_follower(struct roomlog_follower *follower)
{
    return RD_CONTAINER(follower, struct room, follower);
}

static void set_state(struct room_member *member, enum room_member_state to)
{
    struct metrics *metrics = member->room->metrics;
    if (member->state == ROOM_MEMBER_REPLAYING)
        metrics_dec(metrics, M_REPLAYING);
    if (to == ROOM_MEMBER_REPLAYING)
        metrics_inc(metrics, M_REPLAYING);
    member->state = to;
}

static void hold(struct room_member *member, struct packet *p)
{
    if (!pending_push(&member->pending, member->budget, p))
        metrics_inc(member->room->metrics, M_PENDING_SPILLS);
}

/* This member reads the log again, after what it was sent last. */
static void fall_behind(struct room_member *member, struct packet *p)
{
    struct room *room = member->room;
    set_state(member, ROOM_MEMBER_REPLAYING);
    hold(member, p);
    room->hooks->behind(room, member, room->hooks_arg);
}

static void deliver(struct room_member *member, struct packet *p)
{
    if (member->state == ROOM_MEMBER_REPLAYING) {
        hold(member, p);
        return;
    }
    if (stream_id_cmp(p->id, member->last) <= 0)
        return; /* the replay has sent it already */
    if (!stream_id_eq(p->prev, member->last)) {
        /* Its log has more than the feed showed it, or less: either way the log itself knows. */
        metrics_inc(member->room->metrics, M_CHAIN_BREAKS);
        fall_behind(member, p);
        return;
    }
    if (member->ops->entry(member, p, false))
        member->last = p->id;
    else
        fall_behind(member, p);
}

/* Members outside, entries inside: a member's memory is touched once a batch. */
static void fan_out(struct room *room, struct packet **packets, size_t count)
{
    list_for_each_safe (link, after, &room->members) {
        struct room_member *member = LIST_ITEM(link, struct room_member, link);
        for (size_t i = 0; i < count; i++)
            deliver(member, packets[i]);
    }
}

static void on_started(struct roomlog_follower *follower, struct stream_id head)
{
    struct room *room = of_follower(follower);
    assert(!room->started);
    room->started = true;
    room->position = head;
    ring_reset(&room->ring, head);
    room->hooks->started(room, room->hooks_arg);
}

static void on_entries(struct roomlog_follower *follower, const struct roomlog_entry *entries,
                       size_t count)
{
    struct room *room = of_follower(follower);
    struct packet *packets[BATCH];

    for (size_t at = 0; at < count;) {
        size_t n = count - at < BATCH ? count - at : BATCH;
        for (size_t i = 0; i < n; i++) {
            const struct roomlog_entry *entry = &entries[at + i];
            assert(entry->prev_known && stream_id_eq(entry->prev, room->position));
            packets[i] = entry_packet_create(room->packets, room_name(room), entry);
            room->position = entry->id;
            ring_push(&room->ring, packets[i]);
        }
        at += n;
        metrics_add(room->metrics, M_ENTRIES_LIVE, n);
        fan_out(room, packets, n);
        for (size_t i = 0; i < n; i++)
            packet_unref(packets[i]);
    }
}

/* The room's own cursor could not be honoured. That says nothing yet of each member's: each reads
 * the log after what it was sent, and gets its own verdict. */
static void on_broken(struct roomlog_follower *follower, enum verdict why, struct stream_id head)
{
    struct room *room = of_follower(follower);
    (void)why;
    room->position = head;
    room->epoch++;
    ring_reset(&room->ring, head);
    list_for_each_safe (link, after, &room->members) {
        struct room_member *member = LIST_ITEM(link, struct room_member, link);
        pending_clear(&member->pending, member->budget);
        if (member->state == ROOM_MEMBER_LIVE) {
            set_state(member, ROOM_MEMBER_REPLAYING);
            room->hooks->behind(room, member, room->hooks_arg);
        }
    }
}

static const struct roomlog_follower_ops FOLLOWER_OPS = {on_started, on_entries, on_broken};

struct room *room_create(struct str name, const struct room_common *common,
                         const struct room_hooks *hooks, void *hooks_arg)
{
    struct room *room = xalloc_zero(sizeof(*room) + name.len);
    room->log = common->log;
    room->packets = common->packets;
    room->metrics = common->metrics;
    room->hooks = hooks;
    room->hooks_arg = hooks_arg;
    ring_init(&room->ring, common->rings);
    list_init(&room->members);
    list_init(&room->registry_link);
    list_init(&room->fetch_link);
    list_init(&room->fetches);
    list_init(&room->waiting);
    room->name_len = name.len;
    memcpy(room->name, name.p, name.len);
    room->follower.ops = &FOLLOWER_OPS;
    metrics_inc(room->metrics, M_ROOMS);
    roomlog_follow(room->log, room_name(room), &room->follower);
    return room;
}

void room_destroy(struct room *room)
{
    assert(list_empty(&room->members) && list_empty(&room->fetches));
    roomlog_unfollow(room->log, &room->follower);
    ring_fini(&room->ring);
    metrics_dec(room->metrics, M_ROOMS);
    free(room);
}

void room_enter(struct room *room, struct room_member *member)
{
    assert(member->state == ROOM_MEMBER_OUT);
    member->room = room;
    list_push_back(&room->members, &member->link);
    room->member_count++;
    metrics_inc(room->metrics, M_MEMBERS);
    set_state(member, ROOM_MEMBER_REPLAYING);
}

void room_restart(struct room_member *member)
{
    assert(member->state != ROOM_MEMBER_OUT);
    pending_clear(&member->pending, member->budget);
    set_state(member, ROOM_MEMBER_REPLAYING);
}

void room_go_live(struct room_member *member)
{
    assert(member->state == ROOM_MEMBER_REPLAYING && pending_front(&member->pending) == NULL);
    pending_clear(&member->pending, member->budget);
    set_state(member, ROOM_MEMBER_LIVE);
}

void room_exit(struct room_member *member)
{
    assert(member->state != ROOM_MEMBER_OUT);
    struct room *room = member->room;
    set_state(member, ROOM_MEMBER_OUT);
    pending_clear(&member->pending, member->budget);
    list_remove(&member->link);
    room->member_count--;
    metrics_dec(room->metrics, M_MEMBERS);
    member->room = NULL;
    if (room->member_count == 0)
        room->hooks->emptied(room, room->hooks_arg);
}

void room_signal(struct room *room, const struct room_member *sender, struct packet *p)
{
    list_for_each_safe (link, after, &room->members) {
        struct room_member *member = LIST_ITEM(link, struct room_member, link);
        if (member != sender && member->replay.answered)
            member->ops->signal(member, p);
    }
}
