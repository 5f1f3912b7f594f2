#include "bench/room_set.h"

#include "bench/clock.h"
#include "bench/die.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void room_set_init(struct room_set *set, size_t count)
{
    if (getrandom(&set->run, sizeof(set->run), 0) != (ssize_t)sizeof(set->run))
        set->run = (uint32_t)clock_now_ns();
    set->count = count;
    set->rooms = die_if_null(calloc(count, sizeof(*set->rooms)));
    for (size_t i = 0; i < count; i++) {
        struct room_set_room *room = &set->rooms[i];
        int len = snprintf(room->name, sizeof(room->name), "bench-%08" PRIx32 "-%zu", set->run, i);
        room->name_len = (size_t)len;
    }
}

void room_set_fini(struct room_set *set)
{
    free(set->rooms);
}

struct str room_set_name(const struct room_set_room *room)
{
    return (struct str){room->name, room->name_len};
}

struct room_set_room *room_set_find(struct room_set *set, struct str name)
{
    /* The number after the last dash is the index; the comparison below makes sure of the rest. */
    size_t index = 0;
    size_t scale = 1;
    for (size_t i = name.len; i > 0 && name.p[i - 1] >= '0' && name.p[i - 1] <= '9'; i--) {
        if (scale > set->count * 10)
            return NULL;
        index += scale * (size_t)(name.p[i - 1] - '0');
        scale *= 10;
    }
    if (index >= set->count || !str_eq(room_set_name(&set->rooms[index]), name))
        return NULL;
    return &set->rooms[index];
}
