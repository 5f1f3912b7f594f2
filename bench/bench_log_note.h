/* bench_log_note.h - what roomd-bench-log publishes as `data`:
 *
 *   {"run":"1a2b3c4d","n":"000000000001","due":"00000000000004d2","sent":"00000000000004d3",
 *    "pad":"xxxx"}
 *
 * `run` tells this run's entries from all others, `n` counts the publishes of one room from 1,
 * `due` and `sent` (clock.h, hexadecimal; 0: not to be timed) are when the publish was due and when
 * its XADD began to be written. Every field has its fixed place, so that writing and reading one
 * costs next to nothing beside what is measured. No I/O.
 */
#ifndef BENCH_BENCH_LOG_NOTE_H
#define BENCH_BENCH_LOG_NOTE_H

#include "protocol/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_LOG_NOTE_MIN = 112, BENCH_LOG_NOTE_MAX = 60000 };

struct bench_log_note {
    uint32_t run;
    uint64_t n; /* below 10^12 */
    uint64_t due_ns, sent_ns;
};

/* Writes exactly size bytes, BENCH_LOG_NOTE_MIN to BENCH_LOG_NOTE_MAX, to dst. */
void bench_log_note_write(char *dst, size_t size, const struct bench_log_note *note);

/* True, and *out_note filled, where text is of the shape that bench_log_note_write gives. Of the
 * padding only the length and the end are looked at. */
bool bench_log_note_read(struct str text, struct bench_log_note *out_note);

#endif
