/* bench_log_audit.h - was every publish of one room delivered exactly once and in order?
 *
 * Publishes of a room are numbered from 1. One audit follows one room and sees the numbers as they
 * come; it remembers which of the newest 64 came. No I/O.
 */
#ifndef BENCH_BENCH_LOG_AUDIT_H
#define BENCH_BENCH_LOG_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing came yet. The fields are bench_log_audit.c's. */
struct bench_log_audit {
    uint64_t last; /* the largest number that came */
    uint64_t came; /* how many different ones */
    uint64_t seen; /* bit i: last - i came */
};

/* Of all rooms together. */
struct bench_log_faults {
    uint64_t lost;     /* never came */
    uint64_t doubled;  /* came again */
    uint64_t disorder; /* came after a later one; or again, more than 64 behind */
    uint64_t alien;    /* entries that nobody here published, or numbers that were never given */
    uint64_t unlinked; /* entries whose prev isn't the entry before */
    uint64_t breaks;   /* feeds that lost their place */
};

/* Number n came. True: it is new. */
bool bench_log_audit_take(struct bench_log_audit *audit, uint64_t n,
                          struct bench_log_faults *faults);

/* At the end: published were given out. */
void bench_log_audit_settle(const struct bench_log_audit *audit, uint64_t published,
                            struct bench_log_faults *faults);

bool bench_log_audit_clean(const struct bench_log_faults *faults);

#endif
