/* replay.h - walks members from their cursors to the live edge, page by page: the seam.
 *
 * A member that replays asks for the page after the last entry it was sent, if its socket is below
 * low water; the entries go out; and it asks again. The walk ends, and the member is live, when a
 * page has reached the end of the log and what the feed brought meanwhile (the pending list) chains
 * to it, or the pending list chains to it even earlier.
 *
 * Where a page ends is known from the log, where the feed stands from the room; that both meet is
 * proved by `prev`, or by the order of events: a page that was asked for when the feed stood at P,
 * and reached the end of the log, has everything up to P.
 *
 * Where the room's ring holds the member's last entry, what follows comes from there, and the log
 * is not read: the ring ends where the feed stands, so whoever was sent all of it is live in the
 * same turn. A join served so still asks where the log stands, for its answer tells of it; one read
 * for all who wait at that moment. An answer that is below the feed's own position shows a log that
 * has lost its tail: then the log itself decides.
 *
 * Members of a room that want the same page share one read and its packets (fetch.h).
 *
 * Always true: a member that replays waits for exactly one of: its room's feed to start, a fetch,
 * its retry timer, or (none of these) replay_resume.
 */
#ifndef ROOM_REPLAY_H
#define ROOM_REPLAY_H

#include "room/fetch.h"

struct replay_limits {
    size_t page_entries;
    size_t page_bytes;
    size_t frame_bytes;      /* that a frame of a snapshot has at most, but for one large entry */
    size_t in_flight;        /* pages being read at a time */
    uint64_t start_limit_ms; /* how long a join waits, at most, for the room's feed to start */
};

struct replay {
    struct loop *loop;
    struct metrics *metrics;
    struct replay_limits limits;
    struct fetch_queue fetches;
};

/* All pointers are kept. */
void replay_init(struct replay *replay, struct loop *loop, struct roomlog *log,
                 struct metrics *metrics, const struct replay_limits *limits);
void replay_fini(struct replay *replay);

/* Begins: member has just entered its room. Everything is told through its ops, later. */
void replay_start(struct replay *replay, struct room_member *member,
                  const struct room_start *start);
/* A live member must read the log again: after the last that it was sent. */
void replay_again(struct replay *replay, struct room_member *member);
/* Forgets the member, which is about to leave its room. */
void replay_stop(struct replay *replay, struct room_member *member);
/* Its socket is below low water again. Harmless for a member that waits for something else. */
void replay_resume(struct replay *replay, struct room_member *member);

/* The room's feed has started. */
void replay_room_started(struct replay *replay, struct room *room);
/* The room is about to be destroyed; it has no members any more. */
void replay_room_gone(struct replay *replay, struct room *room);

#endif
