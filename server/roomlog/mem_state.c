#include "roomlog/mem_state.h"

#include "roomlog/state_value.h"

#include <assert.h>

void mem_state_init(struct mem_state *state, const uint64_t seed[2])
{
    *state = (struct mem_state){.bytes = 0};
    list_init(&state->items);
    strmap_init(&state->by_key, seed[0], seed[1]);
}

void mem_state_fini(struct mem_state *state)
{
    assert(state->by_key.count == 0);
    strmap_fini(&state->by_key);
}

static size_t bytes_of(const struct mem_entry *item)
{
    const struct roomlog_publish what = {
        .type = item->e.type, .data = item->e.data, .from = item->e.from};
    return state_value_bytes(item->e.key, item->e.id, &what);
}

bool mem_state_fits(const struct mem_state *state, const struct roomlog_publish *what,
                    size_t max_keys, size_t max_bytes)
{
    if (state_value_deletes(what->data))
        return true;
    const struct mem_entry *old = strmap_find(&state->by_key, what->key);
    if (old == NULL && state->by_key.count >= max_keys)
        return false;
    /* Nobody knows its id yet: the longest counts. */
    size_t more = state_value_bytes(what->key, STREAM_ID_MAX, what);
    size_t rest = state->bytes - (old == NULL ? 0 : bytes_of(old));
    return rest <= max_bytes && more <= max_bytes - rest;
}

static struct mem_entry *remove_item(struct mem_state *state, struct mem_entry *item)
{
    if (item == NULL)
        return NULL;
    (void)strmap_remove(&state->by_key, item->e.key); /* every item is in the map */
    list_remove(&item->link);
    state->bytes -= bytes_of(item);
    state->cost -= item->cost;
    return item;
}

struct mem_entry *mem_state_set(struct mem_state *state, const struct roomlog_publish *what,
                                struct stream_id id)
{
    struct mem_entry *old = remove_item(state, strmap_find(&state->by_key, what->key));
    state->position = id;
    if (state_value_deletes(what->data))
        return old;
    struct roomlog_publish kept = *what;
    kept.ref = (struct str){NULL, 0};
    struct mem_entry *item = mem_room_entry(&kept);
    item->e.id = id;
    list_push_back(&state->items, &item->link);
    strmap_put(&state->by_key, item->e.key, item);
    state->bytes += bytes_of(item);
    state->cost += item->cost;
    return old;
}

struct mem_entry *mem_state_pop(struct mem_state *state)
{
    if (list_empty(&state->items)) {
        state->position = STREAM_ID_ZERO;
        return NULL;
    }
    return remove_item(state, LIST_ITEM(state->items.next, struct mem_entry, link));
}
