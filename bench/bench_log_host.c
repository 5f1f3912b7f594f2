#include "bench/bench_log_host.h"

#include "bench/bench_log_pub.h"
#include "bench/clock.h"
#include "bench/die.h"

#include <poll.h>
#include <string.h>

enum {
    TICK_MS = 10,
    POLL_MS = 100,
    TIMEOUT_MS = 5000,
    DEDUPE_MS = 5 * 60 * 1000,
    APPENDS_MAX = 65536,
    RUN_OUT_MS = 5000
};

void bench_log_host_open(struct bench_log_host *host, const struct bench_log_options *options)
{
    memset(host, 0, sizeof(*host));
    loop_uv_init(&host->loop);
    (void)uv_prepare_init(&host->loop.uv, &host->turn); /* can't fail */
    host->turn.data = host;
    const struct roomlog_redis_config config = {
        .url = options->url,
        .prefix = BENCH_LOG_PUB_PREFIX,
        .live = options->live,
        .poll_ms = POLL_MS,
        .max_entries = options->maxlen,
        .dedupe_ms = DEDUPE_MS,
        .connect_ms = TIMEOUT_MS,
        .command_ms = TIMEOUT_MS,
        .max_appends = APPENDS_MAX,
        .max_reads = options->pages,
    };
    host->log = roomlog_redis_create(&host->loop.loop, &host->metrics, &config);
    if (host->log == NULL)
        die(DIE_USAGE, "--redis: not a URL");
}

void bench_log_host_close(struct bench_log_host *host)
{
    roomlog_close(host->log);
    uv_close((uv_handle_t *)&host->turn, NULL);
    if (!loop_uv_run_out(&host->loop, RUN_OUT_MS))
        die(DIE_RUN, "the log would not close");
    loop_uv_fini(&host->loop);
}

static void on_tick(void *arg)
{
    struct bench_log_host *host = arg;
    loop_timer_start(&host->loop.loop, &host->tick, TICK_MS, on_tick, host);
}

static void on_turn(uv_prepare_t *turn)
{
    struct bench_log_host *host = turn->data;
    host->is_done = host->done(host->done_arg);
    if (host->is_done || clock_now_ns() >= host->until_ns)
        uv_stop(&host->loop.uv);
}

bool bench_log_host_wait(struct bench_log_host *host, bench_log_host_fn done, void *arg,
                         double seconds)
{
    host->done = done;
    host->done_arg = arg;
    host->until_ns = clock_now_ns() + (uint64_t)(seconds * (double)CLOCK_SECOND);
    loop_timer_start(&host->loop.loop, &host->tick, TICK_MS, on_tick, host);
    (void)uv_prepare_start(&host->turn, on_turn);
    (void)uv_run(&host->loop.uv, UV_RUN_DEFAULT);
    (void)uv_prepare_stop(&host->turn);
    loop_timer_stop(&host->loop.loop, &host->tick);
    return host->is_done;
}

static bool is_ready(void *arg)
{
    struct bench_log_host *host = arg;
    return roomlog_ready(host->log);
}

bool bench_log_host_wait_ready(struct bench_log_host *host, double seconds)
{
    return bench_log_host_wait(host, is_ready, host, seconds);
}

void bench_log_host_turn_until(struct bench_log_host *host, uint64_t ns)
{
    for (;;) {
        (void)uv_run(&host->loop.uv, UV_RUN_NOWAIT);
        uint64_t now = clock_now_ns();
        if (now >= ns)
            return;
        uint64_t left = ns - now;
        int timeout_ms = uv_backend_timeout(&host->loop.uv);
        if (timeout_ms >= 0 && (uint64_t)timeout_ms * CLOCK_MS < left)
            left = (uint64_t)timeout_ms * CLOCK_MS;
        struct pollfd fd = {.fd = uv_backend_fd(&host->loop.uv), .events = POLLIN};
        const struct timespec limit = {.tv_sec = (time_t)(left / CLOCK_SECOND),
                                       .tv_nsec = (long)(left % CLOCK_SECOND)};
        (void)ppoll(&fd, 1, &limit, NULL);
    }
}
