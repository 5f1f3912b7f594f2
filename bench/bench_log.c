/* roomd-bench-log - what roomd's log on Redis costs, and whether it delivers everything. */
#include "bench/bench_log.h"

#include "base/logger.h"
#include "bench/clock.h"
#include "bench/die.h"
#include "bench/proc.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DELETE_BATCH = 1000 };

const struct bench_log_sheet_points bench_log_page_points = {"page_p50_us", "page_p99_us",
                                                             "page_p99_9_us", "page_max_us"};

struct bench_log_cpu bench_log_cpu_now(const struct bench_log *bench)
{
    struct bench_log_cpu cpu = {0};
    struct timespec own;
    struct proc_cpu redis;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    cpu.own = (uint64_t)own.tv_sec * CLOCK_SECOND + (uint64_t)own.tv_nsec;
    if (bench->redis_pid == 0)
        return cpu;
    if (!proc_read_cpu(bench->redis_pid, &redis))
        die(DIE_RUN, "Redis' process is gone");
    cpu.redis = redis.total_ns;
    return cpu;
}

struct bench_log_cpu bench_log_cpu_since(const struct bench_log *bench,
                                         const struct bench_log_cpu *from)
{
    struct bench_log_cpu now = bench_log_cpu_now(bench);
    return (struct bench_log_cpu){now.own - from->own, now.redis - from->redis};
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        die(DIE_RUN, "can't run on CPU %d: %s", cpu, strerror(errno));
}

static void begin(struct bench_log *bench)
{
    const struct bench_log_options *options = &bench->options;
    struct proc_cpu cpu;
    logger_setup(LOGGER_WARN, LOGGER_LOGFMT);
    bench->run = (uint32_t)(clock_now_ns() ^ (uint64_t)getpid() << 20);
    bench_log_pub_start(&bench->pub, options, bench->run);
    if (options->cpu >= 0)
        pin(options->cpu);
    bench->link = redis_link_open(options->url);
    bench->redis_pid =
        options->redis_pid != 0 ? options->redis_pid : redis_link_server_pid(bench->link);
    if (bench->redis_pid != 0 && !proc_read_cpu(bench->redis_pid, &cpu))
        die(DIE_RUN, "--redis-pid %d: no such process, or it may not be looked at",
            (int)bench->redis_pid);
}

static void delete_rooms(struct bench_log *bench)
{
    for (unsigned i = 0; i < bench->options.rooms; i++) {
        char key[BENCH_LOG_PUB_ROOM_MAX];
        const struct str words[] = {STR("UNLINK"), bench_log_pub_key(bench->run, i, key)};
        redis_link_put(bench->link, words, 2);
        if (redis_link_unanswered(bench->link) >= DELETE_BATCH)
            redis_link_settle(bench->link);
    }
    redis_link_settle(bench->link);
}

static void head(struct report *report, const struct bench_log *bench)
{
    const struct bench_log_options *o = &bench->options;
    report_text(report, "command", bench_log_options_name(o->command));
    report_text(report, "live", o->live_name);
    report_count(report, "rooms", o->rooms);
    report_count(report, "size", o->size);
    report_count(report, "rounds", o->rounds);
    if (o->command == BENCH_LOG_FEED) {
        report_count(report, "followed", o->followed);
        report_count(report, "hot", o->hot);
        report_number(report, "rate", o->rate, 0);
        report_flag(report, "script", o->script);
        report_count(report, "replayed", o->replayed);
    }
    if (o->command == BENCH_LOG_REPLAY || o->replayed != 0)
        report_count(report, "entries", o->entries);
    if (o->command == BENCH_LOG_APPEND)
        report_count(report, "in_flight", o->in_flight);
}

static int verdict(struct report *report, const struct bench_log_faults *faults)
{
    bool clean = bench_log_audit_clean(faults);
    report_group(report, "audit");
    report_count(report, "lost", faults->lost);
    report_count(report, "doubled", faults->doubled);
    report_count(report, "disorder", faults->disorder);
    report_count(report, "alien", faults->alien);
    report_count(report, "unlinked", faults->unlinked);
    report_count(report, "breaks", faults->breaks);
    report_group_end(report);
    report_text(report, "verdict", clean ? "ok" : "the audit found faults");
    return clean ? DIE_OK : DIE_AUDIT;
}

int main(int argc, char **argv)
{
    static void (*const commands[])(struct bench_log *) = {
        [BENCH_LOG_FEED] = bench_log_feed,
        [BENCH_LOG_RECONNECT] = bench_log_reconnect,
        [BENCH_LOG_REPLAY] = bench_log_replay,
        [BENCH_LOG_APPEND] = bench_log_append,
    };
    static struct bench_log bench; /* too large for a stack */
    bench.options = bench_log_options_parse(argc, argv);
    (void)signal(SIGPIPE, SIG_IGN); /* connections are cut here, and come back */
    begin(&bench);
    commands[bench.options.command](&bench);
    bench_log_pub_stop(&bench.pub);
    if (!bench.options.keep)
        delete_rooms(&bench);
    redis_link_close(bench.link);

    struct report report;
    report_begin(&report, bench.options.json);
    head(&report, &bench);
    bench_log_sheet_report(&bench.sheet, &report);
    int status = verdict(&report, &bench.faults);
    report_end(&report);
    return status;
}
