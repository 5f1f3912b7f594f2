/* bench_log_pub_impl.h - what the publisher's two ways of publishing share. */
#ifndef BENCH_BENCH_LOG_PUB_IMPL_H
#define BENCH_BENCH_LOG_PUB_IMPL_H

#include "bench/bench_log_pub.h"
#include "bench/clock.h"

#define BENCH_LOG_PUB_TICK_NS CLOCK_MS

/* A plan by the clock, as far as it was carried out. */
struct bench_log_pub_schedule {
    const struct bench_log_pub *pub;
    struct bench_log_pub_plan plan;
    uint64_t ticks; /* batches that were sent */
    uint64_t random;
};

/* Chooses a room and counts the publish. */
unsigned bench_log_pub_next_room(struct bench_log_pub_schedule *schedule);

/* How many publishes the next batch has, when it is due; false: the plan is at its end. */
bool bench_log_pub_next_batch(struct bench_log_pub_schedule *schedule, uint64_t *out_due_ns,
                              unsigned *out_count);

_Noreturn void bench_log_pub_fail(struct bench_log_pub *pub, const char *reason);

/* Carries out a plan through a roomlog. */
struct bench_log_pub_script;
struct bench_log_pub_script *bench_log_pub_script_open(struct bench_log_pub *pub);
void bench_log_pub_script_run(struct bench_log_pub_script *script,
                              struct bench_log_pub_schedule *schedule);

#endif
