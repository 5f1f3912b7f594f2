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
 *
 * The same through TLS (redis_tls). There, reading may have to wait until the socket can be
 * written, and the other way round, so the wire says which events it waits for
 * (redis_wire_events), and what it must be asked again without any (redis_wire_holds).
 */
#ifndef ROOMLOG_REDIS_WIRE_H
#define ROOMLOG_REDIS_WIRE_H

#include "roomlog/redis_reply.h"
#include "roomlog/redis_tls.h"

enum {
    REDIS_WIRE_KEEP = 1 << 20, /* bytes of a buffer that stay allocated */
    REDIS_WIRE_REASON_MAX = REDIS_TLS_REASON_MAX
};

/* Bytes that wait, from `begin` up to `end`. */
struct redis_wire_buffer {
    char *p;
    size_t begin, end, capacity;
};

/* Embedded in redis_conn; the fields are redis_wire.c's. */
struct redis_wire {
    int fd;                     /* -1: none */
    struct redis_tls_link *tls; /* NULL: none */
    unsigned read_waits;        /* for LOOP_READ or LOOP_WRITE */
    unsigned write_waits;       /* 0: there is nothing to write, or it hasn't been tried */
    struct redis_wire_buffer in, out;
    struct redis_scan scan;
    struct redis_reply reply; /* the last one given */
    size_t reply_len;         /* of it, at the head of `in`; 0: none */
    uint64_t passed_over;     /* replies that were too large */
    char reason[REDIS_WIRE_REASON_MAX];
};

enum redis_wire_end {
    REDIS_WIRE_DONE, /* all is written; or nothing more is there to be read, for now */
    REDIS_WIRE_MORE, /* not all could be written; or there is perhaps more to be read */
    REDIS_WIRE_LOST  /* the connection has ended: wire->reason says why */
};

/* Takes fd, connected and not blocking. */
void redis_wire_init(struct redis_wire *wire, int fd);
/* From here on everything goes through TLS. host: what fd is connected to. */
void redis_wire_secure(struct redis_wire *wire, struct redis_tls *tls, const char *host);
/* Before anything else where it is secured, and again at each event until it isn't MORE. */
RD_MUST_USE enum redis_wire_end redis_wire_handshake(struct redis_wire *wire);
/* Closes it. Harmless where zeroed with an fd of -1, or done before. */
void redis_wire_fini(struct redis_wire *wire);

/* One command, to be written. */
void redis_wire_put(struct redis_wire *wire, const struct str *words, size_t count);
RD_MUST_USE enum redis_wire_end redis_wire_write(struct redis_wire *wire);

/* Reads once, up to *budget bytes, which must not be 0 and is lessened by what came. */
RD_MUST_USE enum redis_wire_end redis_wire_read(struct redis_wire *wire, size_t *budget);

/* What to wait for: LOOP_READ, LOOP_WRITE or both. */
unsigned redis_wire_events(const struct redis_wire *wire);
/* Is it worth reading, or writing on, now that these events have come? */
bool redis_wire_may_read(const struct redis_wire *wire, unsigned events);
bool redis_wire_may_write(const struct redis_wire *wire, unsigned events);
/* Does what is to be written wait for an event? */
bool redis_wire_full(const struct redis_wire *wire);
/* Has it more to be read than the socket tells of? */
bool redis_wire_holds(const struct redis_wire *wire);

/* The next whole reply of what has been read, until the next call of this or of redis_wire_read.
 * DONE: *out_reply is NULL where none is whole. LOST: what came is no reply. */
RD_MUST_USE enum redis_wire_end redis_wire_next(struct redis_wire *wire,
                                                const struct redis_reply **out_reply);

/* Nothing is expected soon: gives back what holds nothing. */
void redis_wire_rest(struct redis_wire *wire);

#endif
