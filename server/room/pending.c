#include "room/pending.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 8 };

static struct packet **slot(const struct pending *pending, size_t i)
{
    return &pending->packets[(pending->first + i) & (pending->capacity - 1)];
}

static void grow(struct pending *pending)
{
    size_t capacity = pending->capacity == 0 ? FIRST_CAPACITY : pending->capacity * 2;
    struct packet **packets = xalloc_array(NULL, capacity, sizeof(struct packet *));
    for (size_t i = 0; i < pending->count; i++)
        packets[i] = *slot(pending, i);
    free(pending->packets);
    pending->packets = packets;
    pending->capacity = capacity;
    pending->first = 0;
}

bool pending_push(struct pending *pending, struct pending_budget *budget, struct packet *p)
{
    if (packet_len(p) > budget->max - budget->bytes) {
        pending_clear(pending, budget);
        return false;
    }
    if (pending->count == pending->capacity)
        grow(pending);
    *slot(pending, pending->count++) = packet_ref(p);
    pending->bytes += packet_len(p);
    budget->bytes += packet_len(p);
    return true;
}

struct packet *pending_front(const struct pending *pending)
{
    return pending->count == 0 ? NULL : *slot(pending, 0);
}

void pending_pop(struct pending *pending, struct pending_budget *budget)
{
    assert(pending->count != 0);
    struct packet *p = *slot(pending, 0);
    pending->first++;
    pending->count--;
    pending->bytes -= packet_len(p);
    budget->bytes -= packet_len(p);
    packet_unref(p);
}

void pending_drop_to(struct pending *pending, struct pending_budget *budget, struct stream_id id)
{
    while (pending->count != 0 && stream_id_cmp(pending_front(pending)->id, id) <= 0)
        pending_pop(pending, budget);
}

void pending_clear(struct pending *pending, struct pending_budget *budget)
{
    while (pending->count != 0)
        pending_pop(pending, budget);
    free(pending->packets);
    *pending = (struct pending){0};
}
