/* ring.h - a room's newest entries as packets, so that a storm of resumes reads the log once.
 *
 * Ten thousand clients that come back to a room at once want nearly the same few hundred entries,
 * which the room has just fanned out. It keeps them: whoever's cursor is in the ring is sent what
 * follows from here, and the log is not read. The packets are those that the members got; the ring
 * holds references.
 *
 * The live feed appends at the end. A page that a replay read may lengthen the ring at the front
 * where it reaches it, and a room that many come back to reads its newest entries for that alone
 * (warming).
 *
 * Always true: each entry's prev is the id before it in the ring, the first one's is base, and the
 * last id (base where the ring is empty) is where the room's feed stands. So whoever has applied
 * base, or an entry of the ring, lacks exactly what follows it here: as if it had been live all the
 * time. At most max_entries and max_bytes a ring, and total_bytes for all of a pool: past that the
 * ring that was used least recently is emptied.
 */
#ifndef ROOM_RING_H
#define ROOM_RING_H

#include "base/list.h"
#include "base/metrics.h"
#include "base/packet.h"

struct ring_limits {
    size_t max_entries; /* of a room; 0: there are no rings */
    size_t max_bytes;   /* of a room: real bytes of the packets, and their places here */
    size_t total_bytes; /* of all rooms of the pool */
};

/* What the rings of one worker share. */
struct ring_pool {
    struct list rings; /* those that hold anything; the one used least recently is first */
    size_t bytes;
    struct ring_limits limits;
    struct metrics *metrics;
};

/* Embedded in struct room; the fields are ring.c's. */
struct ring {
    struct ring_pool *pool;
    struct list link;        /* in pool->rings */
    struct packet **packets; /* capacity is 0 or a power of two */
    size_t capacity;
    size_t first;
    size_t count;
    size_t bytes;
    struct stream_id base;
    unsigned misses; /* joins that it could not serve since it was emptied */
    bool warmed;     /* the log was read to lengthen it since then */
};

/* Keeps metrics. */
void ring_pool_init(struct ring_pool *pool, const struct ring_limits *limits,
                    struct metrics *metrics);
/* Empties the ring that was used least recently. False: none holds anything. */
bool ring_pool_evict(struct ring_pool *pool);

/* Empty, and good for nobody until ring_reset. Keeps pool. */
void ring_init(struct ring *ring, struct ring_pool *pool);
/* Lets go of everything. */
void ring_fini(struct ring *ring);

/* The feed stands at position, and what was before is of no account: it has started, or it broke.
 */
void ring_reset(struct ring *ring, struct stream_id position);
/* The feed brought p, which must follow the last: asserted. Keeps its own reference, or none where
 * p alone is above the bounds. */
void ring_push(struct ring *ring, struct packet *p);
/* A page of the log, its entries chained to one another. As many of the newest as fit go in front
 * of the ring, if the page holds base and something at or before it. */
void ring_extend(struct ring *ring, struct packet **packets, size_t count);
/* Lets go of what is at or below id: it may have been deleted from the log. */
void ring_drop_to(struct ring *ring, struct stream_id id);

/* Can whoever stands at id be sent all that follows? */
bool ring_holds(const struct ring *ring, struct stream_id id);
/* The place, from 0, of the first entry after id, which the ring must hold: asserted. */
size_t ring_after(const struct ring *ring, struct stream_id id);
/* Borrowed until the ring changes; NULL past the end. */
struct packet *ring_at(const struct ring *ring, size_t place);
/* Somebody was served from it. */
void ring_touch(struct ring *ring);

/* A join was not served. True: this is no exception, read the log's newest max_entries and give
 * them to ring_extend. */
bool ring_miss(struct ring *ring);
/* That was done, whatever came of it. */
void ring_warmed(struct ring *ring);

#endif
