/* bench_log_walk.h - reads full rooms page by page, as replays do, some pages at a time.
 *
 * Every entry is audited on the way: chained by prev to the one before, numbered without a double
 * or disorder; and, where nothing is published meanwhile, none missing.
 */
#ifndef BENCH_BENCH_LOG_WALK_H
#define BENCH_BENCH_LOG_WALK_H

#include "base/packet.h"
#include "bench/bench_log_audit.h"
#include "bench/bench_log_pub.h"
#include "bench/hist.h"
#include "roomlog/roomlog.h"

struct bench_log_walker;

struct bench_log_walk_plan {
    struct roomlog *log; /* kept, like all that follows */
    const struct bench_log_pub *pub;
    struct bench_log_faults *faults;
    unsigned rooms; /* the first so many, one after the other */
    unsigned pages; /* in flight */
    bool encode;    /* makes the packet of each entry */
    bool forever;   /* goes round until it is stopped, while others publish */
};

/* The counts may be read at any time. */
struct bench_log_walk {
    struct bench_log_walk_plan plan;
    struct bench_log_walker *walkers;
    unsigned next_room;
    unsigned walking;
    bool stopped;
    uint64_t entries, pages;
    struct hist page; /* from asking for it to its answer */
    struct packet_account packets;
};

/* Asks for the first pages. */
void bench_log_walk_start(struct bench_log_walk *walk, const struct bench_log_walk_plan *plan);
/* No page is asked for any more. */
void bench_log_walk_stop(struct bench_log_walk *walk);
/* Is everything read, or stopped, and nothing under way? For bench_log_host_wait. */
bool bench_log_walk_is_over(void *walk);
/* It must be over. */
void bench_log_walk_fini(struct bench_log_walk *walk);

#endif
