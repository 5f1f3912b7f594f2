#include "bench/bench_log.h"
#include "bench/bench_log_reader.h"
#include "bench/bench_log_walk.h"
#include "bench/clock.h"
#include "bench/die.h"

#include <stdlib.h>
#include <time.h>

static const double PAGE_SECONDS = 10; /* for the last page to come */

static const uint64_t AHEAD_NS = 20 * CLOCK_MS; /* from the plan to its first batch */

/* What was counted at one moment. */
struct counts {
    struct bench_log_cpu cpu;
    uint64_t published, reads, bells, hints, replayed;
};

/* One window: counted at its beginning and its end. */
struct window {
    struct bench_log *bench;
    struct bench_log_reader *reader; /* NULL: nobody reads */
    struct bench_log_walk *walk;     /* NULL: nothing is replayed */
    uint64_t from_ns, to_ns;
    bool begun, over;
    struct counts from, to;
};

static struct counts count(const struct window *window)
{
    const struct bench_log_reader *reader = window->reader;
    struct counts counts = {.cpu = bench_log_cpu_now(window->bench),
                            .published = atomic_load(&window->bench->pub.shared->sent)};
    if (reader != NULL) {
        counts.reads = reader->host.metrics.v[M_FEED_READS];
        counts.bells = reader->host.metrics.v[M_FEED_BELLS];
        counts.hints = reader->host.metrics.v[M_FEED_HINTS];
    }
    if (window->walk != NULL)
        counts.replayed = window->walk->entries;
    return counts;
}

static bool is_over(void *arg)
{
    struct window *window = arg;
    uint64_t now = clock_now_ns();
    if (!window->begun && now >= window->from_ns) {
        window->from = count(window);
        window->begun = true;
    }
    if (!window->over && now >= window->to_ns) {
        window->to = count(window);
        window->over = true;
    }
    return window->over && bench_log_pub_done(&window->bench->pub);
}

static void wait_alone(struct window *window)
{
    const struct timespec pause = {.tv_nsec = (long)CLOCK_MS};
    while (!is_over(window))
        nanosleep(&pause, NULL);
}

/* Publishes for the warm-up and the window, and counts. */
static void run_window(struct window *window)
{
    struct bench_log *bench = window->bench;
    const struct bench_log_options *o = &bench->options;
    uint64_t start = clock_now_ns() + AHEAD_NS;
    window->from_ns = start + (uint64_t)(o->warm * (double)CLOCK_SECOND);
    window->to_ns = window->from_ns + (uint64_t)(o->seconds * (double)CLOCK_SECOND);
    bench_log_pub_begin(&bench->pub, &(struct bench_log_pub_plan){.start_ns = start,
                                                                  .seconds = o->warm + o->seconds});
    if (window->reader == NULL) {
        wait_alone(window);
        return;
    }
    window->reader->from_ns = window->from_ns;
    window->reader->to_ns = window->to_ns;
    double limit = 2 * (o->warm + o->seconds) + 10;
    if (!bench_log_host_wait(&window->reader->host, is_over, window, limit))
        die(DIE_RUN, "the publisher is too slow for --rate");
}

static double each_us(uint64_t ns, const struct window *window)
{
    uint64_t published = window->to.published - window->from.published;
    return published == 0 ? 0 : (double)ns / 1000.0 / (double)published;
}

static double per_publish(uint64_t n, const struct window *window)
{
    return each_us(n * 1000, window);
}

static void measure_base(struct bench_log *bench)
{
    struct window window = {.bench = bench};
    run_window(&window);
    if (bench->redis_pid != 0)
        bench_log_sheet_add(&bench->sheet, "base_redis_us_per_publish",
                            each_us(window.to.cpu.redis - window.from.cpu.redis, &window), 2);
}

static void report_window(const struct window *window)
{
    struct bench_log_sheet *sheet = &window->bench->sheet;
    const struct counts *from = &window->from;
    const struct counts *to = &window->to;
    double seconds = (double)(window->to_ns - window->from_ns) / (double)CLOCK_SECOND;
    bench_log_sheet_add_hist(sheet,
                             &(struct bench_log_sheet_points){"live_p50_us", "live_p99_us",
                                                              "live_p99_9_us", "live_max_us"},
                             &window->reader->due);
    bench_log_sheet_add_hist(
        sheet,
        &(struct bench_log_sheet_points){"live_from_sent_p50_us", "live_from_sent_p99_us",
                                         "live_from_sent_p99_9_us", "live_from_sent_max_us"},
        &window->reader->sent);
    if (window->bench->redis_pid != 0)
        bench_log_sheet_add(sheet, "redis_us_per_publish",
                            each_us(to->cpu.redis - from->cpu.redis, window), 2);
    bench_log_sheet_add(sheet, "reader_us_per_publish",
                        each_us(to->cpu.own - from->cpu.own, window), 2);
    bench_log_sheet_add(sheet, "reads_per_publish", per_publish(to->reads - from->reads, window),
                        3);
    bench_log_sheet_add(sheet, "bells_per_publish", per_publish(to->bells - from->bells, window),
                        3);
    bench_log_sheet_add(sheet, "hints_per_publish", per_publish(to->hints - from->hints, window),
                        3);
    bench_log_sheet_add(sheet, "published_per_second",
                        (double)(to->published - from->published) / seconds, 0);
    if (window->walk != NULL) {
        bench_log_sheet_add(sheet, "replayed_per_second",
                            (double)(to->replayed - from->replayed) / seconds, 0);
        bench_log_sheet_add_hist(sheet, &bench_log_page_points, &window->walk->page);
    }
    bench_log_sheet_add(sheet, "publisher_late_p50_us",
                        (double)hist_quantile(&window->bench->pub.shared->late, 50000) / 1000.0, 0);
    bench_log_sheet_add(sheet, "publisher_late_p99_us",
                        (double)hist_quantile(&window->bench->pub.shared->late, 99000) / 1000.0, 0);
}

/* Replays go on from before the publishes until after them. */
static void start_replays(struct window *window)
{
    struct bench_log *bench = window->bench;
    if (bench->options.replayed == 0)
        return;
    window->walk = die_if_null(malloc(sizeof(*window->walk)));
    bench_log_walk_start(window->walk,
                         &(struct bench_log_walk_plan){.log = window->reader->host.log,
                                                       .pub = &bench->pub,
                                                       .faults = &bench->faults,
                                                       .rooms = bench->options.replayed,
                                                       .pages = bench->options.pages,
                                                       .encode = bench->options.encode,
                                                       .forever = true});
}

static void stop_replays(struct window *window)
{
    if (window->walk == NULL)
        return;
    bench_log_walk_stop(window->walk);
    if (!bench_log_host_wait(&window->reader->host, bench_log_walk_is_over, window->walk,
                             PAGE_SECONDS))
        die(DIE_RUN, "a page was not answered");
    bench_log_walk_fini(window->walk);
}

static void measure(struct bench_log *bench, struct bench_log_reader *reader)
{
    double follow_ms = bench_log_reader_open(reader, &bench->options, &bench->pub);
    reader->encode = bench->options.encode;
    struct window window = {.bench = bench, .reader = reader};
    start_replays(&window);
    run_window(&window);
    stop_replays(&window);
    bench_log_reader_settle(reader);
    report_window(&window);
    free(window.walk);
    bench_log_sheet_add(&bench->sheet, "follow_all_ms", follow_ms, 0);
    bench_log_reader_close(reader, &bench->faults);
}

void bench_log_feed(struct bench_log *bench)
{
    struct bench_log_reader *reader = die_if_null(malloc(sizeof(*reader)));
    bench_log_pub_begin(&bench->pub, &(struct bench_log_pub_plan){.fill = 1});
    bench_log_pub_wait(&bench->pub);
    if (bench->options.replayed != 0) {
        bench_log_pub_begin(&bench->pub,
                            &(struct bench_log_pub_plan){.fill = bench->options.entries,
                                                         .fill_rooms = bench->options.replayed});
        bench_log_pub_wait(&bench->pub);
    }
    for (unsigned i = 0; i < bench->options.rounds; i++) {
        if (bench->options.base || bench->options.followed == 0)
            measure_base(bench);
        if (bench->options.followed != 0)
            measure(bench, reader);
    }
    free(reader);
}
