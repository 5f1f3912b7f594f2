/* pending.h - live entries held for a member while it replays.
 *
 * All members of one session share a budget. Past it the list of the member that would pass it is
 * emptied, and the client is not closed: the log has those entries, and another page will bring
 * them. The next live entry begins a new list.
 *
 * Always true: the packets are in id order, each chained to the one before it; bytes in the budget
 * are the sum of the lists that share it, and at most max.
 */
#ifndef ROOM_PENDING_H
#define ROOM_PENDING_H

#include "base/packet.h"

struct pending_budget {
    size_t bytes;
    size_t max;
};

/* Embedded in struct room_member; the fields are pending.c's. Zeroed is empty. */
struct pending {
    struct packet **packets; /* capacity is 0 or a power of two */
    size_t capacity;
    size_t first;
    size_t count;
    size_t bytes;
};

/* Keeps its own reference. False: that would pass the budget, and the list is empty now. */
bool pending_push(struct pending *pending, struct pending_budget *budget, struct packet *p);

/* Lets go of every packet whose id is at or below id. */
void pending_drop_to(struct pending *pending, struct pending_budget *budget, struct stream_id id);

/* The oldest, or NULL. Borrowed until pending_pop. */
struct packet *pending_front(const struct pending *pending);
void pending_pop(struct pending *pending, struct pending_budget *budget);

/* Empties the list and gives its memory back; it may be used again. */
void pending_clear(struct pending *pending, struct pending_budget *budget);

#endif
