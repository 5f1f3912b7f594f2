#include "roomlog/mem_store.h"

#include "base/xalloc.h"
#include "roomlog/state_value.h"

#include <assert.h>
#include <stdlib.h>

void mem_store_init(struct mem_store *store, struct metrics *metrics,
                    const struct roomlog_mem_limits *limits, const uint64_t seed[2],
                    mem_store_changed_fn changed, void *arg)
{
    assert(limits->max_entries != 0 && limits->max_rooms != 0);
    *store = (struct mem_store){
        .metrics = metrics,
        .limits = *limits,
        .changed = changed,
        .arg = arg,
    };
    strmap_init(&store->rooms, seed[0], seed[1]);
    list_init(&store->with_entries);
    list_init(&store->idle);
    list_init(&store->buried);
}

static void drop_state(struct mem_store *store, struct mem_room *room);

void mem_store_fini(struct mem_store *store)
{
    size_t at = 0;
    mem_store_release(store);
    for (struct mem_room *room; (room = strmap_next(&store->rooms, &at)) != NULL;) {
        assert(list_empty(&room->followers));
        for (struct mem_entry *entry; (entry = mem_room_trim_front(room)) != NULL;)
            free(entry);
        drop_state(store, room);
        mem_room_destroy(room);
    }
    strmap_fini(&store->rooms);
}

void mem_store_hold(struct mem_store *store)
{
    store->held = true;
}

void mem_store_release(struct mem_store *store)
{
    store->held = false;
    for (struct list *link; (link = list_pop_front(&store->buried)) != NULL;)
        free(LIST_ITEM(link, struct mem_entry, link));
}

/* --- rooms ---------------------------------------------------------------------------------- */

struct mem_room *mem_store_find(struct mem_store *store, struct str name)
{
    return strmap_find(&store->rooms, name);
}

static struct mem_room *find_or_create(struct mem_store *store, struct str name)
{
    struct mem_room *room = mem_store_find(store, name);
    if (room == NULL) {
        room = mem_room_create(name);
        strmap_put(&store->rooms, room->name, room);
    }
    return room;
}

static void drop_if_unused(struct mem_store *store, struct mem_room *room)
{
    if (room->exists || !list_empty(&room->followers))
        return;
    (void)strmap_remove(&store->rooms, room->name); /* every room is in the map */
    mem_room_destroy(room);
}

struct mem_room *mem_store_follow(struct mem_store *store, struct str name, struct list *link)
{
    struct mem_room *room = find_or_create(store, name);
    list_push_back(&room->followers, link);
    list_remove(&room->idle);
    return room;
}

void mem_store_unfollow(struct mem_store *store, struct mem_room *room, struct list *link)
{
    list_remove(link);
    if (list_empty(&room->followers) && room->exists)
        list_push_back(&store->idle, &room->idle);
    drop_if_unused(store, room);
}

/* Takes entry, which may be NULL, and which somebody may still be looking at. */
static void bury(struct mem_store *store, struct mem_entry *entry)
{
    if (entry != NULL && store->held)
        list_push_back(&store->buried, &entry->link);
    else
        free(entry);
}

/* --- states --------------------------------------------------------------------------------- */

static struct roomlog_publish publish_of(const struct mem_entry *entry)
{
    return (struct roomlog_publish){.type = entry->e.type,
                                    .data = entry->e.data,
                                    .from = entry->e.from,
                                    .ref = entry->e.ref,
                                    .key = entry->e.key};
}

static bool has_state(const struct mem_store *store, const struct mem_entry *entry)
{
    return store->limits.max_state_keys != 0 && state_value_has_place(entry->e.key);
}

/* May the entry set its key in room's state? */
static enum rd_err admit_state(const struct mem_store *store, const struct mem_room *room,
                               const struct mem_entry *entry)
{
    static const struct mem_state none;
    const struct roomlog_publish what = publish_of(entry);
    if (!has_state(store, entry))
        return RD_OK;
    if (!mem_state_fits(room->state != NULL ? room->state : &none, &what,
                        store->limits.max_state_keys, store->limits.max_state_bytes))
        return RD_ESTATEFULL;
    /* What is replaced isn't counted against it: near the ceiling that hardly matters. */
    return entry->cost <= store->limits.max_states_bytes - store->states_bytes ? RD_OK : RD_EFULL;
}

static void set_state(struct mem_store *store, struct mem_room *room, const struct mem_entry *entry)
{
    const struct roomlog_publish what = publish_of(entry);
    if (!has_state(store, entry))
        return;
    if (room->state == NULL) {
        room->state = xalloc(sizeof(*room->state));
        mem_state_init(room->state, store->rooms.seed);
    }
    size_t cost = room->state->cost;
    bury(store, mem_state_set(room->state, &what, entry->e.id));
    store->states_bytes += room->state->cost - cost; /* may wrap, and wraps back */
}

static void drop_state(struct mem_store *store, struct mem_room *room)
{
    if (room->state == NULL)
        return;
    store->states_bytes -= room->state->cost;
    for (struct mem_entry *item; (item = mem_state_pop(room->state)) != NULL;)
        bury(store, item);
    mem_state_fini(room->state);
    free(room->state);
    room->state = NULL;
}

/* --- entries come and go -------------------------------------------------------------------- */

/* Takes entry, which has just left room. */
static void removed(struct mem_store *store, struct mem_room *room, struct mem_entry *entry)
{
    store->bytes -= entry->cost;
    if (room->count == 0)
        list_remove(&room->with_entries);
    bury(store, entry);
}

static void trim_front(struct mem_store *store, struct mem_room *room)
{
    removed(store, room, mem_room_trim_front(room));
    metrics_inc(store->metrics, M_LOG_TRIMMED);
    store->changed(store->arg, room);
}

/* As MINID. */
static void trim_old(struct mem_store *store, struct mem_room *room, uint64_t wall_ms)
{
    uint64_t age = store->limits.max_age_ms;
    if (age == 0 || age >= wall_ms)
        return;
    while (room->count != 0 && mem_room_at(room, 0)->e.id.ms < wall_ms - age)
        trim_front(store, room);
}

bool mem_store_sweep(struct mem_store *store, uint64_t wall_ms, size_t *at)
{
    enum { SOME = 1000 };
    for (unsigned i = 0; i < SOME; i++) {
        struct mem_room *room = strmap_next(&store->rooms, at);
        if (room == NULL)
            return false;
        trim_old(store, room, wall_ms);
    }
    return true;
}

static void raise_floor(struct mem_store *store, struct stream_id id)
{
    if (stream_id_cmp(id, store->floor) > 0)
        store->floor = id;
}

/* As DEL. Frees room where nobody follows it. */
static void forget(struct mem_store *store, struct mem_room *room)
{
    assert(room->exists);
    raise_floor(store, room->last);
    for (struct mem_entry *entry; (entry = mem_room_trim_front(room)) != NULL;)
        removed(store, room, entry);
    mem_room_forget(room);
    drop_state(store, room);
    store->existing--;
    list_remove(&room->idle);
    store->changed(store->arg, room);
    drop_if_unused(store, room);
}

/* May one more room exist? */
static bool admit(struct mem_store *store)
{
    if (store->existing < store->limits.max_rooms)
        return true;
    if (list_empty(&store->idle))
        return false;
    forget(store, LIST_ITEM(store->idle.next, struct mem_room, idle));
    metrics_inc(store->metrics, M_LOG_ROOMS_FORGOTTEN);
    return true;
}

/* Takes entry, whose id is set and fits, and which is no larger than max_bytes. */
static void insert(struct mem_store *store, struct mem_room *room, struct mem_entry *entry)
{
    /* First: what is appended to now isn't the room appended to longest ago. */
    list_remove(&room->with_entries);
    list_push_back(&store->with_entries, &room->with_entries);
    while (entry->cost > store->limits.max_bytes - store->bytes)
        trim_front(store, LIST_ITEM(store->with_entries.next, struct mem_room, with_entries));
    while (room->count >= store->limits.max_entries)
        trim_front(store, room);

    if (!room->exists)
        store->existing++;
    mem_room_push(room, entry);
    store->bytes += entry->cost;
    if (list_empty(&room->with_entries)) /* it was cut to nothing on the way */
        list_push_back(&store->with_entries, &room->with_entries);
    if (list_empty(&room->followers)) {
        list_remove(&room->idle);
        list_push_back(&store->idle, &room->idle);
    }
    store->changed(store->arg, room);
}

static struct stream_id highest(const struct mem_store *store, const struct mem_room *room)
{
    return stream_id_cmp(room->last, store->floor) > 0 ? room->last : store->floor;
}

static struct stream_id next_id(struct stream_id above, uint64_t wall_ms)
{
    struct stream_id id = {wall_ms, 0};
    if (stream_id_cmp(id, above) > 0)
        return id;
    /* More than one in a millisecond, or the clock went back. */
    return above.seq == UINT64_MAX ? (struct stream_id){above.ms + 1, 0}
                                   : (struct stream_id){above.ms, above.seq + 1};
}

enum rd_err mem_store_append(struct mem_store *store, struct str name, uint64_t wall_ms,
                             struct mem_entry **entry)
{
    struct mem_room *room = find_or_create(store, name);
    /* As Redis: "The stream has exhausted the last possible ID". */
    enum rd_err err = stream_id_eq(highest(store, room), STREAM_ID_MAX) ? RD_ENOIDS : RD_OK;
    if (err == RD_OK)
        err = admit_state(store, room, *entry);
    if (err == RD_OK && !room->exists && !admit(store))
        err = RD_EFULL;
    if (err != RD_OK) {
        metrics_inc(store->metrics, M_LOG_FULL);
        drop_if_unused(store, room);
        return err;
    }
    /* Only now: what admit has just forgotten may have raised the floor. */
    (*entry)->e.id = next_id(highest(store, room), wall_ms);
    const struct mem_entry *inserted = *entry;
    insert(store, room, *entry);
    *entry = NULL;
    set_state(store, room, inserted); /* it is the newest of its room, and still there */
    trim_old(store, room, wall_ms);
    return RD_OK;
}

/* --- what somebody else may do -------------------------------------------------------------- */

bool mem_store_add(struct mem_store *store, struct str name, struct stream_id id,
                   const struct roomlog_publish *what)
{
    struct mem_room *room = find_or_create(store, name);
    bool fits = stream_id_cmp(id, room->last) > 0 &&
                mem_room_cost(what) <= store->limits.max_bytes && (room->exists || admit(store));
    if (!fits) {
        drop_if_unused(store, room);
        return false;
    }
    struct mem_entry *entry = mem_room_entry(what);
    entry->e.id = id;
    insert(store, room, entry);
    return true;
}

void mem_store_trim(struct mem_store *store, struct str name, size_t keep)
{
    struct mem_room *room = mem_store_find(store, name);
    while (room != NULL && room->count > keep)
        trim_front(store, room);
}

bool mem_store_delete(struct mem_store *store, struct str name, struct stream_id id)
{
    struct mem_room *room = mem_store_find(store, name);
    struct mem_entry *entry = room == NULL ? NULL : mem_room_delete(room, id);
    if (entry == NULL)
        return false;
    removed(store, room, entry);
    store->changed(store->arg, room);
    return true;
}

void mem_store_reset(struct mem_store *store, struct str name)
{
    struct mem_room *room = mem_store_find(store, name);
    if (room != NULL && room->exists)
        forget(store, room);
}

struct stream_id mem_store_lose_tail(struct mem_store *store, struct str name, size_t lost)
{
    struct mem_room *room = mem_store_find(store, name);
    if (room == NULL || !room->exists)
        return STREAM_ID_ZERO;

    raise_floor(store, room->last);
    for (; lost != 0 && room->count != 0; lost--)
        removed(store, room, mem_room_lose_back(room));
    store->changed(store->arg, room);
    struct stream_id last = room->last;
    if (room->state != NULL && stream_id_cmp(room->state->position, last) > 0)
        drop_state(store, room);
    /* A replica that has seen nothing has no such key. */
    if (room->added == 0)
        forget(store, room);
    return last;
}
