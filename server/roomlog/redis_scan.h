/* redis_scan.h - where the parts of a reply lie, in the bytes as they came (RESP2).
 *
 * A reply is scanned once, while it arrives, into one flat array of nodes in the order of its
 * bytes: an array's node is followed by its children's, each with all that is in it. Texts aren't
 * copied; a node says where they are. hiredis' tree of separately allocated objects takes twenty
 * times as long for a page of a room, which is most of what such a page costs us.
 *
 * A scan goes on where it stopped: a long reply that comes in small pieces costs no more than one
 * that comes whole. The bytes may have moved meanwhile, for nodes hold offsets.
 *
 * What the peer announces allocates nothing: nodes grow with what has arrived. A reply above the
 * ceilings is passed over: from there on no nodes are made, and its bytes can be dropped as they
 * come (redis_scan_drop), so that one huge reply neither grows us nor costs the connection.
 *
 * Always true, after REDIS_SCAN_WHOLE: nodes[0] is the reply; for each node, next is above its own
 * place and at most count; texts lie inside the first `at` bytes.
 */
#ifndef ROOMLOG_REDIS_SCAN_H
#define ROOMLOG_REDIS_SCAN_H

#include "protocol/str.h"

#include <stdint.h>

enum {
    REDIS_SCAN_DEPTH_MAX = 16,        /* arrays inside each other */
    REDIS_SCAN_LINE_MAX = 64 * 1024,  /* bytes of a status or an error */
    REDIS_SCAN_BYTES_MAX = 256 << 20, /* of one reply */
    REDIS_SCAN_NODES_MAX = 8 << 20    /* of one reply */
};

enum redis_scan_type {
    REDIS_SCAN_TEXT, /* a bulk string */
    REDIS_SCAN_STATUS,
    REDIS_SCAN_ERROR,
    REDIS_SCAN_INTEGER,
    REDIS_SCAN_ARRAY,
    REDIS_SCAN_NIL /* of either kind */
};

struct redis_scan_node {
    uint32_t type; /* enum redis_scan_type */
    uint32_t next; /* the node behind this one and all that is in it */
    union {
        long long integer;
        uint32_t count; /* ARRAY: of its direct children; the first is the next node */
        struct {
            uint32_t at, len; /* TEXT, STATUS, ERROR: counted from the reply's first byte */
        } text;
    };
};

/* Embedded in whoever reads; the fields are redis_scan.c's. */
struct redis_scan {
    struct redis_scan_node *nodes;
    size_t count, capacity;
    size_t at;       /* the reply is scanned up to here */
    size_t searched; /* no line ends before here */
    size_t bulk;     /* bytes to come of the text under way, its line's end counted; 0: none */
    bool over;       /* it is passed over */
    unsigned depth;
    struct {
        uint32_t node; /* the array's */
        uint32_t left; /* children that haven't ended */
    } stack[REDIS_SCAN_DEPTH_MAX];
    const char *reason; /* of BROKEN */
};

enum redis_scan_verdict {
    REDIS_SCAN_MORE,  /* the reply hasn't ended yet */
    REDIS_SCAN_WHOLE, /* it has, scan->at bytes behind its first */
    REDIS_SCAN_OVER,  /* the same, but it was too large: there are no nodes */
    REDIS_SCAN_BROKEN /* this isn't RESP2: reason (static) says why. Nothing more can be scanned */
};

/* Allocates nothing until the first reply. */
void redis_scan_init(struct redis_scan *scan);
void redis_scan_fini(struct redis_scan *scan);

/* text: all that has come since the reply's first byte, apart from what was dropped. */
enum redis_scan_verdict redis_scan_run(struct redis_scan *scan, struct str text);

/* So many bytes at the head of text aren't needed any more; from now on text begins behind them. 0
 * unless the reply is being passed over. */
size_t redis_scan_drop(struct redis_scan *scan);

/* The reply is done with: text begins with the next one. */
void redis_scan_next(struct redis_scan *scan);

/* Gives memory above keep nodes back. Only between two replies. */
void redis_scan_trim(struct redis_scan *scan, size_t keep);

#endif
