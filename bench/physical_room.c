#include "bench/physical_room.h"

#include "bench/die.h"

#include <stdlib.h>

struct physical_room *physical_room_open(struct physical_room_table *table, struct str name)
{
    size_t slot = 5381;
    for (size_t i = 0; i < name.len; i++)
        slot = slot * 33 + (unsigned char)name.p[i];
    for (;; slot++) {
        struct physical_room *room = &table->slots[slot & (PHYSICAL_ROOM_MAX - 1)];
        if (room->name_len == name.len && memcmp(room->name, name.p, name.len) == 0)
            return room;
        if (room->name_len > 0)
            continue;
        /* One slot stays free, so that every search ends. */
        if (name.len > PHYSICAL_ROOM_NAME_MAX || table->count == PHYSICAL_ROOM_MAX - 1)
            return NULL;
        table->count++;
        memcpy(room->name, name.p, name.len);
        room->name_len = name.len;
        return room;
    }
}

void physical_room_leave(struct physical_room_member *member)
{
    struct physical_room *room = member->room;
    if (room == NULL)
        return;
    struct physical_room_member *last = room->members[--room->member_count];
    room->members[member->place] = last;
    last->place = member->place;
    member->room = NULL;
}

void physical_room_enter(struct physical_room *room, struct physical_room_member *member)
{
    physical_room_leave(member);
    if (room->member_count == room->member_cap) {
        room->member_cap = room->member_cap == 0 ? 16 : room->member_cap * 2;
        room->members =
            die_if_null(realloc(room->members, room->member_cap * sizeof(*room->members)));
    }
    member->room = room;
    member->place = room->member_count;
    room->members[room->member_count++] = member;
}
