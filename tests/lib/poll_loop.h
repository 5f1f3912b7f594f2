/* poll_loop.h - base/loop.h on poll(2), for tests that talk to real processes.
 *
 * Real time, real descriptors, nothing of libuv: the floors below the edge can be tested with it.
 */
#ifndef TESTS_LIB_POLL_LOOP_H
#define TESTS_LIB_POLL_LOOP_H

#include "base/loop.h"

enum { POLL_LOOP_WATCHES = 64 };

typedef bool (*poll_loop_done_fn)(void *arg);

struct poll_loop {
    struct loop loop; /* first */
    uint64_t now_ms;  /* read once a turn */
    struct loop_watch *watches[POLL_LOOP_WATCHES];
    size_t count;
    size_t turns;
};

void poll_loop_init(struct poll_loop *l);
/* Nothing may be left: asserted. */
void poll_loop_fini(struct poll_loop *l);

/* Turns until done(arg), asked before and after whatever runs. False: not within limit_ms. */
bool poll_loop_run(struct poll_loop *l, uint64_t limit_ms, poll_loop_done_fn done, void *arg);

/* Turns until nobody waits for anything any more: no timer, no task, no descriptor. */
bool poll_loop_run_out(struct poll_loop *l, uint64_t limit_ms);

/* Turns for this long. */
void poll_loop_pass(struct poll_loop *l, uint64_t ms);

#endif
