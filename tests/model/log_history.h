/* log_history.h - what is done to one room's log in a random history, round by round.
 *
 * A history is drawn from its seed alone. In each round it says what is to be done (ops); a store
 * does that to a real log, all at once for whoever reads it, and tells the truth what came of it:
 * an op may be refused (an id that is too small), and what `~` trims is the store's to find out.
 *
 * Half of the histories never use an id twice, neither after a DEL nor after a failover: there,
 * nothing excuses a loss.
 */
#ifndef TESTS_MODEL_LOG_HISTORY_H
#define TESTS_MODEL_LOG_HISTORY_H

#include "tests/lib/rng.h"
#include "tests/model/room_truth.h"

enum { LOG_HISTORY_OPS = 32, LOG_HISTORY_SAVED = 2 };

enum log_history_kind {
    LOG_HISTORY_ADD,         /* XADD id */
    LOG_HISTORY_ADD_MAXLEN,  /* XADD MAXLEN number id */
    LOG_HISTORY_TRIM_MAXLEN, /* XTRIM MAXLEN number */
    LOG_HISTORY_TRIM_MINID,  /* XTRIM MINID id */
    LOG_HISTORY_DELETE,      /* XDEL id */
    LOG_HISTORY_SET_ID,      /* XSETID id */
    LOG_HISTORY_RESET,       /* DEL */
    LOG_HISTORY_SAVE,        /* a replica's copy of this moment, in a slot */
    LOG_HISTORY_FAIL_OVER,   /* back to the copy in a slot; only the first of a round */
    LOG_HISTORY_KINDS
};

struct log_history_op {
    enum log_history_kind kind;
    struct stream_id id;
    uint64_t number;
    bool exact; /* =, not ~ */
    size_t slot;
    uint32_t tag; /* the data of the entry that it adds */
};

struct log_history_saved {
    bool taken;
    struct room_truth_log log;
    char *blob; /* the store's, freed with free(); NULL: the room didn't exist */
    size_t blob_len;
};

struct log_history {
    uint64_t seed;
    struct rng rng;
    char room[32];
    bool once;     /* no id is used twice */
    bool followed; /* a feed follows it: what rings no bell isn't done alone */
    bool long_one;
    struct room_truth truth;
    uint32_t tag[ROOM_TRUTH_MARKS]; /* of the op that made the mark */
    uint32_t tags;
    struct stream_id clock; /* above every id of a history that uses none twice */
    struct log_history_saved saved[LOG_HISTORY_SAVED];
    struct log_history_op ops[LOG_HISTORY_OPS];
    size_t count;
    bool rang; /* the last round changed the room so that a feed must hear of it */
};

void log_history_init(struct log_history *history, uint64_t seed);
void log_history_fini(struct log_history *history);

/* Draws the next round. can: a bit for each kind that the store is able to do. */
void log_history_draw(struct log_history *history, unsigned can);

/* For the store: what came of an op. */
void log_history_added(struct log_history *history, const struct log_history_op *op,
                       uint64_t length_after);
void log_history_trimmed(struct log_history *history, uint64_t removed);
void log_history_deleted(struct log_history *history, const struct log_history_op *op);
void log_history_set(struct log_history *history, const struct log_history_op *op);
void log_history_was_reset(struct log_history *history);
/* Takes blob. */
void log_history_saved_as(struct log_history *history, const struct log_history_op *op, char *blob,
                          size_t blob_len);
void log_history_failed_over(struct log_history *history, const struct log_history_op *op);

/* "XADD MAXLEN ~ 3 5-1", for people. Borrowed until the next call. */
const char *log_history_op_text(const struct log_history_op *op);

/* A place to ask from: real, deleted, trimmed, lost, made up, in the future, or 0-0. */
struct room_truth_place log_history_place(struct log_history *history);

#endif
