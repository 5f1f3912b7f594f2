#include "bench/bench_log.h"
#include "bench/bench_log_reader.h"
#include "bench/bench_log_walk.h"
#include "bench/clock.h"
#include "bench/die.h"

#include <stdlib.h>

static const double LIMIT_SECONDS = 600;

static const struct names {
    const char *per_second, *own, *redis;
} NAMES[] = {
    {"entries_per_second", "reader_us_per_entry", "redis_us_per_entry"},
    {"encoded_per_second", "encoded_reader_us_per_entry", "encoded_redis_us_per_entry"},
};

static void report_walk(struct bench_log *bench, const struct bench_log_walk *walk,
                        const struct bench_log_cpu *cpu, uint64_t wall_ns)
{
    struct bench_log_sheet *sheet = &bench->sheet;
    const struct names *names = &NAMES[walk->plan.encode];
    double entries = (double)walk->entries;
    bench_log_sheet_add(sheet, names->per_second, entries / ((double)wall_ns / 1e9), 0);
    bench_log_sheet_add(sheet, names->own, (double)cpu->own / 1e3 / entries, 3);
    if (bench->redis_pid != 0)
        bench_log_sheet_add(sheet, names->redis, (double)cpu->redis / 1e3 / entries, 3);
    if (walk->plan.encode)
        return;
    bench_log_sheet_add_hist(sheet, &bench_log_page_points, &walk->page);
    bench_log_sheet_add(sheet, "entries_per_page", entries / (double)walk->pages, 0);
}

static void measure(struct bench_log *bench, struct bench_log_reader *reader, bool encode)
{
    struct bench_log_walk *walk = die_if_null(malloc(sizeof(*walk)));
    const struct bench_log_walk_plan plan = {.log = reader->host.log,
                                             .pub = &bench->pub,
                                             .faults = &bench->faults,
                                             .rooms = bench->options.rooms,
                                             .pages = bench->options.pages,
                                             .encode = encode};
    struct bench_log_cpu cpu = bench_log_cpu_now(bench);
    uint64_t begin = clock_now_ns();
    bench_log_walk_start(walk, &plan);
    if (!bench_log_host_wait(&reader->host, bench_log_walk_is_over, walk, LIMIT_SECONDS))
        die(DIE_RUN, "the replay took more than %g s", LIMIT_SECONDS);
    uint64_t wall_ns = clock_now_ns() - begin;
    cpu = bench_log_cpu_since(bench, &cpu);
    report_walk(bench, walk, &cpu, wall_ns);
    bench_log_walk_fini(walk);
    free(walk);
}

void bench_log_replay(struct bench_log *bench)
{
    struct bench_log_reader *reader = die_if_null(malloc(sizeof(*reader)));
    bench_log_pub_begin(&bench->pub, &(struct bench_log_pub_plan){.fill = bench->options.entries});
    bench_log_pub_wait(&bench->pub);
    /* They are followed, for a room that is replayed is. */
    (void)bench_log_reader_open(reader, &bench->options, &bench->pub);
    for (unsigned i = 0; i < bench->options.rounds; i++) {
        measure(bench, reader, false);
        measure(bench, reader, true);
    }
    bench_log_reader_close(reader, &bench->faults);
    free(reader);
}
