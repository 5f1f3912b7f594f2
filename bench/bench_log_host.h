/* bench_log_host.h - a loop with roomd's log on it, and waiting for what happens.
 *
 * Within a wait, the loop runs as in roomd (in libuv's default mode: its other modes ask the kernel
 * once more in a turn that had tasks).
 */
#ifndef BENCH_BENCH_LOG_HOST_H
#define BENCH_BENCH_LOG_HOST_H

#include "base/metrics.h"
#include "bench/bench_log_options.h"
#include "edge/loop_uv.h"
#include "roomlog/roomlog_redis.h"

/* Is what is waited for there? Asked in each turn of the loop: keep it cheap. */
typedef bool (*bench_log_host_fn)(void *arg);

struct bench_log_host {
    struct loop_uv loop;
    struct metrics metrics;
    struct roomlog *log;
    struct loop_timer tick; /* so that a wait ends where nothing happens */
    uv_prepare_t turn;      /* asks whether it is over */
    bench_log_host_fn done;
    void *done_arg;
    uint64_t until_ns;
    bool is_done;
};

/* The log's settings are roomd's defaults. */
void bench_log_host_open(struct bench_log_host *host, const struct bench_log_options *options);
/* Nobody may follow any more, and nothing be under way. */
void bench_log_host_close(struct bench_log_host *host);

/* Turns the loop. False: it isn't done after these seconds. */
bool bench_log_host_wait(struct bench_log_host *host, bench_log_host_fn done, void *arg,
                         double seconds);
bool bench_log_host_wait_ready(struct bench_log_host *host, double seconds);

/* Turns the loop until this time of clock.h, to within some microseconds. */
void bench_log_host_turn_until(struct bench_log_host *host, uint64_t ns);

#endif
