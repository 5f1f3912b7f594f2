/* bench_log_sheet.h - the numbers of several rounds, and their medians.
 *
 * Each round adds one value to each name; the report has the median, the least and the greatest.
 * The distance between the last two is what one should believe about the first.
 */
#ifndef BENCH_BENCH_LOG_SHEET_H
#define BENCH_BENCH_LOG_SHEET_H

#include "bench/report.h"

#include <stddef.h>

enum { BENCH_LOG_SHEET_ROWS = 48, BENCH_LOG_SHEET_ROUNDS = 100 };

struct bench_log_sheet_row {
    const char *name;
    int decimals;
    unsigned count;
    double values[BENCH_LOG_SHEET_ROUNDS];
};

/* All zero: empty. */
struct bench_log_sheet {
    unsigned count;
    struct bench_log_sheet_row rows[BENCH_LOG_SHEET_ROWS];
};

/* name is a literal. At most BENCH_LOG_SHEET_ROUNDS values a name: asserted. */
void bench_log_sheet_add(struct bench_log_sheet *sheet, const char *name, double value,
                         int decimals);

/* Adds <name>_p50_us, _p99_us, _p99_9_us and _max_us of nanoseconds. The names are literals. */
struct bench_log_sheet_points {
    const char *p50, *p99, *p99_9, *max;
};
void bench_log_sheet_add_hist(struct bench_log_sheet *sheet,
                              const struct bench_log_sheet_points *names, const struct hist *hist);

/* Sorts values. Of an even count, the mean of the two in the middle; 0 of none. */
double bench_log_sheet_median(double *values, size_t count);

/* JSON: groups "median", "min" and "max". Text: a table of the three. */
void bench_log_sheet_report(struct bench_log_sheet *sheet, struct report *report);

#endif
