/* physical_room.h - the bare server's rooms: a name, its members, and this turn's frames. */
#ifndef BENCH_PHYSICAL_ROOM_H
#define BENCH_PHYSICAL_ROOM_H

#include "bench/bytes.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"

enum {
    PHYSICAL_ROOM_MAX = 4096, /* a power of two: open addressing */
    PHYSICAL_ROOM_NAME_MAX = 128
};

struct physical_room;

/* A socket's place in a room. Embedded in the socket, all zero while it is in none. */
struct physical_room_member {
    struct physical_room *room;
    size_t place;
};

struct physical_room {
    char name[PHYSICAL_ROOM_NAME_MAX];
    size_t name_len; /* 0: a free slot */
    struct stream_id last;
    struct physical_room_member **members;
    size_t member_count, member_cap;
    struct bytes turn;
};

/* All zero is empty. */
struct physical_room_table {
    struct physical_room slots[PHYSICAL_ROOM_MAX];
    size_t count;
};

/* Finds or makes it. NULL where the name is too long or the table full. */
struct physical_room *physical_room_open(struct physical_room_table *table, struct str name);

/* Leaves the room it was in. */
void physical_room_enter(struct physical_room *room, struct physical_room_member *member);

/* Fine for one that is in none. The last member takes its place. */
void physical_room_leave(struct physical_room_member *member);

#endif
