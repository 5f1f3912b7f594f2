#include "bench/bench_log.h"
#include "bench/bench_log_host.h"
#include "bench/bench_log_note.h"
#include "bench/clock.h"
#include "bench/die.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { REF_MAX = 64 };

static const double READY_SECONDS = 10;

struct pass;

/* One append under way, again and again. */
struct writer {
    struct roomlog_append append;
    struct pass *pass;
    uint64_t asked_ns;
};

struct pass {
    struct bench_log *bench;
    struct roomlog *log;
    bool with_ref;
    uint64_t until_ns;
    uint64_t answered;
    unsigned writing;
    unsigned next_room;
    char *data;
    struct hist ack;
};

static void on_done(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                    bool duplicate);

static void ask(struct writer *writer)
{
    struct pass *pass = writer->pass;
    struct bench_log *bench = pass->bench;
    unsigned room = pass->next_room;
    char name[BENCH_LOG_PUB_ROOM_MAX];
    char ref[REF_MAX];
    struct roomlog_publish what = {.type = STR("bench"), .data = {pass->data, bench->options.size}};
    pass->next_room = (room + 1) % bench->options.rooms;
    bench_log_pub_data(&bench->pub, room, 0, 0, pass->data, bench->options.size);
    if (pass->with_ref) {
        (void)snprintf(ref, sizeof(ref), "%08" PRIx32 "-%u-%" PRIu64, bench->run, room,
                       bench->pub.shared->each[room]);
        what.ref = str_from(ref);
    }
    writer->append.done = on_done;
    writer->asked_ns = clock_now_ns();
    enum rd_err err = roomlog_append(pass->log, bench_log_pub_room(bench->run, room, name), &what,
                                     &writer->append);
    if (err != RD_OK)
        die(DIE_RUN, "an append was refused: %s", rd_err_text(err));
}

static void on_done(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                    bool duplicate)
{
    struct writer *writer = RD_CONTAINER(append, struct writer, append);
    struct pass *pass = writer->pass;
    uint64_t now = clock_now_ns();
    if (err != RD_OK)
        die(DIE_RUN, "an append failed: %s", rd_err_text(err));
    if (duplicate)
        pass->bench->faults.doubled++;
    hist_add(&pass->ack, now - writer->asked_ns);
    pass->answered++;
    if (now < pass->until_ns)
        ask(writer);
    else
        pass->writing--;
}

static bool is_over(void *arg)
{
    const struct pass *pass = arg;
    return pass->writing == 0;
}

static const struct names {
    struct bench_log_sheet_points ack;
    const char *per_second, *own, *redis;
} NAMES[2][2] = {
    {{{"alone_ack_p50_us", "alone_ack_p99_us", "alone_ack_p99_9_us", "alone_ack_max_us"},
      "alone_per_second",
      "alone_own_us",
      "alone_redis_us"},
     {{"alone_ref_ack_p50_us", "alone_ref_ack_p99_us", "alone_ref_ack_p99_9_us",
       "alone_ref_ack_max_us"},
      "alone_ref_per_second",
      "alone_ref_own_us",
      "alone_ref_redis_us"}},
    {{{"piped_ack_p50_us", "piped_ack_p99_us", "piped_ack_p99_9_us", "piped_ack_max_us"},
      "piped_per_second",
      "piped_own_us",
      "piped_redis_us"},
     {{"piped_ref_ack_p50_us", "piped_ref_ack_p99_us", "piped_ref_ack_p99_9_us",
       "piped_ref_ack_max_us"},
      "piped_ref_per_second",
      "piped_ref_own_us",
      "piped_ref_redis_us"}},
};

static void report_pass(const struct pass *pass, bool piped, const struct bench_log_cpu *cpu,
                        uint64_t wall_ns)
{
    struct bench_log_sheet *sheet = &pass->bench->sheet;
    const struct names *names = &NAMES[piped][pass->with_ref];
    double answered = (double)pass->answered;
    bench_log_sheet_add_hist(sheet, &names->ack, &pass->ack);
    bench_log_sheet_add(sheet, names->per_second, answered / ((double)wall_ns / 1e9), 0);
    bench_log_sheet_add(sheet, names->own, (double)cpu->own / 1e3 / answered, 2);
    if (pass->bench->redis_pid != 0)
        bench_log_sheet_add(sheet, names->redis, (double)cpu->redis / 1e3 / answered, 2);
}

static void run_pass(struct bench_log *bench, struct bench_log_host *host, bool piped,
                     bool with_ref)
{
    struct pass *pass = die_if_null(calloc(1, sizeof(*pass)));
    unsigned count = piped ? bench->options.in_flight : 1;
    struct writer *writers = die_if_null(calloc(count, sizeof(*writers)));
    pass->bench = bench;
    pass->log = host->log;
    pass->with_ref = with_ref;
    pass->data = die_if_null(malloc(bench->options.size));
    pass->writing = count;
    struct bench_log_cpu cpu = bench_log_cpu_now(bench);
    uint64_t begin = clock_now_ns();
    pass->until_ns = begin + (uint64_t)(bench->options.seconds * (double)CLOCK_SECOND);
    for (unsigned i = 0; i < count; i++) {
        writers[i].pass = pass;
        ask(&writers[i]);
    }
    if (!bench_log_host_wait(host, is_over, pass, bench->options.seconds + READY_SECONDS))
        die(DIE_RUN, "appends were not answered");
    uint64_t wall = clock_now_ns() - begin;
    cpu = bench_log_cpu_since(bench, &cpu);
    report_pass(pass, piped, &cpu, wall);
    free(pass->data);
    free(writers);
    free(pass);
}

void bench_log_append(struct bench_log *bench)
{
    struct bench_log_host *host = die_if_null(malloc(sizeof(*host)));
    bench_log_host_open(host, &bench->options);
    if (!bench_log_host_wait_ready(host, READY_SECONDS))
        die(DIE_RUN, "the log isn't ready");
    for (unsigned i = 0; i < bench->options.rounds; i++)
        for (unsigned kind = 0; kind < 4; kind++)
            run_pass(bench, host, kind >= 2, kind % 2 == 1);
    bench_log_host_close(host);
    free(host);
}
