/* loop.h - clock, timers, later, file descriptors and randomness, without saying whose loop it is.
 *
 * The core asks for time and turns only through this, so a test can play both. Timers and tasks
 * are embedded in whoever owns them and cost no allocation to start.
 *
 * Always true: a callback runs from the loop, never from inside the call that armed it. Timers
 * run in the order of their due times, equal ones in the order they were started. A stopped timer
 * or cancelled task doesn't run any more, even when both were due in the same turn.
 *
 * Everything here belongs to the loop's one thread.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/list.h"

#include <stdint.h>

typedef void (*loop_fn)(void *arg);
typedef void (*loop_fd_fn)(void *arg, unsigned events);

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

struct loop_timer {
    size_t place; /* in the heap, from 1; 0: not running */
    uint64_t due_ms;
    uint64_t order;
    loop_fn fn;
    void *arg;
};

struct loop_task {
    struct list link; /* zeroed: not deferred */
    loop_fn fn;
    void *arg;
};

/* Interest in one file descriptor. Its owner embeds it. */
struct loop_watch {
    int fd;
    unsigned events; /* 0: no interest */
    loop_fd_fn fn;
    void *arg;
    void *impl; /* the platform's; NULL: never started or stopped */
};

struct loop;

/* What a platform brings. The clock is read through now_ms, at the platform's pleasure cached for a
 * turn. */
struct loop_ops {
    uint64_t (*now_ms)(struct loop *loop);  /* monotonic */
    uint64_t (*wall_ms)(struct loop *loop); /* since 1970, UTC */
    uint64_t (*random)(struct loop *loop);
    /* Call loop_run_due at this time (UINT64_MAX: not at all) or earlier. */
    void (*arm)(struct loop *loop, uint64_t due_ms);
    /* Call loop_run_tasks in the next turn. */
    void (*wake)(struct loop *loop);
    /* watch->events changed; 0 lets go of it. */
    void (*watch)(struct loop *loop, struct loop_watch *watch);
};

struct loop {
    const struct loop_ops *ops;
    struct loop_timer **heap; /* from 1 */
    size_t timers;
    size_t capacity;
    uint64_t order;
    struct list tasks;
};

/* For the platform: it embeds struct loop. */
void loop_init(struct loop *loop, const struct loop_ops *ops);
/* No timer may be running any more and no task deferred: asserted. */
void loop_fini(struct loop *loop);
/* Runs what is due now. */
void loop_run_due(struct loop *loop);
/* Runs the tasks that are deferred now; those deferred meanwhile wait for the next turn. */
void loop_run_tasks(struct loop *loop);
/* Is there anything for the next turn? */
static inline bool loop_has_tasks(const struct loop *loop)
{
    return !list_empty(&loop->tasks);
}
/* When the next timer is due; UINT64_MAX: never. */
uint64_t loop_next_due(const struct loop *loop);

static inline uint64_t loop_now_ms(struct loop *loop)
{
    return loop->ops->now_ms(loop);
}

static inline uint64_t loop_wall_ms(struct loop *loop)
{
    return loop->ops->wall_ms(loop);
}

static inline uint64_t loop_random(struct loop *loop)
{
    return loop->ops->random(loop);
}

/* Evenly drawn from [0, bound); bound must not be 0. */
uint64_t loop_random_below(struct loop *loop, uint64_t bound);

/* Starts, or starts anew. timer must be zeroed before its first start. */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms, loop_fn fn,
                      void *arg);
void loop_timer_stop(struct loop *loop, struct loop_timer *timer);

static inline bool loop_timer_running(const struct loop_timer *timer)
{
    return timer->place != 0;
}

/* Runs fn(arg) in the next turn; deferring what is deferred already changes nothing. */
void loop_defer(struct loop *loop, struct loop_task *task, loop_fn fn, void *arg);
void loop_cancel(struct loop_task *task);

/* events: LOOP_READ | LOOP_WRITE. fn may stop the watch, and close fd after that. */
void loop_watch_start(struct loop *loop, struct loop_watch *watch, int fd, unsigned events,
                      loop_fd_fn fn, void *arg);
void loop_watch_stop(struct loop *loop, struct loop_watch *watch);

#endif
