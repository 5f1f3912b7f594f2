#include "bench/bench_log_reader.h"

#include "bench/bench_log_note.h"
#include "bench/clock.h"
#include "bench/die.h"
#include "room/entry_packet.h"

#include <stdlib.h>
#include <string.h>

static const double START_SECONDS = 60;
static const double SETTLE_SECONDS = 5;

/* --- what comes ----------------------------------------------------------------------------- */

static void on_started(struct roomlog_follower *follower, struct stream_id head)
{
    struct bench_log_reader_room *room = (struct bench_log_reader_room *)follower;
    room->last = head;
    room->started = true;
    room->reader->started++;
}

static void encode(struct bench_log_reader *reader, const struct roomlog_entry *entry)
{
    packet_unref(entry_packet_create(&reader->packets, STR("bench"), entry));
}

static void judge(struct bench_log_reader_room *room, const struct roomlog_entry *entry,
                  uint64_t now)
{
    struct bench_log_reader *reader = room->reader;
    struct bench_log_note note;
    if (!entry->prev_known || !stream_id_eq(entry->prev, room->last))
        reader->faults.unlinked++;
    room->last = entry->id;
    if (!bench_log_note_read(entry->data, &note) || note.run != reader->pub->run) {
        reader->faults.alien++;
        return;
    }
    if (!bench_log_audit_take(&room->audit, note.n, &reader->faults))
        return;
    reader->delivered++;
    if (note.due_ns < reader->from_ns || note.due_ns >= reader->to_ns)
        return;
    hist_add(&reader->due, now - note.due_ns);
    hist_add(&reader->sent, now - note.sent_ns);
}

static void on_entries(struct roomlog_follower *follower, const struct roomlog_entry *entries,
                       size_t count)
{
    struct bench_log_reader_room *room = (struct bench_log_reader_room *)follower;
    uint64_t now = clock_now_ns();
    for (size_t i = 0; i < count; i++) {
        judge(room, &entries[i], now);
        if (room->reader->encode)
            encode(room->reader, &entries[i]);
    }
}

static void on_broken(struct roomlog_follower *follower, enum verdict why, struct stream_id head)
{
    struct bench_log_reader_room *room = (struct bench_log_reader_room *)follower;
    room->last = head;
    room->reader->faults.breaks++;
}

static const struct roomlog_follower_ops follower_ops = {
    .started = on_started, .entries = on_entries, .broken = on_broken};

/* --- life ----------------------------------------------------------------------------------- */

static bool all_started(void *arg)
{
    const struct bench_log_reader *reader = arg;
    return reader->started == reader->options->followed;
}

static void follow(struct bench_log_reader *reader, unsigned i)
{
    struct bench_log_reader_room *room = &reader->rooms[i];
    char name[BENCH_LOG_PUB_ROOM_MAX];
    uint64_t n = reader->pub->shared->each[i];
    room->reader = reader;
    room->follower.ops = &follower_ops;
    /* What was published before is another reader's. */
    room->audit.last = n;
    room->audit.came = n;
    roomlog_follow(reader->host.log, bench_log_pub_room(reader->pub->run, i, name),
                   &room->follower);
}

double bench_log_reader_open(struct bench_log_reader *reader,
                             const struct bench_log_options *options, struct bench_log_pub *pub)
{
    memset(reader, 0, sizeof(*reader));
    reader->options = options;
    reader->pub = pub;
    reader->rooms = die_if_null(calloc(options->followed + 1, sizeof(*reader->rooms)));
    bench_log_host_open(&reader->host, options);
    if (!bench_log_host_wait_ready(&reader->host, START_SECONDS))
        die(DIE_RUN, "the log isn't ready");
    uint64_t begin = clock_now_ns();
    for (unsigned i = 0; i < options->followed; i++)
        follow(reader, i);
    if (!bench_log_host_wait(&reader->host, all_started, reader, START_SECONDS))
        die(DIE_RUN, "only %u of %u rooms were followed", reader->started, options->followed);
    return (double)(clock_now_ns() - begin) / (double)CLOCK_MS;
}

/* --- the end -------------------------------------------------------------------------------- */

struct settling {
    struct bench_log_reader *reader;
    uint64_t published;
    uint64_t seen;
    uint64_t moved_ns;
};

static bool is_settled(void *arg)
{
    struct settling *settling = arg;
    uint64_t now = clock_now_ns();
    if (settling->reader->delivered != settling->seen) {
        settling->seen = settling->reader->delivered;
        settling->moved_ns = now;
    }
    return settling->seen >= settling->published ||
           now - settling->moved_ns > (uint64_t)(SETTLE_SECONDS * (double)CLOCK_SECOND);
}

void bench_log_reader_settle(struct bench_log_reader *reader)
{
    struct settling settling = {.reader = reader, .moved_ns = clock_now_ns()};
    for (unsigned i = 0; i < reader->options->followed; i++) {
        const struct bench_log_audit *audit = &reader->rooms[i].audit;
        settling.published += reader->pub->shared->each[i] - audit->came;
    }
    settling.published += reader->delivered;
    while (!bench_log_host_wait(&reader->host, is_settled, &settling, SETTLE_SECONDS))
        ;
}

void bench_log_reader_close(struct bench_log_reader *reader, struct bench_log_faults *totals)
{
    for (unsigned i = 0; i < reader->options->followed; i++) {
        roomlog_unfollow(reader->host.log, &reader->rooms[i].follower);
        bench_log_audit_settle(&reader->rooms[i].audit, reader->pub->shared->each[i],
                               &reader->faults);
    }
    bench_log_host_close(&reader->host);
    free(reader->rooms);
    totals->lost += reader->faults.lost;
    totals->doubled += reader->faults.doubled;
    totals->disorder += reader->faults.disorder;
    totals->alien += reader->faults.alien;
    totals->unlinked += reader->faults.unlinked;
    totals->breaks += reader->faults.breaks;
}
