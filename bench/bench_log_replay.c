#include "bench/bench_log.h"
#include "bench/bench_log_note.h"
#include "bench/bench_log_reader.h"
#include "bench/clock.h"
#include "bench/die.h"
#include "room/entry_packet.h"

#include <stdlib.h>

enum { PAGE_BYTES = 256 * 1024 }; /* as roomd's page-bytes */

static const double LIMIT_SECONDS = 600;

struct pass;

/* One page under way; room after room. */
struct walker {
    struct roomlog_read read;
    struct pass *pass;
    unsigned room;
    uint64_t asked_ns;
    struct bench_log_audit audit;
    struct stream_id last;
};

/* Every room, from its beginning to its end, once. */
struct pass {
    struct bench_log *bench;
    struct roomlog *log;
    struct walker *walkers;
    unsigned next_room;
    unsigned walking;
    uint64_t entries;
    uint64_t pages;
    struct hist page;
    bool encode;
    struct packet_account packets;
};

static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page);

static void ask(struct walker *walker)
{
    struct pass *pass = walker->pass;
    char name[BENCH_LOG_PUB_ROOM_MAX];
    walker->read = (struct roomlog_read){
        .from = ROOMLOG_AFTER,
        .after = walker->last,
        .want_info = stream_id_is_zero(walker->last), /* as a join asks */
        .max_entries = pass->bench->options.page,
        .max_bytes = PAGE_BYTES,
        .done = on_page,
    };
    walker->asked_ns = clock_now_ns();
    enum rd_err err = roomlog_read(
        pass->log, bench_log_pub_room(pass->bench->run, walker->room, name), &walker->read);
    if (err != RD_OK)
        die(DIE_RUN, "a page was refused: %s", rd_err_text(err));
}

static void walk_next_room(struct walker *walker)
{
    struct pass *pass = walker->pass;
    if (pass->next_room == pass->bench->options.rooms) {
        pass->walking--;
        return;
    }
    walker->room = pass->next_room++;
    walker->audit = (struct bench_log_audit){0};
    walker->last = STREAM_ID_ZERO;
    ask(walker);
}

static void judge(struct walker *walker, const struct roomlog_entry *entry)
{
    struct pass *pass = walker->pass;
    struct bench_log_faults *faults = &pass->bench->faults;
    struct bench_log_note note;
    if (!entry->prev_known || !stream_id_eq(entry->prev, walker->last))
        faults->unlinked++;
    walker->last = entry->id;
    if (bench_log_note_read(entry->data, &note) && note.run == pass->bench->run)
        (void)bench_log_audit_take(&walker->audit, note.n, faults);
    else
        faults->alien++;
}

static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct walker *walker = RD_CONTAINER(read, struct walker, read);
    struct pass *pass = walker->pass;
    if (err != RD_OK)
        die(DIE_RUN, "a page could not be read: %s", rd_err_text(err));
    if (page->verdict != VERDICT_OK)
        die(DIE_RUN, "a room lost its beginning; is --maxlen above --entries?");
    hist_add(&pass->page, clock_now_ns() - walker->asked_ns);
    for (size_t i = 0; i < page->count; i++) {
        judge(walker, &page->entries[i]);
        if (pass->encode)
            packet_unref(entry_packet_create(&pass->packets, STR("bench"), &page->entries[i]));
    }
    pass->pages++;
    pass->entries += page->count;
    if (!page->at_end) {
        ask(walker);
        return;
    }
    bench_log_audit_settle(&walker->audit, pass->bench->pub.shared->each[walker->room],
                           &pass->bench->faults);
    walk_next_room(walker);
}

static bool is_over(void *arg)
{
    const struct pass *pass = arg;
    return pass->walking == 0;
}

static const struct names {
    const char *per_second, *own, *redis;
} NAMES[] = {
    {"entries_per_second", "reader_us_per_entry", "redis_us_per_entry"},
    {"encoded_per_second", "encoded_reader_us_per_entry", "encoded_redis_us_per_entry"},
};

static void report_pass(const struct pass *pass, const struct bench_log_cpu *cpu, uint64_t wall_ns)
{
    struct bench_log_sheet *sheet = &pass->bench->sheet;
    const struct names *names = &NAMES[pass->encode];
    double entries = (double)pass->entries;
    bench_log_sheet_add(sheet, names->per_second, entries / ((double)wall_ns / 1e9), 0);
    bench_log_sheet_add(sheet, names->own, (double)cpu->own / 1e3 / entries, 3);
    if (pass->bench->redis_pid != 0)
        bench_log_sheet_add(sheet, names->redis, (double)cpu->redis / 1e3 / entries, 3);
    if (pass->encode)
        return;
    bench_log_sheet_add_hist(sheet,
                             &(struct bench_log_sheet_points){"page_p50_us", "page_p99_us",
                                                              "page_p99_9_us", "page_max_us"},
                             &pass->page);
    bench_log_sheet_add(sheet, "entries_per_page", entries / (double)pass->pages, 0);
}

static void run_pass(struct bench_log *bench, struct bench_log_reader *reader, bool encode)
{
    struct pass *pass = die_if_null(calloc(1, sizeof(*pass)));
    unsigned count = bench->options.pages;
    pass->bench = bench;
    pass->log = reader->host.log;
    pass->encode = encode;
    pass->walkers = die_if_null(calloc(count, sizeof(*pass->walkers)));
    pass->walking = count;
    struct bench_log_cpu cpu = bench_log_cpu_now(bench);
    uint64_t begin = clock_now_ns();
    for (unsigned i = 0; i < count; i++) {
        pass->walkers[i].pass = pass;
        walk_next_room(&pass->walkers[i]);
    }
    if (!bench_log_host_wait(&reader->host, is_over, pass, LIMIT_SECONDS))
        die(DIE_RUN, "the replay took more than %g s", LIMIT_SECONDS);
    uint64_t wall = clock_now_ns() - begin;
    cpu = bench_log_cpu_since(bench, &cpu);
    report_pass(pass, &cpu, wall);
    free(pass->walkers);
    free(pass);
}

void bench_log_replay(struct bench_log *bench)
{
    struct bench_log_reader *reader = die_if_null(malloc(sizeof(*reader)));
    bench_log_pub_begin(&bench->pub, &(struct bench_log_pub_plan){.fill = bench->options.entries});
    bench_log_pub_wait(&bench->pub);
    /* They are followed, for a room that is replayed is. */
    (void)bench_log_reader_open(reader, &bench->options, &bench->pub);
    for (unsigned i = 0; i < bench->options.rounds; i++) {
        run_pass(bench, reader, false);
        run_pass(bench, reader, true);
    }
    bench_log_reader_close(reader, &bench->faults);
    free(reader);
}
