/* report.h - the result of a run, as text for people or as one JSON object for programs.
 *
 * Each call prints one number; groups become indented blocks or nested objects. Names are
 * literals of [a-z0-9_]; text values are escaped.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/hist.h"

#include <stdbool.h>
#include <stdint.h>

/* Embedded by the caller; the fields are report.c's. */
struct report {
    bool json;
    bool comma; /* something stands before in the object that is open */
    unsigned depth;
};

void report_begin(struct report *report, bool json);
void report_end(struct report *report);

void report_group(struct report *report, const char *name);
void report_group_end(struct report *report);

void report_count(struct report *report, const char *name, uint64_t value);
void report_number(struct report *report, const char *name, double value, int decimals);
void report_text(struct report *report, const char *name, const char *value);
void report_flag(struct report *report, const char *name, bool value);

/* Percentiles of nanoseconds, in microseconds. */
void report_hist(struct report *report, const char *name, const struct hist *hist);

#endif
