/* inbound.h - a frame from the server, as the load tool understands it.
 *
 * Only what a run needs of each; the server's own codec isn't used, so that the tool doesn't share
 * its mistakes.
 */
#ifndef BENCH_INBOUND_H
#define BENCH_INBOUND_H

#include "bench/entry_scan.h"

enum inbound_op {
    INBOUND_OTHER, /* a frame that no run asks about */
    INBOUND_ENTRY,
    INBOUND_JOINED,
    INBOUND_RESYNC,
    INBOUND_LIVE,
    INBOUND_ACK,
    INBOUND_REFUSAL /* reject and error */
};

struct inbound {
    enum inbound_op op;
    struct str room;         /* absent where the frame names none */
    struct entry_scan entry; /* entry */
    struct stream_id id;     /* joined and resync: from; live: cursor; ack: id */
    bool id_null;            /* "from":null */
    bool complete;           /* joined */
    struct str reason;       /* refusal and resync: without quotes, escapes as they were */
};

/* Borrows from text. False: malformed, a breach of the protocol. */
bool inbound_read(struct str text, struct inbound *out_in);

#endif
