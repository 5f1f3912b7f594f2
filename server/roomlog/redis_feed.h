/* redis_feed.h - follows all live rooms: bells say when, inclusive reads say what.
 *
 * A room that is followed is read from its own cursor whenever its bell rings, XRANGE key cursor +.
 * The read is inclusive, and that is the proof: the cursor's own entry at its head shows that
 * everything after it is there too. Only where it isn't there does a second read, MULTI, XINFO,
 * XRANGE, EXEC, decide why, atomically (verdict.h); then the followers are told that the feed
 * broke, and it goes on at the log's end.
 *
 * On any doubt a room is read again: a bell during a read, a full page, an error that passes, a
 * lost connection, every room in turn as an audit. Reading twice costs little; entries at or below
 * the cursor are never delivered again.
 *
 * There is one feed, and in it a lane for each Redis that holds rooms: its pair of connections
 * (redis_bell.h), and the rooms that are read through it.
 *
 * A room may pass to another lane, where its slot of a cluster did; it keeps its cursor and its
 * followers. While the slot is on its way, a room that has gone ahead is asked for in its own lane,
 * then read through the other, which so rings for it too.
 *
 * Always true: a room is in one lane. At most 64 reads are under way through each, of a bounded
 * number of entries that shrinks where a room's entries are large; a room has at most one.
 *
 * A key that holds something else than a stream is a room whose log is gone. One that we may not
 * read any more breaks the feed too, which goes on where it stood once we may again.
 */
#ifndef ROOMLOG_REDIS_FEED_H
#define ROOMLOG_REDIS_FEED_H

#include "roomlog/redis_bell.h"
#include "roomlog/redis_redirect.h"

struct redis_feed;
struct redis_feed_lane;

/* Returns owned. Keeps loop and metrics. poll_ms: between two reads of a room while no bell can be
 * relied on. */
struct redis_feed *redis_feed_create(struct loop *loop, struct metrics *metrics, uint64_t poll_ms);
/* Nobody may follow any more, and no lane be left: asserted. NULL is fine. */
void redis_feed_destroy(struct redis_feed *feed);

/* Each runs from the loop. */
struct redis_feed_lane_ops {
    /* Whoever is read through this lane says that another is to be asked. Returns that one's lane,
     * borrowed; NULL: there is none, so the room is read again later. The op may be NULL. */
    struct redis_feed_lane *(*redirect)(void *arg, const struct redis_redirect *redirect);
    /* After redis_feed_lane_close, once: nothing is left. */
    void (*closed)(void *arg);
};

/* Returns owned, until redis_feed_lane_close. Keeps ops. config as redis_bell_open's. */
struct redis_feed_lane *redis_feed_lane_open(struct redis_feed *feed,
                                             const struct redis_bell_config *config,
                                             const struct redis_feed_lane_ops *ops, void *arg);
/* No room may be in it any more: asserted. As redis_bell_close. */
void redis_feed_lane_close(struct redis_feed_lane *lane);

/* Is no room read through it, nor has one gone ahead to it? */
bool redis_feed_lane_idle(const struct redis_feed_lane *lane);
/* As redis_bell_readable. */
bool redis_feed_lane_readable(const struct redis_feed_lane *lane);
/* As redis_bell_probe. */
void redis_feed_lane_probe(struct redis_feed_lane *lane);

/* As roomlog_follow and roomlog_unfollow; key is the room's in Redis, and lane the one that a room
 * which nobody follows yet is read through. */
void redis_feed_follow(struct redis_feed_lane *lane, struct str key,
                       struct roomlog_follower *follower);
void redis_feed_unfollow(struct roomlog_follower *follower);

/* Asks for the lane of each room that is followed, and has it read there from where it stands. */
void redis_feed_route(struct redis_feed *feed,
                      struct redis_feed_lane *(*lane_of)(void *arg, struct str key), void *arg);

/* About how many bytes an entry of this room takes, from what was last read of it. */
size_t redis_feed_entry_bytes(const struct redis_feed *feed, struct str key);
/* A page of it had count entries of these bytes together. */
void redis_feed_learn(struct redis_feed *feed, struct str key, size_t count, size_t bytes);

#endif
