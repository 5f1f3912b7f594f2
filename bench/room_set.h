/* room_set.h - the rooms of one run: bench-<run>-<number>, so that no two runs share one. */
#ifndef BENCH_ROOM_SET_H
#define BENCH_ROOM_SET_H

#include "protocol/str.h"

#include <stdint.h>

enum { ROOM_SET_NAME_MAX = 40 };

struct room_set_room {
    char name[ROOM_SET_NAME_MAX];
    size_t name_len;
    uint64_t sent;
    uint64_t acked; /* publishes that the server acknowledged: what every member must get */
};

struct room_set {
    struct room_set_room *rooms;
    size_t count;
    uint32_t run; /* the tag in names and payloads */
};

void room_set_init(struct room_set *set, size_t count);
void room_set_fini(struct room_set *set);

struct str room_set_name(const struct room_set_room *room);

/* The room of that name, or NULL. */
struct room_set_room *room_set_find(struct room_set *set, struct str name);

#endif
