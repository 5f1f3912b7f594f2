/* redis_finder.h - tells a connection where to go, anew for each attempt.
 *
 * Most places never change: a redis_finder_fixed knows one. Where Sentinel decides who is the
 * master, it has to be asked each time (redis_sentinel.h).
 *
 * Always true: of a find either the place is returned, or its done runs once, later, or it was
 * cancelled.
 */
#ifndef ROOMLOG_REDIS_FINDER_H
#define ROOMLOG_REDIS_FINDER_H

#include "base/list.h"
#include "roomlog/redis_place.h"

struct redis_find;

/* place is borrowed; NULL: nobody knows one, and reason (borrowed) says why. */
typedef void (*redis_find_fn)(struct redis_find *find, const struct redis_place *place,
                              const char *reason);

/* One question, embedded in whoever asks, who fills in done. */
struct redis_find {
    redis_find_fn done;
    struct list link; /* the finder's while it is being answered */
};

struct redis_finder {
    /* Returns the place, borrowed for the turn; NULL: done will run. */
    const struct redis_place *(*find)(struct redis_finder *finder, struct redis_find *find);
    void (*cancel)(struct redis_finder *finder, struct redis_find *find);
    /* Only a master will do: whoever connects must ask (ROLE), and call `wrong` where it is none.
     * NULL: it needn't be asked. */
    void (*wrong)(struct redis_finder *finder);
};

/* Knows one place for ever. */
struct redis_finder_fixed {
    struct redis_finder finder;
    struct redis_place place;
};

void redis_finder_fixed_init(struct redis_finder_fixed *fixed, const struct redis_place *place);

#endif
