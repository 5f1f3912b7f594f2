/* audit.h - did one member of a room get exactly what it should? No sockets: entries in, faults
 * counted.
 *
 * It applies the client's rule of the protocol (an entry chains to the cursor by `prev`, or it
 * doesn't) but goes on where a client would rejoin, so that one fault is counted once and what
 * comes after it is still judged:
 *
 *   gap       an entry whose `prev` isn't the cursor: something between was not sent
 *   double    an entry that was there before
 *   disorder  an entry that comes after a later one: it fills a gap seen before
 *   lost      entries that were acknowledged to the publisher and never arrived, the tail included,
 *             which no chain can show
 *   excess    more entries of this run than were published: appended twice
 *
 * Each of the first three is charged to a place: `replay` before the `live` frame, `seam` at it and
 * at the first entry after it, `live` later. A member that was told that entries are gone (by
 * `resync`, or by a fresh start in a trimmed log) isn't charged with lost ones; the telling itself
 * is counted.
 */
#ifndef BENCH_AUDIT_H
#define BENCH_AUDIT_H

#include "bench/entry_scan.h"
#include "protocol/stream_id.h"

enum audit_place { AUDIT_REPLAY, AUDIT_SEAM, AUDIT_LIVE, AUDIT_PLACES };

/* Of all members of a run. All zero at first. */
struct audit_totals {
    uint64_t gaps[AUDIT_PLACES];
    uint64_t doubles[AUDIT_PLACES];
    uint64_t disorder[AUDIT_PLACES];
    uint64_t lost;
    uint64_t excess;
    uint64_t resyncs;
    uint64_t applied; /* entries taken, of this run or not */
    uint64_t
        breaches; /* frames that broke the protocol: malformed, of another room, `live` twice */
};

enum {
    AUDIT_HOLES_MAX =
        64 /* gaps that one member remembers; what fills a later one counts as double */
};

struct audit_hole;

/* Embedded in the member, all zero at first. The fields are audit.c's; live and ours may be read.
 */
struct audit {
    struct stream_id cursor;
    bool cursor_set;
    bool live;      /* the `live` frame has come */
    bool past_seam; /* and an entry after it */
    bool awaiting;  /* a join was sent and its answer hasn't come: entries belong to the join before
                     */
    bool partial;   /* it was told that it won't get everything: lost can't be counted */
    uint8_t hole_count;
    uint64_t ours; /* entries of this run that were applied, each once */
    struct audit_hole *holes;
};

void audit_join_sent(struct audit *audit);

/* joined, or resync: the cursor is replaced; from is NULL for a fresh start. complete: the log
 * still holds everything that there ever was; where it doesn't, a fresh start can't be expected to
 * bring it all. */
void audit_joined(struct audit *audit, const struct stream_id *from, bool complete);
void audit_resync(struct audit *audit, struct audit_totals *totals, const struct stream_id *from);

void audit_live(struct audit *audit, struct audit_totals *totals, struct stream_id cursor);

/* True if the entry was applied (it may have come too late). run: the tag of this run's payloads.
 */
bool audit_entry(struct audit *audit, struct audit_totals *totals, const struct entry_scan *entry,
                 uint32_t run);

/* At the end of the run. acked entries of this run must have arrived since the place that the
 * member joined from, and no more than were sent can have. */
void audit_finish(struct audit *audit, struct audit_totals *totals, uint64_t acked, uint64_t sent);

/* Frees what it holds. */
void audit_fini(struct audit *audit);

/* Is there nothing that breaks the promise? */
bool audit_clean(const struct audit_totals *totals);

#endif
