/* redis_ask.h - the commands that read a room.
 *
 * What a room holds and what its log records about itself must belong to one moment, so they are
 * asked for inside MULTI. A Redis that is out of memory refuses that (it would have to queue),
 * though it still reads; then a script asks the same, in the same shape, at several times the
 * price.
 */
#ifndef ROOMLOG_REDIS_ASK_H
#define ROOMLOG_REDIS_ASK_H

#include "protocol/stream_id.h"
#include "roomlog/redis_conn.h"
#include "roomlog/redis_reply.h"

enum redis_ask_how {
    REDIS_ASK_PLAIN, /* the answer is XRANGE's: redis_reply_range */
    REDIS_ASK_MULTI, /* EXEC's: redis_reply_exec; where redis_reply_exec_refused, worth a SCRIPT */
    REDIS_ASK_SCRIPT /* the same */
};

/* What of a room. */
struct redis_ask_range {
    struct str key;
    enum redis_reply_order order;
    struct stream_id from; /* ASCENDING: from here on, itself included. DESCENDING: from the end */
    size_t count;
};

/* Ready to be sent: commands, of which there are count. Borrows the key, and points into itself:
 * not to be copied. */
struct redis_ask {
    struct redis_words commands[5];
    size_t count;
    struct str info[3];
    struct str range[6];
    struct str script[8];
    char id[STREAM_ID_TEXT_MAX];
    char number[24];
};

void redis_ask_range(struct redis_ask *ask, enum redis_ask_how how,
                     const struct redis_ask_range *what);

/* XINFO STREAM alone: redis_reply_info. */
void redis_ask_info(struct redis_ask *ask, struct str key);

/* The same of a node of a cluster that the room's slot is still on its way to. Once for each ask.
 */
void redis_ask_ahead(struct redis_ask *ask);

#endif
