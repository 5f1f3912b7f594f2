/* mem_refs.h - which refs were published lately, and under which ids.
 *
 * Always true: no more than max are remembered, each for window_ms from when it was first
 * published; publishing it again doesn't prolong that. A ref is one user's in one room: nobody can
 * spend another's.
 */
#ifndef ROOMLOG_MEM_REFS_H
#define ROOMLOG_MEM_REFS_H

#include "base/list.h"
#include "base/strmap.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"

#include <stdint.h>

struct mem_refs {
    struct strmap map;
    struct list oldest_first;
    size_t max;
    uint64_t window_ms;
};

/* max or window_ms 0: nothing is remembered. */
void mem_refs_init(struct mem_refs *refs, size_t max, uint64_t window_ms, const uint64_t seed[2]);
void mem_refs_fini(struct mem_refs *refs);

/* False, and *out_id as it was, where it isn't remembered. An absent ref never is. */
bool mem_refs_find(struct mem_refs *refs, uint64_t now_ms, struct str room, struct str from,
                   struct str ref, struct stream_id *out_id);
/* Remembers what mem_refs_find has just not found. Copies. Returns how many were forgotten before
 * their time. */
size_t mem_refs_remember(struct mem_refs *refs, uint64_t now_ms, struct str room, struct str from,
                         struct str ref, struct stream_id id);
/* Forgets the room's refs of ids above last. */
void mem_refs_forget_above(struct mem_refs *refs, struct str room, struct stream_id last);

#endif
