/* hist.h - a histogram of durations, for percentiles that stay honest at the far end.
 *
 * Log-linear, as in HdrHistogram: each power of two is cut into 128 equal parts, so a reported
 * value is never below the true one and less than 1/128 (0.8 %) above it; below 256 it is exact.
 * The maximum is exact always. Values of 2^42 ns (73 minutes) and more are counted in the last
 * bucket. Adding costs a few instructions, and the memory is fixed (36 KiB).
 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum {
    HIST_SUB_BITS = 7,    /* 2^7 parts for each power of two */
    HIST_VALUE_BITS = 42, /* what is above counts as 2^42 - 1 */
    HIST_BUCKETS = (HIST_VALUE_BITS - HIST_SUB_BITS + 1) << HIST_SUB_BITS
};

/* Embedded by whoever measures; all zero is an empty histogram. The fields are hist.c's. */
struct hist {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[HIST_BUCKETS];
};

void hist_add(struct hist *hist, uint64_t value);

/* The smallest value that is at or above the given share of all values, in parts per 100,000: 50000
 * is the median, 99900 is p99.9, 100000 the maximum. 0 where nothing was added. */
uint64_t hist_quantile(const struct hist *hist, unsigned per_100k);

#endif
