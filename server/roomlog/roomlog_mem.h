/* roomlog_mem.h - the log in the process: for trying roomd without Redis, and for tests.
 *
 * The same ids (ms-seq from the wall clock, growing even where that goes back), the same trimming,
 * the same verdicts as on Redis. Lives and dies with the process: after a restart every cursor is
 * told so.
 *
 * What is older than max_age_ms is cut with the next append to its room, and else within some
 * seconds, a minute at most.
 *
 * Always true: no room keeps more than max_entries; all rooms together keep no more than max_bytes
 * of entries (the room that was appended to longest ago is cut first, and its members' cursors then
 * get `trimmed`) and are no more than max_rooms (of those nobody follows, the one that was followed
 * or appended to longest ago is forgotten, and cursors into it get `reset`; where all are followed,
 * an append to one more is answered with RD_EFULL); no more than max_refs refs are remembered, the
 * oldest is forgotten first. Each has its counter. All states together are no more than
 * max_states_bytes: an append that would pass that is answered with RD_EFULL.
 *
 * Ids are never used twice, not even by a room that was forgotten or reset and begins anew: a
 * cursor into the old one can't be taken for one into the new.
 *
 * Requests are answered, in the order they were made, on the next turn of the loop; a follower
 * hears of an append on the turn after that. A cancelled append is done all the same, as it would
 * be on Redis.
 */
#ifndef ROOMLOG_ROOMLOG_MEM_H
#define ROOMLOG_ROOMLOG_MEM_H

#include "base/loop.h"
#include "base/metrics.h"
#include "roomlog/roomlog.h"

struct roomlog_mem_limits {
    size_t max_entries;  /* a room; at least 1 */
    uint64_t max_age_ms; /* of an entry, about; 0: not cut by age */
    size_t max_bytes; /* all rooms; an entry that is larger by itself is refused with RD_ETOOBIG */
    size_t max_rooms; /* at least 1 */
    size_t max_refs;  /* 0: none is remembered */
    uint64_t dedupe_ms;      /* how long a ref is remembered; 0: not at all */
    size_t max_in_flight;    /* appends and reads not yet answered */
    size_t max_state_keys;   /* of a room; 0: no state is kept */
    size_t max_state_bytes;  /* of a room, see state_value_bytes */
    size_t max_states_bytes; /* all rooms' states, structs and texts, beside max_bytes */
};

/* Returns owned: roomlog_close frees it. Keeps loop and metrics, which must outlive it. */
struct roomlog *roomlog_mem_create(struct loop *loop, struct metrics *metrics,
                                   const struct roomlog_mem_limits *limits);

/* What somebody else may do to a stream, for tests and tools; each at once, and as the Redis
 * command of that name. Rooms that don't exist are left alone, but by the first. */

/* XADD: any of the texts may be absent. False, and nothing done, where id isn't above the last or a
 * ceiling is in the way. Nothing is deduplicated. */
bool roomlog_mem_add(struct roomlog *log, struct str room, struct stream_id id,
                     const struct roomlog_publish *what);
void roomlog_mem_trim(struct roomlog *log, struct str room, size_t keep); /* XTRIM MAXLEN keep */
bool roomlog_mem_delete(struct roomlog *log, struct str room, struct stream_id id); /* XDEL */
void roomlog_mem_reset(struct roomlog *log, struct str room);                       /* DEL */
/* A failover that lost the newest entries: drops them, their ids and their refs. */
void roomlog_mem_lose_tail(struct roomlog *log, struct str room, size_t lost);

/* What all entries cost together, structs and texts: what max_bytes bounds. And all states. */
size_t roomlog_mem_bytes(struct roomlog *log);
size_t roomlog_mem_states_bytes(struct roomlog *log);

#endif
