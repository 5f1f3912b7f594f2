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
 * Always true: at most 64 reads are under way, each of a bounded number of entries that
 * shrinks where a room's entries are large; a room has at most one.
 *
 * A key that holds something else than a stream is a room whose log is gone. One that we may not
 * read any more breaks the feed too, which goes on where it stood once we may again.
 */
#ifndef ROOMLOG_REDIS_FEED_H
#define ROOMLOG_REDIS_FEED_H

#include "roomlog/redis_bell.h"

struct redis_feed;

/* Returns owned, until redis_feed_close. Keeps loop and metrics. poll_ms: between two reads of a
 * room while no bell can be relied on. closed(arg) runs after redis_feed_close, once: nothing is
 * left. */
struct redis_feed *redis_feed_open(struct loop *loop, struct metrics *metrics,
                                   const struct redis_bell_config *config, uint64_t poll_ms,
                                   void (*closed)(void *arg), void *arg);

/* Nobody may follow any more: asserted. As redis_bell_close. */
void redis_feed_close(struct redis_feed *feed);

/* As roomlog_follow and roomlog_unfollow; key is the room's in Redis. */
void redis_feed_follow(struct redis_feed *feed, struct str key, struct roomlog_follower *follower);
void redis_feed_unfollow(struct redis_feed *feed, struct roomlog_follower *follower);

/* About how many bytes an entry of this room takes, from what was last read of it. */
size_t redis_feed_entry_bytes(const struct redis_feed *feed, struct str key);
/* A page of it had count entries of these bytes together. */
void redis_feed_learn(struct redis_feed *feed, struct str key, size_t count, size_t bytes);

/* As redis_bell_probe. */
void redis_feed_probe(struct redis_feed *feed);

#endif
