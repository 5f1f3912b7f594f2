/* redis_redirect.h - a node of a cluster says that another one is to be asked. No I/O.
 *
 *   MOVED     that node, from now on: the slot is its own
 *   ASK       that node, for this request alone, behind ASKING: the slot is on its way there, and
 *             the key has gone ahead
 *   TRYAGAIN  the same node, a little later: of several keys some have gone ahead
 */
#ifndef ROOMLOG_REDIS_REDIRECT_H
#define ROOMLOG_REDIS_REDIRECT_H

#include "roomlog/redis_place.h"

#include <stddef.h>

enum {
    /* A request that was sent on so often isn't any more: the nodes don't agree. */
    REDIS_REDIRECTS_MAX = 16
};

enum redis_redirect_kind { REDIS_REDIRECT_MOVED, REDIS_REDIRECT_ASK, REDIS_REDIRECT_TRYAGAIN };

struct redis_reply;

struct redis_redirect {
    enum redis_redirect_kind kind;
    unsigned slot;            /* MOVED, ASK */
    struct redis_place place; /* MOVED, ASK; host "": that of the node that said so */
};

/* Is the reply one of these? */
bool redis_redirect_of(const struct redis_reply *reply, struct redis_redirect *out);

/* The same of an error's text, which begins with the word. */
bool redis_redirect_parse(const char *text, struct redis_redirect *out);

#endif
