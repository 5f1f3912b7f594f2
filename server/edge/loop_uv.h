/* loop_uv.h - base/loop.h on libuv: the loop that libwebsockets and hiredis share with us.
 *
 * One uv timer stands for the head of the timer heap, one idle handle for "there are tasks", and
 * one poll handle for each watch. Each of them is active only while there is something to wait for,
 * so uv_run comes back by itself once nobody wants anything any more: that is how a clean end is
 * recognised.
 *
 * Within a turn: timers, then tasks, then prepare handles (where edge/ws flushes), then the
 * kernel is asked. A task deferred while sockets were served therefore runs, and what it writes
 * goes out, before the loop sleeps.
 *
 * The clock is libuv's, read once a turn. Random numbers are the kernel's.
 */
#ifndef EDGE_LOOP_UV_H
#define EDGE_LOOP_UV_H

#include "base/loop.h"

#include <uv.h>

enum { LOOP_UV_RANDOM_POOL = 32 /* getrandom never gives less than asked for up to 256 bytes */ };

/* Embedded in main, so the layout is here; only loop and uv are for others. */
struct loop_uv {
    struct loop loop; /* first */
    uv_loop_t uv;
    uv_timer_t timer;
    uv_idle_t wake;
    bool running_due;
    size_t random_left;
    uint64_t random_pool[LOOP_UV_RANDOM_POOL];
};

void loop_uv_init(struct loop_uv *l);

/* Runs turns until nothing is active any more, at most for limit_ms. False: something was left
 * over, and its handles are on standard error. */
RD_MUST_USE bool loop_uv_run_out(struct loop_uv *l, uint64_t limit_ms);

/* Nothing may be active any more: asserted. */
void loop_uv_fini(struct loop_uv *l);

#endif
