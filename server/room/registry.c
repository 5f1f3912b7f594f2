#include "room/registry.h"

#include <assert.h>

static void close_room(struct registry *registry, struct room *room)
{
    loop_timer_stop(registry->loop, &room->linger);
    list_remove(&room->registry_link);
    (void)strmap_remove(&registry->rooms, room_name(room));
    replay_room_gone(&registry->replay, room);
    room_destroy(room);
}

static void on_linger_over(void *arg)
{
    struct room *room = arg;
    close_room(room->hooks_arg, room);
}

static void on_started(struct room *room, void *arg)
{
    struct registry *registry = arg;
    replay_room_started(&registry->replay, room);
}

static void on_behind(struct room *room, struct room_member *member, void *arg)
{
    struct registry *registry = arg;
    replay_again(&registry->replay, member);
}

static void on_emptied(struct room *room, void *arg)
{
    struct registry *registry = arg;
    list_push_back(&registry->empty, &room->registry_link);
    loop_timer_start(registry->loop, &room->linger, registry->limits.linger_ms, on_linger_over,
                     room);
}

static const struct room_hooks HOOKS = {on_started, on_behind, on_emptied};

void registry_init(struct registry *registry, struct loop *loop, struct roomlog *log,
                   struct metrics *metrics, const struct registry_limits *limits)
{
    *registry = (struct registry){.loop = loop, .log = log, .metrics = metrics, .limits = *limits};
    strmap_init(&registry->rooms, loop_random(loop), loop_random(loop));
    list_init(&registry->empty);
    ring_pool_init(&registry->rings, &limits->ring, metrics);
    replay_init(&registry->replay, loop, log, metrics, &limits->replay);
}

void registry_fini(struct registry *registry)
{
    for (struct list *link; (link = list_pop_front(&registry->empty)) != NULL;)
        close_room(registry, LIST_ITEM(link, struct room, registry_link));
    assert(registry->rooms.count == 0);
    replay_fini(&registry->replay);
    strmap_fini(&registry->rooms);
    assert(registry->packets.count == 0);
}

struct room *registry_find(const struct registry *registry, struct str name)
{
    return strmap_find(&registry->rooms, name);
}

static struct room *open_room(struct registry *registry, struct str name)
{
    if (registry->rooms.count >= registry->limits.max_rooms) {
        struct list *longest_empty = registry->empty.next;
        if (longest_empty == &registry->empty)
            return NULL;
        close_room(registry, LIST_ITEM(longest_empty, struct room, registry_link));
    }
    const struct room_common common = {.log = registry->log,
                                       .packets = &registry->packets,
                                       .metrics = registry->metrics,
                                       .rings = &registry->rings};
    struct room *room = room_create(name, &common, &HOOKS, registry);
    strmap_put(&registry->rooms, room_name(room), room);
    return room;
}

enum rd_err registry_join(struct registry *registry, struct str name, struct room_member *member,
                          const struct room_start *start)
{
    if (!roomlog_readable(registry->log, name))
        return RD_EUNAVAIL;
    struct room *room = registry_find(registry, name);
    if (room == NULL)
        room = open_room(registry, name);
    if (room == NULL)
        return RD_ETOOBIG;
    loop_timer_stop(registry->loop, &room->linger);
    list_remove(&room->registry_link);
    room_enter(room, member);
    replay_start(&registry->replay, member, start);
    return RD_OK;
}

void registry_rejoin(struct registry *registry, struct room_member *member,
                     const struct room_start *start)
{
    replay_stop(&registry->replay, member);
    room_restart(member);
    replay_start(&registry->replay, member, start);
}

void registry_leave(struct registry *registry, struct room_member *member)
{
    if (member->state == ROOM_MEMBER_OUT)
        return;
    replay_stop(&registry->replay, member);
    room_exit(member);
}

void registry_resume(struct registry *registry, struct room_member *member)
{
    replay_resume(&registry->replay, member);
}

bool registry_shrink(struct registry *registry, size_t budget)
{
    while (registry->packets.bytes > budget)
        if (!ring_pool_evict(&registry->rings))
            return false;
    return true;
}
