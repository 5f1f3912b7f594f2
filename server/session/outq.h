/* outq.h - the packets one client has yet to be sent.
 *
 * A session owns one outq. Packets enter at the back and leave from the front when the socket can
 * take more.
 *
 * A client that reads slowly must not make the server grow, so the queue counts bytes and refuses
 * once they are above the high-water mark. The check comes before the append: a queue at the mark
 * still takes one packet, whatever its size, so a single large entry can't close a client that
 * keeps up.
 *
 * What a replay pushes is counted apart and never refused: the replay itself only reads on while
 * the queue is short (see session.h), so it may fill the queue but can't close the client.
 *
 * The queue only measures. What a refusal leads to is the session's business.
 *
 * Always true: bytes is the sum of the queued lengths (WebSocket headers included) and replay_bytes
 * the part of it that a replay pushed; bytes - replay_bytes <= high_water + the largest packet.
 */
#ifndef SESSION_OUTQ_H
#define SESSION_OUTQ_H

#include "base/packet.h"
#include "base/rd.h"

enum outq_verdict { OUTQ_OK, OUTQ_OVER };

/* A packet and whether a replay pushed it (its lowest bit). */
typedef uintptr_t outq_item;

/* Embedded in struct session, so the layout is here; the fields are outq.c's. */
struct outq {
    outq_item *ring; /* capacity is 0 or a power of two */
    size_t capacity;
    size_t head; /* ring[head] goes out next */
    size_t count;
    size_t bytes;
    size_t replay_bytes;
    size_t high_water;
};

/* Allocates nothing until the first push. */
void outq_init(struct outq *q, size_t high_water);

/* Lets go of every packet and of its memory. The queue may be used again. */
void outq_clear(struct outq *q);

/* Would an entry be refused now? */
bool outq_over(const struct outq *q, size_t beside);

/* Keeps its own reference to p, unless the verdict is OUTQ_OVER. beside: what counts against the
 * same mark and is held elsewhere (pending lists, the socket's own buffer). */
RD_MUST_USE enum outq_verdict outq_push(struct outq *q, struct packet *p, size_t beside);

/* Keeps its own reference. Never refused: see above. */
void outq_push_replay(struct outq *q, struct packet *p);

/* The next packet to send, or NULL. Borrowed: valid until outq_pop. */
struct packet *outq_front(const struct outq *q);

/* Takes the front packet out. Returns owned. The queue must not be empty. */
struct packet *outq_pop(struct outq *q);

/* The id of the oldest entry in the queue, 0-0 where there is none. */
struct stream_id outq_oldest_id(const struct outq *q);

#endif
