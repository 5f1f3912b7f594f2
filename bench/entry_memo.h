/* entry_memo.h - the last entries scanned, so that the thousandth socket's copy costs a comparison.
 *
 * Everyone in a room gets the same bytes in the same order. Each reader keeps a guess of which
 * frame comes next; where the bytes there are equal, to the last one, so is what was read out of
 * them, and nothing is scanned. A wrong guess costs only the scan that there would have been.
 */
#ifndef BENCH_ENTRY_MEMO_H
#define BENCH_ENTRY_MEMO_H

#include "bench/entry_scan.h"

enum {
    ENTRY_MEMO_SLOTS = 256,   /* a power of two; more than a large burst's in one read */
    ENTRY_MEMO_TEXT_MAX = 512 /* longer frames are scanned each time */
};

struct entry_memo_slot {
    size_t len; /* 0: empty */
    size_t room_at;
    struct entry_scan entry;
    char text[ENTRY_MEMO_TEXT_MAX];
};

/* All zero is empty. The fields are entry_memo.c's. */
struct entry_memo {
    unsigned next; /* the slot that is overwritten next */
    struct entry_memo_slot slots[ENTRY_MEMO_SLOTS];
};

/* What entry_scan_fast says about text. *guess is the reader's own, 0 at first. */
bool entry_memo_scan(struct entry_memo *memo, unsigned *guess, struct str text,
                     struct entry_scan *out_entry);

#endif
