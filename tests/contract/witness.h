/* witness.h - asks a log, and writes down what it answers.
 *
 * A witness fails the test at once where an answer breaks a promise that holds for all of them: an
 * answer from inside the call that asked, a second one, ids out of order, entries that aren't
 * chained.
 */
#ifndef TESTS_CONTRACT_WITNESS_H
#define TESTS_CONTRACT_WITNESS_H

#include "roomlog/roomlog.h"

enum {
    WITNESS_ENTRIES_MAX = 2048, /* a witness writes down; more fails the test */
    WITNESS_TEXT_MAX = 24       /* of each text; of longer ones only the length counts */
};

struct witness_text {
    bool present;
    size_t len;
    char bytes[WITNESS_TEXT_MAX];
};

struct witness_entry {
    struct stream_id id, prev;
    bool prev_known;
    struct witness_text type, data, from, ref, key;
};

bool witness_text_is(const struct witness_text *text, struct str want);

/* --- append --------------------------------------------------------------------------------- */

struct witness_append {
    struct roomlog_append append;
    bool asking; /* inside the call */
    unsigned answers;
    enum rd_err err;
    struct stream_id id;
    bool duplicate;
    void (*then)(struct witness_append *w); /* called from the answer; or NULL */
};

/* Each may be used again once it was answered or cancelled: everything but `then` begins anew. */
RD_MUST_USE enum rd_err witness_append(struct roomlog *log, struct witness_append *w,
                                       struct str room, const struct roomlog_publish *what);

/* --- read ----------------------------------------------------------------------------------- */

struct witness_read {
    struct roomlog_read read; /* filled in by the test, but done */
    bool asking;
    unsigned answers;
    enum rd_err err;
    enum verdict verdict;
    bool at_end;
    struct verdict_info info;
    size_t count;
    struct witness_entry *entries;
    void (*then)(struct witness_read *w);
};

RD_MUST_USE enum rd_err witness_read(struct roomlog *log, struct witness_read *w, struct str room);
/* Frees what was written down. */
void witness_read_fini(struct witness_read *w);

/* --- state ---------------------------------------------------------------------------------- */

struct witness_state {
    struct roomlog_state state;
    bool asking;
    unsigned answers;
    enum rd_err err;
    struct stream_id position;
    size_t count;
    struct witness_entry *items;
    void (*then)(struct witness_state *w);
};

RD_MUST_USE enum rd_err witness_state(struct roomlog *log, struct witness_state *w,
                                      struct str room);
/* Frees what was written down. */
void witness_state_fini(struct witness_state *w);

/* --- follow --------------------------------------------------------------------------------- */

struct witness_follower {
    struct roomlog_follower follower;
    bool asking;
    unsigned started;
    unsigned broken;
    unsigned batches;
    enum verdict why;       /* of the last break */
    struct stream_id place; /* where the feed stands: what comes next must be chained to it */
    size_t count;
    struct witness_entry *entries;
    void (*then)(struct witness_follower *w); /* called from each callback; or NULL */
};

void witness_follow(struct roomlog *log, struct witness_follower *w, struct str room);
/* Frees what was written down. Must not be following any more. */
void witness_follower_fini(struct witness_follower *w);

#endif
