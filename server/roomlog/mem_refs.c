#include "roomlog/mem_refs.h"

#include "base/xalloc.h"

#include <stdlib.h>

struct remembered {
    struct list link;
    uint64_t until_ms;
    struct stream_id id;
    struct str key; /* room, from and ref, see make_key */
    size_t room_len;
    char bytes[];
};

/* Lengths first: else ("a", "bc") and ("ab", "c") would be one. */
enum { LENGTHS = 2 * sizeof(size_t) };

static size_t key_len(struct str room, struct str from, struct str ref)
{
    return LENGTHS + room.len + from.len + ref.len;
}

static void append(char **at, const void *p, size_t len)
{
    if (len != 0)
        memcpy(*at, p, len);
    *at += len;
}

static void make_key(char *dst, struct str room, struct str from, struct str ref)
{
    append(&dst, &room.len, sizeof(room.len));
    append(&dst, &from.len, sizeof(from.len));
    append(&dst, room.p, room.len);
    append(&dst, from.p, from.len);
    append(&dst, ref.p, ref.len);
}

void mem_refs_init(struct mem_refs *refs, size_t max, uint64_t window_ms, const uint64_t seed[2])
{
    *refs = (struct mem_refs){.max = window_ms == 0 ? 0 : max, .window_ms = window_ms};
    strmap_init(&refs->map, seed[0], seed[1]);
    list_init(&refs->oldest_first);
}

static void forget(struct mem_refs *refs, struct remembered *r)
{
    (void)strmap_remove(&refs->map, r->key); /* it is there: every one in the list is in the map */
    list_remove(&r->link);
    free(r);
}

static struct remembered *oldest(struct mem_refs *refs)
{
    if (list_empty(&refs->oldest_first))
        return NULL;
    return LIST_ITEM(refs->oldest_first.next, struct remembered, link);
}

void mem_refs_fini(struct mem_refs *refs)
{
    for (struct remembered *r; (r = oldest(refs)) != NULL;)
        forget(refs, r);
    strmap_fini(&refs->map);
}

/* One window for all: so the oldest is the first to expire. */
static void expire(struct mem_refs *refs, uint64_t now_ms)
{
    for (struct remembered *r; (r = oldest(refs)) != NULL && r->until_ms <= now_ms;)
        forget(refs, r);
}

bool mem_refs_find(struct mem_refs *refs, uint64_t now_ms, struct str room, struct str from,
                   struct str ref, struct stream_id *out_id)
{
    expire(refs, now_ms);
    if (!str_present(ref) || refs->max == 0)
        return false;
    size_t len = key_len(room, from, ref);
    char *key = xalloc(len);
    make_key(key, room, from, ref);
    const struct remembered *r = strmap_find(&refs->map, (struct str){key, len});
    free(key);
    if (r == NULL)
        return false;
    *out_id = r->id;
    return true;
}

size_t mem_refs_remember(struct mem_refs *refs, uint64_t now_ms, struct str room, struct str from,
                         struct str ref, struct stream_id id)
{
    size_t forgotten = 0;
    if (!str_present(ref) || refs->max == 0)
        return 0;
    for (; refs->map.count >= refs->max; forgotten++)
        forget(refs, oldest(refs));

    size_t len = key_len(room, from, ref);
    struct remembered *r = xalloc(sizeof(*r) + len);
    *r = (struct remembered){
        .until_ms = now_ms + refs->window_ms,
        .id = id,
        .room_len = room.len,
        .key = {r->bytes, len},
    };
    make_key(r->bytes, room, from, ref);
    list_push_back(&refs->oldest_first, &r->link);
    strmap_put(&refs->map, r->key, r);
    return forgotten;
}

void mem_refs_forget_above(struct mem_refs *refs, struct str room, struct stream_id last)
{
    list_for_each_safe (link, next, &refs->oldest_first) {
        struct remembered *r = LIST_ITEM(link, struct remembered, link);
        struct str of = {r->bytes + LENGTHS, r->room_len};
        if (str_eq(of, room) && stream_id_cmp(r->id, last) > 0)
            forget(refs, r);
    }
}
