#include "bench/bench_log.h"
#include "bench/bench_log_note.h"
#include "bench/bench_log_reader.h"
#include "bench/clock.h"
#include "bench/die.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MISSED_MAX = 1000, /* entries that are published while nobody listens */
    CONNS_MAX = 64
};

static const double LIMIT_SECONDS = 60;

/* CUT -> AWAY, noticed -> all rooms were asked for -> all of that was answered; and ready again */
struct cut {
    struct bench_log *bench;
    struct bench_log_reader *reader;
    uint64_t begin_ns, noticed_ns, asked_ns, verified_ns, ready_ns;
    uint64_t reads;     /* when it was noticed */
    uint64_t published; /* to the followed rooms while nobody listened, and one more after that */
    uint64_t delivered; /* before */
};

static void put_entry(struct cut *cut, unsigned room)
{
    struct bench_log *bench = cut->bench;
    char key[BENCH_LOG_PUB_ROOM_MAX];
    char data[BENCH_LOG_NOTE_MIN];
    bench_log_pub_data(&bench->pub, room, 0, 0, data, sizeof(data));
    const struct str words[] = {STR("XADD"),
                                bench_log_pub_key(bench->run, room, key),
                                STR("*"),
                                STR("type"),
                                STR("bench"),
                                STR("data"),
                                {data, sizeof(data)}};
    redis_link_put(bench->link, words, sizeof(words) / sizeof(words[0]));
    cut->published++;
}

/* Cuts them, and publishes before any can be back, for all of it is one pipeline. */
static void cut_connections(struct cut *cut, const uint64_t *ids, size_t count)
{
    struct redis_link *link = cut->bench->link;
    unsigned followed = cut->bench->options.followed;
    unsigned missed = followed < MISSED_MAX ? followed : MISSED_MAX;
    for (size_t i = 0; i < count; i++) {
        char id[24];
        (void)snprintf(id, sizeof(id), "%" PRIu64, ids[i]);
        const struct str words[] = {STR("CLIENT"), STR("KILL"), STR("ID"), str_from(id)};
        redis_link_put(link, words, 4);
    }
    for (unsigned i = 0; i < missed; i++)
        put_entry(cut, (unsigned)((uint64_t)i * followed / missed));
    cut->begin_ns = clock_now_ns();
    redis_link_flush(link);
}

static bool is_back(void *arg)
{
    struct cut *cut = arg;
    uint64_t now = clock_now_ns();
    uint64_t reads = cut->reader->host.metrics.v[M_FEED_READS];
    bool ready = roomlog_ready(cut->reader->host.log);
    redis_link_drain(cut->bench->link, 0);
    if (cut->noticed_ns == 0) {
        if (ready)
            return false;
        cut->noticed_ns = now;
        cut->reads = reads;
    }
    if (cut->ready_ns == 0 && ready)
        cut->ready_ns = now;
    if (cut->asked_ns == 0 && reads - cut->reads >= cut->bench->options.followed) {
        cut->asked_ns = now;
        /* Its bell comes, and it is read, behind all that was asked before. */
        put_entry(cut, 0);
        redis_link_flush(cut->bench->link);
    }
    if (cut->asked_ns != 0 && cut->verified_ns == 0 &&
        cut->reader->delivered - cut->delivered >= cut->published)
        cut->verified_ns = now;
    return cut->verified_ns != 0 && cut->ready_ns != 0;
}

static double ms_since(const struct cut *cut, uint64_t ns)
{
    return (double)(ns - cut->begin_ns) / (double)CLOCK_MS;
}

static void measure(struct bench_log *bench, struct bench_log_reader *reader)
{
    uint64_t ids[CONNS_MAX];
    uint64_t own = redis_link_client_id(bench->link);
    double follow_ms = bench_log_reader_open(reader, &bench->options, &bench->pub);
    struct cut cut = {.bench = bench, .reader = reader, .delivered = reader->delivered};
    size_t found = redis_link_find_clients(bench->link, own, "roomd-", ids, CONNS_MAX);
    if (found == 0 || found > CONNS_MAX)
        die(DIE_RUN, "%zu connections of the log were found", found);

    struct bench_log_cpu cpu = bench_log_cpu_now(bench);
    cut_connections(&cut, ids, found);
    if (!bench_log_host_wait(&reader->host, is_back, &cut, LIMIT_SECONDS))
        die(DIE_RUN, "not back after %g s", LIMIT_SECONDS);
    cpu = bench_log_cpu_since(bench, &cpu);
    redis_link_settle(bench->link);
    bench_log_reader_settle(reader);

    uint64_t whole = cut.verified_ns > cut.ready_ns ? cut.verified_ns : cut.ready_ns;
    bench_log_sheet_add(&bench->sheet, "verified_and_ready_ms", ms_since(&cut, whole), 1);
    bench_log_sheet_add(&bench->sheet, "noticed_ms", ms_since(&cut, cut.noticed_ns), 1);
    bench_log_sheet_add(&bench->sheet, "ready_ms", ms_since(&cut, cut.ready_ns), 1);
    bench_log_sheet_add(&bench->sheet, "verified_ms", ms_since(&cut, cut.verified_ns), 1);
    bench_log_sheet_add(&bench->sheet, "reader_cpu_ms", (double)cpu.own / 1e6, 1);
    if (bench->redis_pid != 0)
        bench_log_sheet_add(&bench->sheet, "redis_cpu_ms", (double)cpu.redis / 1e6, 1);
    bench_log_sheet_add(&bench->sheet, "connections_cut", (double)found, 0);
    bench_log_sheet_add(&bench->sheet, "follow_all_ms", follow_ms, 0);
    bench_log_reader_close(reader, &bench->faults);
}

void bench_log_reconnect(struct bench_log *bench)
{
    struct bench_log_reader *reader = die_if_null(malloc(sizeof(*reader)));
    if (bench->options.followed == 0)
        die(DIE_USAGE, "reconnect wants rooms that are followed");
    bench_log_pub_begin(&bench->pub, &(struct bench_log_pub_plan){.fill = 1});
    bench_log_pub_wait(&bench->pub);
    for (unsigned i = 0; i < bench->options.rounds; i++)
        measure(bench, reader);
    free(reader);
}
