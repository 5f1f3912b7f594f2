#include "session/outq.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FIRST_CAPACITY = 8,
    KEEP_CAPACITY = 64, /* a larger ring is given back when the queue runs empty */
    REPLAY_BIT = 1
};

static size_t slot(const struct outq *q, size_t i)
{
    return (q->head + i) & (q->capacity - 1);
}

static struct packet *packet_of(outq_item item)
{
    return (struct packet *)(item & ~(outq_item)REPLAY_BIT); /* malloc aligns to more than 1 */
}

static void grow(struct outq *q)
{
    size_t capacity = q->capacity == 0 ? FIRST_CAPACITY : q->capacity * 2;
    outq_item *ring = xalloc_array(NULL, capacity, sizeof(*ring));
    for (size_t i = 0; i < q->count; i++)
        ring[i] = q->ring[slot(q, i)];
    free(q->ring);
    q->ring = ring;
    q->capacity = capacity;
    q->head = 0;
}

static void append(struct outq *q, struct packet *p, unsigned bit)
{
    if (q->count == q->capacity)
        grow(q);
    q->ring[slot(q, q->count)] = (outq_item)packet_ref(p) | bit;
    q->count++;
    q->bytes += packet_len(p);
}

void outq_init(struct outq *q, size_t high_water)
{
    *q = (struct outq){.high_water = high_water};
}

void outq_clear(struct outq *q)
{
    while (q->count != 0)
        packet_unref(outq_pop(q));
    free(q->ring);
    outq_init(q, q->high_water);
}

bool outq_over(const struct outq *q, size_t beside)
{
    /* Before the append, and "above": the mark itself is still fine. See outq.h. */
    return q->bytes - q->replay_bytes + beside > q->high_water;
}

enum outq_verdict outq_push(struct outq *q, struct packet *p, size_t beside)
{
    if (outq_over(q, beside))
        return OUTQ_OVER;
    append(q, p, 0);
    return OUTQ_OK;
}

void outq_push_replay(struct outq *q, struct packet *p)
{
    append(q, p, REPLAY_BIT);
    q->replay_bytes += packet_len(p);
}

struct packet *outq_front(const struct outq *q)
{
    return q->count == 0 ? NULL : packet_of(q->ring[q->head]);
}

struct packet *outq_pop(struct outq *q)
{
    assert(q->count != 0);
    outq_item item = q->ring[q->head];
    struct packet *p = packet_of(item);
    q->head = slot(q, 1);
    q->count--;
    q->bytes -= packet_len(p);
    if (item & REPLAY_BIT)
        q->replay_bytes -= packet_len(p);
    if (q->count == 0 && q->capacity > KEEP_CAPACITY) {
        free(q->ring);
        outq_init(q, q->high_water);
    }
    return p;
}

struct stream_id outq_oldest_id(const struct outq *q)
{
    for (size_t i = 0; i < q->count; i++) {
        const struct packet *p = packet_of(q->ring[slot(q, i)]);
        if (!stream_id_is_zero(p->id))
            return p->id;
    }
    return STREAM_ID_ZERO;
}
