#include "bench/audit.h"

#include "bench/die.h"

#include <stdlib.h>

/* Entries with after < id <= upto are missing, but for those that came late, which split it. */
struct audit_hole {
    struct stream_id after;
    struct stream_id upto;
};

static enum audit_place place_of(const struct audit *audit)
{
    if (!audit->live)
        return AUDIT_REPLAY;
    return audit->past_seam ? AUDIT_LIVE : AUDIT_SEAM;
}

static void add_hole(struct audit *audit, struct stream_id after, struct stream_id upto)
{
    if (audit->hole_count == AUDIT_HOLES_MAX || stream_id_cmp(after, upto) >= 0)
        return;
    if (audit->holes == NULL)
        audit->holes = die_if_null(calloc(AUDIT_HOLES_MAX, sizeof(*audit->holes)));
    audit->holes[audit->hole_count++] = (struct audit_hole){after, upto};
}

static struct stream_id just_below(struct stream_id id)
{
    if (id.seq > 0)
        return (struct stream_id){id.ms, id.seq - 1};
    return (struct stream_id){id.ms - 1, UINT64_MAX}; /* an entry's id is never 0-0 */
}

/* Takes id out of the hole that it lies in. False: it lies in none, so it was here before. */
static bool fill_hole(struct audit *audit, struct stream_id id)
{
    for (size_t i = 0; i < audit->hole_count; i++) {
        struct audit_hole hole = audit->holes[i];
        if (stream_id_cmp(id, hole.after) <= 0 || stream_id_cmp(id, hole.upto) > 0)
            continue;
        audit->holes[i] = audit->holes[--audit->hole_count];
        add_hole(audit, hole.after, just_below(id));
        add_hole(audit, id, hole.upto);
        return true;
    }
    return false;
}

void audit_join_sent(struct audit *audit)
{
    audit->awaiting = true;
}

void audit_joined(struct audit *audit, const struct stream_id *from, bool complete)
{
    audit->partial = audit->partial || (from == NULL && !complete);
    audit->awaiting = false;
    audit->live = false;
    audit->past_seam = false;
    audit->cursor_set = from != NULL;
    if (from != NULL)
        audit->cursor = *from;
}

void audit_resync(struct audit *audit, struct audit_totals *totals, const struct stream_id *from)
{
    audit_joined(audit, from, true);
    audit->partial = true;
    audit->hole_count = 0;
    totals->resyncs++;
}

void audit_live(struct audit *audit, struct audit_totals *totals, struct stream_id cursor)
{
    if (audit->live || audit->awaiting)
        totals->breaches++;
    audit->live = true;
    if (audit->cursor_set && !stream_id_eq(audit->cursor, cursor)) {
        totals->gaps[AUDIT_SEAM]++;
        add_hole(audit, audit->cursor, cursor);
    }
    if (!audit->cursor_set || stream_id_cmp(audit->cursor, cursor) < 0)
        audit->cursor = cursor;
    audit->cursor_set = true;
}

/* An entry at or below the cursor. True if it fills a gap. */
static bool take_old(struct audit *audit, struct audit_totals *totals, struct stream_id id)
{
    bool late = fill_hole(audit, id);
    if (late)
        totals->disorder[place_of(audit)]++;
    else
        totals->doubles[place_of(audit)]++;
    return late;
}

bool audit_entry(struct audit *audit, struct audit_totals *totals, const struct entry_scan *entry,
                 uint32_t run)
{
    if (audit->awaiting)
        return false;
    bool applied = true;
    if (audit->cursor_set && stream_id_cmp(entry->id, audit->cursor) <= 0) {
        applied = take_old(audit, totals, entry->id);
    } else {
        if (audit->cursor_set && (entry->prev_null || !stream_id_eq(entry->prev, audit->cursor))) {
            totals->gaps[place_of(audit)]++;
            add_hole(audit, audit->cursor, entry->prev_null ? just_below(entry->id) : entry->prev);
        }
        audit->cursor = entry->id;
        audit->cursor_set = true;
    }
    audit->past_seam = audit->live;
    if (applied) {
        totals->applied++;
        audit->ours += entry->ours && entry->run == run;
    }
    return applied;
}

void audit_finish(struct audit *audit, struct audit_totals *totals, uint64_t acked, uint64_t sent)
{
    if (audit->partial)
        return;
    if (audit->ours < acked)
        totals->lost += acked - audit->ours;
    else if (audit->ours > sent)
        totals->excess += audit->ours - sent;
}

void audit_fini(struct audit *audit)
{
    free(audit->holes);
    audit->holes = NULL;
    audit->hole_count = 0;
}

bool audit_clean(const struct audit_totals *totals)
{
    uint64_t faults = totals->lost + totals->excess + totals->breaches;
    for (int i = 0; i < AUDIT_PLACES; i++)
        faults += totals->gaps[i] + totals->doubles[i] + totals->disorder[i];
    return faults == 0;
}
