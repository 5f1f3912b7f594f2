/* registry.h - the node's open rooms, by name: where sessions come in.
 *
 * The first join opens a room, and it stays open for a while after the last member has left, so
 * that a client which reconnects finds its feed running. Holds what all rooms share: the replay,
 * the rings' pool and the packet account.
 *
 * Always true: no more than max_rooms are open. Where a new one is wanted at the limit, the one
 * that has stood empty longest is closed for it.
 */
#ifndef ROOM_REGISTRY_H
#define ROOM_REGISTRY_H

#include "base/strmap.h"
#include "room/replay.h"

struct registry_limits {
    size_t max_rooms;
    uint64_t linger_ms; /* how long an empty room stays open */
    struct ring_limits ring;
    struct replay_limits replay;
};

struct registry {
    struct loop *loop;
    struct roomlog *log;
    struct metrics *metrics;
    struct registry_limits limits;
    struct packet_account packets;
    struct strmap rooms;
    struct list empty; /* the one that has been so longest is first */
    struct ring_pool rings;
    struct replay replay;
};

/* All pointers are kept. */
void registry_init(struct registry *registry, struct loop *loop, struct roomlog *log,
                   struct metrics *metrics, const struct registry_limits *limits);
/* Closes every room. Nobody may be in one, and no packet may be left: asserted. */
void registry_fini(struct registry *registry);

/* Joins: see room.h for start, and for what member is told. The name must
 * be valid. RD_EUNAVAIL: the log is away; RD_ETOOBIG: too many rooms are open. */
RD_MUST_USE enum rd_err registry_join(struct registry *registry, struct str name,
                                      struct room_member *member, const struct room_start *start);
/* Begins again in the room where member is: what it was sent before is of no account. */
void registry_rejoin(struct registry *registry, struct room_member *member,
                     const struct room_start *start);
/* Harmless for a member that is OUT. */
void registry_leave(struct registry *registry, struct room_member *member);
/* The member's socket is below low water. */
void registry_resume(struct registry *registry, struct room_member *member);

/* Empties rings, the one used least recently first, until all packets together are within budget.
 * False: they are above it still. */
RD_MUST_USE bool registry_shrink(struct registry *registry, size_t budget);

/* An open room, or NULL. Borrowed until the next turn. */
struct room *registry_find(const struct registry *registry, struct str name);

#endif
