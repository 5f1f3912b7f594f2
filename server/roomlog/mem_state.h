/* mem_state.h - a room's state in the process: of each key the newest entry.
 *
 * Always true: items are in the order of their ids, one a key; bytes is what state_value_bytes says
 * of them; cost is what they cost in memory; no id is above position.
 */
#ifndef ROOMLOG_MEM_STATE_H
#define ROOMLOG_MEM_STATE_H

#include "base/strmap.h"
#include "roomlog/mem_room.h"

struct mem_state {
    struct list items; /* of mem_entry, by their link */
    struct strmap by_key;
    size_t bytes;
    size_t cost;
    struct stream_id position;
};

void mem_state_init(struct mem_state *state, const uint64_t seed[2]);
/* Must be empty. */
void mem_state_fini(struct mem_state *state);

/* May it be set, with at most max_keys and max_bytes? What takes its key out always may. */
bool mem_state_fits(const struct mem_state *state, const struct roomlog_publish *what,
                    size_t max_keys, size_t max_bytes);

/* Copies what, which is now in the log under id and has a key. Returns owned what stood there
 * before, or NULL. */
struct mem_entry *mem_state_set(struct mem_state *state, const struct roomlog_publish *what,
                                struct stream_id id);

/* Takes the oldest item out. Returns owned, NULL where there is none: then position is 0-0. */
struct mem_entry *mem_state_pop(struct mem_state *state);

#endif
