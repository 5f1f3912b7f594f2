/* room_truth.h - what one room's log has really been: every entry that ever was, and its fate.
 *
 * A log's own records forget: which entries were trimmed, what a failover lost, what was there
 * before a DEL. This forgets nothing, so it can say of each verdict whether it was honest.
 *
 * The log's line is what was added to what is there now, in order. A failover goes back to an
 * earlier line and leaves the rest lost; a DEL begins a new one. A client stands at something that
 * was added once (its `mark`), and not merely at an id: where an id was used twice, the two are
 * different places, and no log can tell them apart.
 */
#ifndef TESTS_MODEL_ROOM_TRUTH_H
#define TESTS_MODEL_ROOM_TRUTH_H

#include "protocol/stream_id.h"
#include "roomlog/verdict.h"

enum { ROOM_TRUTH_MARKS = 256, ROOM_TRUTH_LINE = 128, ROOM_TRUTH_WHY_MAX = 192 };

/* Nowhere: a client that has seen nothing, or one with a cursor that it made up. */
enum { ROOM_TRUTH_NOWHERE = ROOM_TRUTH_MARKS };

enum room_truth_fate {
    ROOM_TRUTH_KEPT,
    ROOM_TRUTH_TRIMMED,
    ROOM_TRUTH_DELETED,
    ROOM_TRUTH_SET /* no entry: XSETID made this the last id */
};

/* A log at one moment; may be copied, as a replica does. */
struct room_truth_log {
    bool exists;
    size_t count;
    uint16_t mark[ROOM_TRUTH_LINE];
    uint8_t fate[ROOM_TRUTH_LINE];
    struct stream_id last, max_deleted;
    uint64_t added;
};

struct room_truth {
    struct room_truth_log now;
    size_t marks;
    struct stream_id id[ROOM_TRUTH_MARKS]; /* of each mark */
    bool forgotten;                        /* a line with entries in it was deleted as a whole */
};

/* Where a client stands. */
struct room_truth_place {
    struct stream_id id;
    size_t mark;
};

/* What a verdict was worth. */
enum room_truth_worth {
    ROOM_TRUTH_RIGHT,
    /* Blind spots: a loss that nobody could see. */
    ROOM_TRUTH_BLIND_ZERO,   /* 0-0, of a client that doesn't know that a DEL took entries */
    ROOM_TRUTH_BLIND_REUSED, /* an id that was used twice, or XSETID went back behind it */
    /* Resyncs that weren't needed, and that nobody could know to be needless. */
    ROOM_TRUTH_LAST_TRIMMED, /* the cursor's entry is the last that was trimmed */
    ROOM_TRUTH_HOLE, /* its entry was deleted, or never was one, and what came after it is there */
    /* Mistakes. */
    ROOM_TRUTH_LOSS,
    ROOM_TRUTH_NEEDLESS,
    ROOM_TRUTH_WORTHS
};

/* Is there room for n more of whatever adds a mark? */
bool room_truth_has_room(const struct room_truth *truth, size_t n);

/* What was done to the log, once it is known that it was. */
void room_truth_add(struct room_truth *truth, struct stream_id id);
void room_truth_trim(struct room_truth *truth, size_t removed); /* from the front */
void room_truth_delete(struct room_truth *truth, struct stream_id id);
void room_truth_set_id(struct room_truth *truth, struct stream_id id);
void room_truth_reset(struct room_truth *truth);
void room_truth_fail_over(struct room_truth *truth, const struct room_truth_log *to);

/* What the log must say of itself. */
struct verdict_info room_truth_info(const struct room_truth *truth);
/* The entries that are there, above an id: at most cap marks. Returns how many there are. */
size_t room_truth_after(const struct room_truth *truth, struct stream_id id, uint16_t *marks,
                        size_t cap);
/* Where somebody stands whom the log told its last id. */
struct room_truth_place room_truth_end(const struct room_truth *truth);

/* Judges a verdict that a client at this place was given. */
enum room_truth_worth room_truth_judge(const struct room_truth *truth,
                                       struct room_truth_place place, enum verdict verdict);

const char *room_truth_worth_text(enum room_truth_worth worth);

#endif
