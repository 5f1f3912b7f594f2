/* redis_slot.h - the slot of a Redis Cluster that a key lies in. No I/O.
 *
 * What belongs together has the same slot: where a key has braces with something between them, only
 * that counts. So {room:lobby}:ref:... lies where room:lobby lies.
 */
#ifndef ROOMLOG_REDIS_SLOT_H
#define ROOMLOG_REDIS_SLOT_H

#include "protocol/str.h"

enum { REDIS_SLOTS = 16384 };

/* Below REDIS_SLOTS. */
unsigned redis_slot_of(struct str key);

#endif
