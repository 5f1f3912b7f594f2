/* bench_log.h - the commands of roomd-bench-log, and what a run of any of them is made of.
 *
 * Each command fills the rooms, measures options->rounds times, and puts what it measured into the
 * sheet and what was wrong into the faults; bench_log.c reports both.
 */
#ifndef BENCH_BENCH_LOG_H
#define BENCH_BENCH_LOG_H

#include "bench/bench_log_audit.h"
#include "bench/bench_log_options.h"
#include "bench/bench_log_pub.h"
#include "bench/bench_log_sheet.h"
#include "bench/redis_link.h"

struct bench_log {
    struct bench_log_options options;
    uint32_t run;
    struct bench_log_pub pub;
    struct redis_link *link; /* for what isn't measured */
    pid_t redis_pid;         /* 0: its CPU can't be read */
    struct bench_log_sheet sheet;
    struct bench_log_faults faults;
};

/* CPU used so far, in nanoseconds. */
struct bench_log_cpu {
    uint64_t own, redis;
};
struct bench_log_cpu bench_log_cpu_now(const struct bench_log *bench);
struct bench_log_cpu bench_log_cpu_since(const struct bench_log *bench,
                                         const struct bench_log_cpu *from);

/* The names of a page's time. */
extern const struct bench_log_sheet_points bench_log_page_points;

void bench_log_feed(struct bench_log *bench);
void bench_log_reconnect(struct bench_log *bench);
void bench_log_replay(struct bench_log *bench);
void bench_log_append(struct bench_log *bench);

#endif
