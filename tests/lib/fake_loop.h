/* fake_loop.h - a loop whose clock the test turns.
 *
 * Nothing happens but inside fake_loop_turn, fake_loop_advance and fake_loop_fire: so a test
 * decides what comes before what, and a minute of timers takes no time. The same seed draws the
 * same random numbers.
 *
 * It is as strict as a real platform may be: tasks run only where loop.c asked to be woken, and
 * timers only where it asked to be called.
 */
#ifndef TESTS_LIB_FAKE_LOOP_H
#define TESTS_LIB_FAKE_LOOP_H

#include "base/loop.h"
#include "tests/lib/rng.h"

enum {
    FAKE_LOOP_START_MS = 1000,     /* the monotonic clock's first reading */
    FAKE_LOOP_ROUNDS_MAX = 100000, /* a turn that needs more is taken for endless: asserted */
    FAKE_LOOP_WATCHES_MAX = 64     /* descriptors watched at once: asserted */
};

/* The wall clock's first reading. */
#define FAKE_LOOP_WALL_MS UINT64_C(1700000000000)

struct fake_loop {
    struct loop loop; /* first: what the code under test is given */
    struct rng rng;
    uint64_t now_ms;
    uint64_t wall_ms;
    uint64_t armed_ms; /* UINT64_MAX: not */
    bool woken;
    struct loop_watch *watches[FAKE_LOOP_WATCHES_MAX];
    size_t watch_count;
};

void fake_loop_init(struct fake_loop *fake, uint64_t seed);
/* Nothing may be armed, deferred or watched any more: asserted. */
void fake_loop_fini(struct fake_loop *fake);

/* Runs tasks and due timers, and those that they lead to, until nothing is due now. */
void fake_loop_turn(struct fake_loop *fake);
/* One round only: the tasks deferred now, then the timers due now. Returns whether there was
 * anything. */
bool fake_loop_step(struct fake_loop *fake);
/* Both clocks move on by ms, with a turn before, after, and wherever a timer becomes due on the
 * way. */
void fake_loop_advance(struct fake_loop *fake, uint64_t ms);
/* The wall clock jumps, as they do. The monotonic one doesn't. */
void fake_loop_set_wall(struct fake_loop *fake, uint64_t wall_ms);

/* The watch on fd, or NULL. */
struct loop_watch *fake_loop_watch(struct fake_loop *fake, int fd);
/* What the kernel would do: calls watch with those of events that it is interested in, if there are
 * any. Returns whether there were. */
bool fake_loop_fire(struct loop_watch *watch, unsigned events);

#endif
