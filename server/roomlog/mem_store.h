/* mem_store.h - all rooms' logs in the process, and the ceilings over them.
 *
 * Everything here happens at once; that answers come later is roomlog_mem.c's business.
 *
 * Always true: what roomlog_mem.h promises of max_entries, max_bytes and max_rooms; ids handed out
 * by mem_store_append are above all that were ever used in their room, forgotten or not.
 */
#ifndef ROOMLOG_MEM_STORE_H
#define ROOMLOG_MEM_STORE_H

#include "base/metrics.h"
#include "base/strmap.h"
#include "roomlog/mem_room.h"
#include "roomlog/mem_state.h"
#include "roomlog/roomlog_mem.h"

/* An entry came or went. Runs inside the call that did it, and may not change the store. */
typedef void (*mem_store_changed_fn)(void *arg, struct mem_room *room);

struct mem_store {
    struct metrics *metrics;
    struct roomlog_mem_limits limits;
    mem_store_changed_fn changed;
    void *arg;

    struct strmap rooms;      /* those that exist or are followed */
    struct list with_entries; /* appended to longest ago first */
    struct list idle;         /* existing and not followed, longest left alone first */
    size_t existing;
    size_t bytes;
    size_t states_bytes;
    struct stream_id floor; /* the highest id of any log that is gone */

    bool held;
    struct list buried; /* entries that left meanwhile */
};

void mem_store_init(struct mem_store *store, struct metrics *metrics,
                    const struct roomlog_mem_limits *limits, const uint64_t seed[2],
                    mem_store_changed_fn changed, void *arg);
/* Nobody may follow any more: asserted. */
void mem_store_fini(struct mem_store *store);

/* From hold to release, entries that leave their room stay valid: somebody is looking at them. */
void mem_store_hold(struct mem_store *store);
void mem_store_release(struct mem_store *store);

/* Returns borrowed, until the store next changes; NULL: no such room. */
struct mem_room *mem_store_find(struct mem_store *store, struct str name);

/* A follower's room: stays until mem_store_unfollow, existing or not. link is the follower's. */
struct mem_room *mem_store_follow(struct mem_store *store, struct str name, struct list *link);
void mem_store_unfollow(struct mem_store *store, struct mem_room *room, struct list *link);

/* Cuts what is too old by now out of some rooms, from *at on, which it moves. False: that was all
 * of them. */
bool mem_store_sweep(struct mem_store *store, uint64_t wall_ms, size_t *at);

/* Takes *entry, gives it an id, sets its key in the room's state, and sets it to NULL. RD_EFULL,
 * RD_ESTATEFULL, RD_ENOIDS: as it was. */
RD_MUST_USE enum rd_err mem_store_append(struct mem_store *store, struct str name, uint64_t wall_ms,
                                         struct mem_entry **entry);

/* See roomlog_mem.h. None of them touches a state, except that it goes with its log. */
bool mem_store_add(struct mem_store *store, struct str name, struct stream_id id,
                   const struct roomlog_publish *what);
void mem_store_trim(struct mem_store *store, struct str name, size_t keep);
bool mem_store_delete(struct mem_store *store, struct str name, struct stream_id id);
void mem_store_reset(struct mem_store *store, struct str name);
/* Returns the last id that is left. */
struct stream_id mem_store_lose_tail(struct mem_store *store, struct str name, size_t lost);

#endif
