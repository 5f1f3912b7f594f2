/* limiter.h - a token bucket: how often may this be asked?
 *
 * Holds up to burst tokens, full at first, and gains rate a second. Embedded by value; the fields
 * are limiter.c's.
 */
#ifndef SESSION_LIMITER_H
#define SESSION_LIMITER_H

#include "base/rd.h"

#include <stdbool.h>
#include <stdint.h>

struct limiter {
    uint64_t rate;   /* tokens a second; 0: no limit */
    uint64_t burst;  /* tokens */
    uint64_t filled; /* thousandths of tokens, at at_ms */
    uint64_t at_ms;
};

/* burst is at least 1. */
void limiter_init(struct limiter *limiter, uint64_t rate, uint64_t burst, uint64_t now_ms);

/* Takes a token. False: there is none. Time doesn't go back. */
RD_MUST_USE bool limiter_take(struct limiter *limiter, uint64_t now_ms);

#endif
