#include "room/ring.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FIRST_CAPACITY = 8,
    MISSES = 2 /* joins that read the log for themselves, before the ring is warmed for all */
};

static struct packet **slot(const struct ring *ring, size_t i)
{
    return &ring->packets[(ring->first + i) & (ring->capacity - 1)];
}

static size_t cost(const struct packet *p)
{
    return sizeof(*p) + packet_len(p) + sizeof(struct packet *);
}

static void grow(struct ring *ring)
{
    size_t capacity = ring->capacity == 0 ? FIRST_CAPACITY : ring->capacity * 2;
    struct packet **packets = xalloc_array(NULL, capacity, sizeof(struct packet *));
    for (size_t i = 0; i < ring->count; i++)
        packets[i] = *slot(ring, i);
    free(ring->packets);
    ring->packets = packets;
    ring->capacity = capacity;
    ring->first = 0;
}

/* Books p in or out. */
static void note(struct ring *ring, const struct packet *p, bool in)
{
    struct ring_pool *pool = ring->pool;
    size_t bytes = cost(p);
    ring->bytes = in ? ring->bytes + bytes : ring->bytes - bytes;
    pool->bytes = in ? pool->bytes + bytes : pool->bytes - bytes;
    metrics_set(pool->metrics, M_RING_BYTES, pool->bytes);
}

static void pop_front(struct ring *ring)
{
    struct packet *p = *slot(ring, 0);
    ring->base = p->id;
    ring->first++;
    if (--ring->count == 0)
        list_remove(&ring->link);
    note(ring, p, false);
    packet_unref(p);
}

/* Empty: it begins where it ended. */
static void empty(struct ring *ring)
{
    while (ring->count != 0)
        pop_front(ring);
    free(ring->packets);
    ring->packets = NULL;
    ring->capacity = 0;
    ring->misses = 0;
    ring->warmed = false;
}

/* Of all rings but this one, which is in use. */
static void keep_total(struct ring *ring)
{
    struct ring_pool *pool = ring->pool;
    ring_touch(ring);
    while (pool->bytes > pool->limits.total_bytes)
        (void)ring_pool_evict(pool);
}

void ring_pool_init(struct ring_pool *pool, const struct ring_limits *limits,
                    struct metrics *metrics)
{
    *pool = (struct ring_pool){.limits = *limits, .metrics = metrics};
    list_init(&pool->rings);
}

bool ring_pool_evict(struct ring_pool *pool)
{
    if (list_empty(&pool->rings))
        return false;
    empty(LIST_ITEM(pool->rings.next, struct ring, link));
    metrics_inc(pool->metrics, M_RING_EVICTIONS);
    return true;
}

void ring_init(struct ring *ring, struct ring_pool *pool)
{
    *ring = (struct ring){.pool = pool};
    list_init(&ring->link);
}

void ring_fini(struct ring *ring)
{
    empty(ring);
}

void ring_reset(struct ring *ring, struct stream_id position)
{
    empty(ring);
    ring->base = position;
}

static struct stream_id last_id(const struct ring *ring)
{
    return ring->count == 0 ? ring->base : (*slot(ring, ring->count - 1))->id;
}

void ring_push(struct ring *ring, struct packet *p)
{
    const struct ring_limits *limits = &ring->pool->limits;
    assert(p->prev_known && stream_id_eq(p->prev, last_id(ring)));
    if (limits->max_entries == 0 || cost(p) > limits->max_bytes) {
        while (ring->count != 0)
            pop_front(ring);
        ring->base = p->id;
        return;
    }
    while (ring->count != 0 &&
           (ring->count >= limits->max_entries || ring->bytes > limits->max_bytes - cost(p)))
        pop_front(ring);
    if (ring->count == ring->capacity)
        grow(ring);
    *slot(ring, ring->count++) = packet_ref(p);
    note(ring, p, true);
    keep_total(ring);
}

/* False: it doesn't fit. */
static bool push_front(struct ring *ring, struct packet *p)
{
    const struct ring_limits *limits = &ring->pool->limits;
    if (!p->prev_known || ring->count >= limits->max_entries || cost(p) > limits->max_bytes ||
        ring->bytes > limits->max_bytes - cost(p))
        return false;
    if (ring->count == ring->capacity)
        grow(ring);
    ring->first--; /* wraps, as slot does */
    ring->count++;
    *slot(ring, 0) = packet_ref(p);
    ring->base = p->prev;
    note(ring, p, true);
    return true;
}

void ring_extend(struct ring *ring, struct packet **packets, size_t count)
{
    size_t n = count;
    while (n > 0 && stream_id_cmp(packets[n - 1]->id, ring->base) > 0)
        n--;
    if (n == 0 || !stream_id_eq(packets[n - 1]->id, ring->base))
        return;
    while (n > 0 && push_front(ring, packets[n - 1]))
        n--;
    if (ring->count != 0)
        keep_total(ring);
}

void ring_drop_to(struct ring *ring, struct stream_id id)
{
    while (ring->count != 0 && stream_id_cmp((*slot(ring, 0))->id, id) <= 0)
        pop_front(ring);
}

/* How many of the ring's entries are at or below id. */
static size_t count_to(const struct ring *ring, struct stream_id id)
{
    size_t from = 0;
    size_t to = ring->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (stream_id_cmp((*slot(ring, middle))->id, id) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

bool ring_holds(const struct ring *ring, struct stream_id id)
{
    if (ring->pool->limits.max_entries == 0)
        return false;
    size_t n = count_to(ring, id);
    return stream_id_eq(n == 0 ? ring->base : (*slot(ring, n - 1))->id, id);
}

size_t ring_after(const struct ring *ring, struct stream_id id)
{
    assert(ring_holds(ring, id));
    return count_to(ring, id);
}

struct packet *ring_at(const struct ring *ring, size_t place)
{
    return place < ring->count ? *slot(ring, place) : NULL;
}

void ring_touch(struct ring *ring)
{
    if (ring->count == 0)
        return;
    list_remove(&ring->link);
    list_push_back(&ring->pool->rings, &ring->link);
}

bool ring_miss(struct ring *ring)
{
    if (ring->pool->limits.max_entries == 0 || ring->warmed)
        return false;
    return ++ring->misses > MISSES;
}

void ring_warmed(struct ring *ring)
{
    ring->warmed = true;
}
