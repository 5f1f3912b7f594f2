/* redis_finder.h - tells a connection where to go, anew for each attempt.
 *
 * Most places never change: a redis_finder_fixed knows one. Where any of several will do, a
 * redis_finder_turn names one after the other. Where Sentinel decides who is the master, it has to
 * be asked each time (redis_sentinel.h).
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

/* One who asks, who embeds it, zeroed, and fills in the callbacks. */
struct redis_find {
    redis_find_fn done;
    /* The place that was found last isn't right any more. Any number of times until cancelled. */
    void (*leave)(struct redis_find *find, const char *reason);
    struct list link;         /* the finder's, from find to cancel */
    struct redis_place place; /* the finder's: what it found last */
};

struct redis_finder {
    /* Returns the place, borrowed for the turn; NULL: done will run. */
    const struct redis_place *(*find)(struct redis_finder *finder, struct redis_find *find);
    /* Neither done nor leave will run any more. Harmless where find wasn't called. */
    void (*cancel)(struct redis_finder *finder, struct redis_find *find);
    /* Only a master will do: whoever connects must ask for its ROLE, and say so where that is
     * another, then or later. NULL: it needn't be asked. */
    void (*no_master)(struct redis_finder *finder, const struct redis_place *place);
    /* Nobody answered there. NULL: it needn't know. */
    void (*no_answer)(struct redis_finder *finder, const struct redis_place *place);
};

/* Knows one place for ever. */
struct redis_finder_fixed {
    struct redis_finder finder;
    struct redis_place place;
};

void redis_finder_fixed_init(struct redis_finder_fixed *fixed, const struct redis_place *place);

/* Any of these places, until the owner says `next`. */
struct redis_finder_turn {
    struct redis_finder finder;
    const struct redis_place *places; /* the owner's, as is count, which isn't 0 */
    size_t count;
    size_t at;
};

void redis_finder_turn_init(struct redis_finder_turn *turn, const struct redis_place *places,
                            size_t count);
/* The place that was found last goes to the back. */
void redis_finder_turn_next(struct redis_finder_turn *turn);

#endif
