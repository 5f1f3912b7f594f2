#include "bench/bench_log_walk.h"

#include "base/rd.h"
#include "bench/bench_log_note.h"
#include "bench/clock.h"
#include "bench/die.h"
#include "room/entry_packet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 256 * 1024 }; /* as roomd's page-bytes */

/* One page under way; room after room. */
struct bench_log_walker {
    struct roomlog_read read;
    struct bench_log_walk *walk;
    unsigned room;
    uint64_t asked_ns;
    struct bench_log_audit audit;
    struct stream_id last;
};

static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page);

static void ask(struct bench_log_walker *walker)
{
    struct bench_log_walk *walk = walker->walk;
    char name[BENCH_LOG_PUB_ROOM_MAX];
    walker->read = (struct roomlog_read){
        .from = ROOMLOG_AFTER,
        .after = walker->last,
        .want_info = stream_id_is_zero(walker->last), /* as a join asks */
        .max_entries = walk->plan.pub->options->page,
        .max_bytes = PAGE_BYTES,
        .done = on_page,
    };
    walker->asked_ns = clock_now_ns();
    struct str room = bench_log_pub_room(walk->plan.pub->run, walker->room, name);
    enum rd_err err = roomlog_read(walk->plan.log, room, &walker->read);
    if (err != RD_OK)
        die(DIE_RUN, "a page was refused: %s", rd_err_text(err));
}

static void walk_next_room(struct bench_log_walker *walker)
{
    struct bench_log_walk *walk = walker->walk;
    if (walk->plan.forever && walk->next_room == walk->plan.rooms)
        walk->next_room = 0;
    if (walk->stopped || walk->next_room == walk->plan.rooms) {
        walk->walking--;
        return;
    }
    walker->room = walk->next_room++;
    walker->audit = (struct bench_log_audit){0};
    walker->last = STREAM_ID_ZERO;
    ask(walker);
}

static void judge(struct bench_log_walker *walker, const struct roomlog_entry *entry)
{
    struct bench_log_walk *walk = walker->walk;
    struct bench_log_faults *faults = walk->plan.faults;
    struct bench_log_note note;
    if (!entry->prev_known || !stream_id_eq(entry->prev, walker->last))
        faults->unlinked++;
    walker->last = entry->id;
    if (bench_log_note_read(entry->data, &note) && note.run == walk->plan.pub->run)
        (void)bench_log_audit_take(&walker->audit, note.n, faults);
    else
        faults->alien++;
}

static void on_page(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct bench_log_walker *walker = RD_CONTAINER(read, struct bench_log_walker, read);
    struct bench_log_walk *walk = walker->walk;
    if (err != RD_OK)
        die(DIE_RUN, "a page could not be read: %s", rd_err_text(err));
    if (page->verdict != VERDICT_OK)
        die(DIE_RUN, "a room lost its beginning; is --maxlen above --entries?");
    hist_add(&walk->page, clock_now_ns() - walker->asked_ns);
    for (size_t i = 0; i < page->count; i++) {
        judge(walker, &page->entries[i]);
        if (walk->plan.encode)
            packet_unref(entry_packet_create(&walk->packets, STR("bench"), &page->entries[i]));
    }
    walk->pages++;
    walk->entries += page->count;
    if (!page->at_end && !walk->stopped) {
        ask(walker);
        return;
    }
    if (!walk->plan.forever)
        bench_log_audit_settle(&walker->audit, walk->plan.pub->shared->each[walker->room],
                               walk->plan.faults);
    walk_next_room(walker);
}

void bench_log_walk_start(struct bench_log_walk *walk, const struct bench_log_walk_plan *plan)
{
    memset(walk, 0, sizeof(*walk));
    walk->plan = *plan;
    walk->walkers = die_if_null(calloc(plan->pages, sizeof(*walk->walkers)));
    walk->walking = plan->pages;
    for (unsigned i = 0; i < plan->pages; i++) {
        walk->walkers[i].walk = walk;
        walk_next_room(&walk->walkers[i]);
    }
}

void bench_log_walk_stop(struct bench_log_walk *walk)
{
    walk->stopped = true;
}

bool bench_log_walk_is_over(void *arg)
{
    const struct bench_log_walk *walk = arg;
    return walk->walking == 0;
}

void bench_log_walk_fini(struct bench_log_walk *walk)
{
    assert(walk->walking == 0);
    free(walk->walkers);
}
