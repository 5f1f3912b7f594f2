/* clock.h - the one clock of a run: monotonic nanoseconds.
 *
 * Publish times travel inside the entries' data and are compared on arrival, which is sound only
 * because both ends of the measurement are this process.
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND UINT64_C(1000000000)
#define CLOCK_MS UINT64_C(1000000)

static inline uint64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * CLOCK_SECOND + (uint64_t)ts.tv_nsec;
}

#endif
