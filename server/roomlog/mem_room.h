/* mem_room.h - one room's log in the process: a ring of entries and what a Redis stream records
 * about itself.
 *
 * Knows nothing of requests, followers' callbacks or ceilings over several rooms: those are
 * roomlog_mem.c's, whose links live in here.
 *
 * Always true: entries are in the order of their ids, all at or below last; bytes is what they
 * cost; where exists is false there are none.
 */
#ifndef ROOMLOG_MEM_ROOM_H
#define ROOMLOG_MEM_ROOM_H

#include "base/list.h"
#include "roomlog/roomlog.h"

/* One allocation an entry; its texts point into bytes. Immutable. */
struct mem_entry {
    struct list link; /* unused while in a room; roomlog_mem.c's after that */
    size_t cost;
    struct roomlog_entry e; /* prev is not kept: it is whatever lies before it when it is read */
    char bytes[];
};

struct mem_state;

struct mem_room {
    struct mem_state *state;  /* mem_store.c's; NULL: nothing with a key was ever appended */
    struct list with_entries; /* roomlog_mem.c's links */
    struct list idle;
    struct list followers;
    struct str name;
    bool exists; /* as a key would; a followed room need not */

    struct mem_entry **ring; /* capacity is 0 or a power of two */
    size_t capacity;
    size_t head;
    size_t count;
    size_t bytes;
    uint64_t added;
    struct stream_id last;
    struct stream_id max_deleted;
    struct stream_id removed; /* the highest that ever left in any way: not recorded by Redis
                                 either, so it counts only where a lost tail leaves nothing */
    char name_bytes[];
};

/* What an entry with these texts costs, as bytes counts it. SIZE_MAX where that can't be said. */
size_t mem_room_cost(const struct roomlog_publish *what);
/* Copies the texts. Returns owned. */
struct mem_entry *mem_room_entry(const struct roomlog_publish *what);

/* Copies name. Returns owned, with its links initialised, and not existing. */
struct mem_room *mem_room_create(struct str name);
/* There must be no entries any more. */
void mem_room_destroy(struct mem_room *room);

/* Takes entry, whose id must be above last. */
void mem_room_push(struct mem_room *room, struct mem_entry *entry);
/* Takes the oldest or the newest out, or the one with that id: NULL where there is none. Returns
 * owned. What Redis records of each way to leave is recorded. */
struct mem_entry *mem_room_trim_front(struct mem_room *room);
struct mem_entry *mem_room_lose_back(struct mem_room *room);
struct mem_entry *mem_room_delete(struct mem_room *room, struct stream_id id);
/* As after DEL. There must be no entries any more. */
void mem_room_forget(struct mem_room *room);

/* The place of the first entry at or above id; count where there is none. */
size_t mem_room_seek(const struct mem_room *room, struct stream_id id);
const struct mem_entry *mem_room_at(const struct mem_room *room, size_t place);

/* room may be NULL: no such room. */
struct verdict_info mem_room_info(const struct mem_room *room);
/* May cursor be honoured? *out_place is where the entries after it begin. room may be NULL. */
enum verdict mem_room_verdict(const struct mem_room *room, struct stream_id cursor,
                              size_t *out_place);

/* The entry at place as a reader sees it, chained to the one before it. */
struct roomlog_entry mem_room_view(const struct mem_room *room, size_t place);

#endif
