/* redis_map.h - which node of a cluster serves which slot, as one of its nodes says. No I/O.
 */
#ifndef ROOMLOG_REDIS_MAP_H
#define ROOMLOG_REDIS_MAP_H

#include "roomlog/redis_place.h"
#include "roomlog/redis_slot.h"

#include <stddef.h>

enum { REDIS_MAP_PLACES_MAX = 1000 };

struct redis_reply;

struct redis_map {
    struct redis_place *places;  /* owned; masters first, then replicas */
    size_t count, masters;       /* of places */
    uint16_t owner[REDIS_SLOTS]; /* a master's place among places, from 1; 0: nobody's */
    size_t covered;              /* slots that somebody serves */
    size_t left_out;             /* masters above the ceiling: their slots are nobody's */
};

/* An answer of CLUSTER SLOTS. teller: where it came from, which stands for a node that doesn't know
 * its own name. False: it is none, and *out_map is zero. Else it wants redis_map_fini. */
bool redis_map_parse(const struct redis_reply *reply, const struct redis_place *teller,
                     struct redis_map *out_map);
void redis_map_fini(struct redis_map *map);

/* What CLUSTER INFO says about the node that was asked. */
struct redis_map_info {
    bool ok;        /* it sees a cluster that works, or the larger part of one */
    uint64_t epoch; /* grows with each failover and each slot that moves */
};

/* Lacks something: false. */
bool redis_map_parse_info(struct str text, struct redis_map_info *out_info);

#endif
