/* redis_wire.h - the bytes of one connected socket to Redis: commands into it, replies out of it.
 *
 * A redis_conn has one for each connection it makes. Nothing here blocks, and nothing calls back.
 * Commands are written into one buffer that goes out in as few writes as the socket takes; replies
 * are scanned (redis_scan) in the buffer that they were received into. In both directions a byte
 * is copied once and looked at once, however the pieces fall.
 *
 * Memory: both buffers grow with what is there, never with what is announced, and what went above
 * REDIS_WIRE_KEEP is given back as soon as it is empty. A reply above redis_scan's ceilings is
 * passed over, and becomes an error ("TOOBIG") in its place.
 */
#ifndef ROOMLOG_REDIS_WIRE_H
#define ROOMLOG_REDIS_WIRE_H

#include "roomlog/redis_reply.h"

enum {
    REDIS_WIRE_KEEP = 1 << 20, /* bytes of a buffer that stay allocated */
    REDIS_WIRE_REASON_MAX = 128
};

/* Bytes that wait, from `begin` up to `end`. */
struct redis_wire_buffer {
    char *p;
    size_t begin, end, capacity;
};

/* Embedded in redis_conn; the fields are redis_wire.c's. */
struct redis_wire {
    int fd; /* -1: none */
    struct redis_wire_buffer in, out;
    struct redis_scan scan;
    struct redis_reply reply; /* the last one given */
    size_t reply_len;         /* of it, at the head of `in`; 0: none */
    uint64_t passed_over;     /* replies that were too large */
    char reason[REDIS_WIRE_REASON_MAX];
};

enum redis_wire_end {
    REDIS_WIRE_DONE, /* all is written; or nothing more is there to be read, for now */
    REDIS_WIRE_MORE, /* the socket takes no more just now; or has perhaps more to give */
    REDIS_WIRE_LOST  /* the connection has ended: wire->reason says why */
};

/* Takes fd, connected and not blocking. */
void redis_wire_init(struct redis_wire *wire, int fd);
/* Closes it. Harmless where zeroed with an fd of -1, or done before. */
void redis_wire_fini(struct redis_wire *wire);

/* One command, to be written. */
void redis_wire_put(struct redis_wire *wire, const struct str *words, size_t count);
RD_MUST_USE enum redis_wire_end redis_wire_write(struct redis_wire *wire);

/* Reads once, up to *budget bytes, which is lessened by what came. */
RD_MUST_USE enum redis_wire_end redis_wire_read(struct redis_wire *wire, size_t *budget);

/* The next whole reply of what has been read, until the next call of this or of redis_wire_read.
 * DONE: *out_reply is NULL where none is whole. LOST: what came is no reply. */
RD_MUST_USE enum redis_wire_end redis_wire_next(struct redis_wire *wire,
                                                const struct redis_reply **out_reply);

/* Nothing is expected soon: gives back what holds nothing. */
void redis_wire_rest(struct redis_wire *wire);

#endif
