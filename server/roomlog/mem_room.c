#include "roomlog/mem_room.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FIRST_CAPACITY = 4,
    /* An entry's share of the ring, at its emptiest. */
    SLOT_COST = 4 * sizeof(struct mem_entry *)
};

size_t mem_room_cost(const struct roomlog_publish *what)
{
    const size_t lens[] = {what->type.len, what->data.len, what->from.len, what->ref.len,
                           what->key.len};
    size_t cost = sizeof(struct mem_entry) + SLOT_COST;
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        if (lens[i] > SIZE_MAX - cost)
            return SIZE_MAX;
        cost += lens[i];
    }
    return cost;
}

/* Copies text to *at and moves on. Absent stays absent. */
static struct str keep(struct str text, char **at)
{
    if (!str_present(text))
        return text;
    struct str kept = {*at, text.len};
    if (text.len != 0)
        memcpy(*at, text.p, text.len);
    *at += text.len;
    return kept;
}

struct mem_entry *mem_room_entry(const struct roomlog_publish *what)
{
    size_t cost = mem_room_cost(what);
    struct mem_entry *entry = xalloc(cost - SLOT_COST);
    char *at = entry->bytes;

    *entry = (struct mem_entry){.cost = cost};
    list_init(&entry->link);
    entry->e.type = keep(what->type, &at);
    entry->e.data = keep(what->data, &at);
    entry->e.from = keep(what->from, &at);
    entry->e.ref = keep(what->ref, &at);
    entry->e.key = keep(what->key, &at);
    return entry;
}

struct mem_room *mem_room_create(struct str name)
{
    struct mem_room *room = xalloc(sizeof(*room) + name.len);
    *room = (struct mem_room){.exists = false};
    list_init(&room->with_entries);
    list_init(&room->idle);
    list_init(&room->followers);
    char *at = room->name_bytes;
    room->name = keep(name, &at);
    return room;
}

void mem_room_destroy(struct mem_room *room)
{
    if (room == NULL)
        return;
    assert(room->count == 0);
    free(room->ring);
    free(room);
}

/* --- the ring ------------------------------------------------------------------------------- */

static size_t slot(const struct mem_room *room, size_t place)
{
    return (room->head + place) & (room->capacity - 1);
}

static void resize(struct mem_room *room, size_t capacity)
{
    struct mem_entry **ring = xalloc_array(NULL, capacity, sizeof(struct mem_entry *));
    for (size_t i = 0; i < room->count; i++)
        ring[i] = room->ring[slot(room, i)];
    free(room->ring);
    room->ring = ring;
    room->capacity = capacity;
    room->head = 0;
}

void mem_room_push(struct mem_room *room, struct mem_entry *entry)
{
    assert(stream_id_cmp(entry->e.id, room->last) > 0);
    if (room->count == room->capacity)
        resize(room, room->capacity == 0 ? FIRST_CAPACITY : room->capacity * 2);
    room->ring[slot(room, room->count)] = entry;
    room->count++;
    room->bytes += entry->cost;
    room->added++;
    room->last = entry->e.id;
    room->exists = true;
}

/* The books, after an entry was taken out of the ring. */
static struct mem_entry *removed(struct mem_room *room, struct mem_entry *entry)
{
    room->count--;
    room->bytes -= entry->cost;
    /* A room that was large once gives its ring back. */
    if (room->capacity > FIRST_CAPACITY && room->count < room->capacity / 4)
        resize(room, room->capacity / 2);
    return entry;
}

static void raise_to(struct stream_id *highest, struct stream_id id)
{
    if (stream_id_cmp(id, *highest) > 0)
        *highest = id;
}

struct mem_entry *mem_room_trim_front(struct mem_room *room)
{
    if (room->count == 0)
        return NULL;
    struct mem_entry *entry = room->ring[room->head];
    room->head = slot(room, 1);
    raise_to(&room->removed, entry->e.id);
    return removed(room, entry);
}

struct mem_entry *mem_room_lose_back(struct mem_room *room)
{
    if (room->count == 0)
        return NULL;
    struct mem_entry *entry = room->ring[slot(room, room->count - 1)];
    entry = removed(room, entry);
    room->added--;
    room->last = room->count == 0 ? STREAM_ID_ZERO : mem_room_at(room, room->count - 1)->e.id;
    /* A replica that never had this entry may still have seen what was cut before it come and go.
     */
    if (stream_id_cmp(room->removed, entry->e.id) < 0)
        raise_to(&room->last, room->removed);
    if (stream_id_cmp(room->max_deleted, room->last) > 0)
        room->max_deleted = STREAM_ID_ZERO;
    return entry;
}

struct mem_entry *mem_room_delete(struct mem_room *room, struct stream_id id)
{
    size_t place = mem_room_seek(room, id);
    if (place == room->count || !stream_id_eq(mem_room_at(room, place)->e.id, id))
        return NULL;

    struct mem_entry *entry = room->ring[slot(room, place)];
    for (size_t i = place; i + 1 < room->count; i++)
        room->ring[slot(room, i)] = room->ring[slot(room, i + 1)];
    raise_to(&room->max_deleted, id);
    raise_to(&room->removed, id);
    return removed(room, entry);
}

void mem_room_forget(struct mem_room *room)
{
    assert(room->count == 0);
    free(room->ring);
    room->ring = NULL;
    room->capacity = 0;
    room->head = 0;
    room->added = 0;
    room->last = STREAM_ID_ZERO;
    room->max_deleted = STREAM_ID_ZERO;
    room->removed = STREAM_ID_ZERO;
    room->exists = false;
}

/* --- reading -------------------------------------------------------------------------------- */

const struct mem_entry *mem_room_at(const struct mem_room *room, size_t place)
{
    assert(place < room->count);
    return room->ring[slot(room, place)];
}

size_t mem_room_seek(const struct mem_room *room, struct stream_id id)
{
    size_t low = 0;
    size_t high = room->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stream_id_cmp(mem_room_at(room, middle)->e.id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct verdict_info mem_room_info(const struct mem_room *room)
{
    if (room == NULL || !room->exists)
        return (struct verdict_info){.exists = false};
    return (struct verdict_info){
        .exists = true,
        .length = room->count,
        .added = room->added,
        .first = room->count == 0 ? STREAM_ID_ZERO : mem_room_at(room, 0)->e.id,
        .last = room->last,
        .max_deleted = room->max_deleted,
    };
}

enum verdict mem_room_verdict(const struct mem_room *room, struct stream_id cursor,
                              size_t *out_place)
{
    struct verdict_info info = mem_room_info(room);
    const struct stream_id *first_read = NULL;

    *out_place = 0;
    if (room != NULL) {
        size_t place = mem_room_seek(room, cursor);
        if (place < room->count)
            first_read = &mem_room_at(room, place)->e.id;
        *out_place = first_read != NULL && stream_id_eq(*first_read, cursor) ? place + 1 : place;
    }
    return verdict_of(cursor, first_read, &info);
}

struct roomlog_entry mem_room_view(const struct mem_room *room, size_t place)
{
    struct roomlog_entry view = mem_room_at(room, place)->e;
    if (place != 0)
        view.prev = mem_room_at(room, place - 1)->e.id;
    /* The very first of a log is chained to 0-0; where something was removed, nobody knows to what.
     */
    view.prev_known = place != 0 || room->added == room->count;
    return view;
}
