#include "bench/bench_log_sheet.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bench_log_sheet_row *row_of(struct bench_log_sheet *sheet, const char *name)
{
    for (unsigned i = 0; i < sheet->count; i++)
        if (strcmp(sheet->rows[i].name, name) == 0)
            return &sheet->rows[i];
    assert(sheet->count < BENCH_LOG_SHEET_ROWS);
    struct bench_log_sheet_row *row = &sheet->rows[sheet->count++];
    row->name = name;
    return row;
}

void bench_log_sheet_add(struct bench_log_sheet *sheet, const char *name, double value,
                         int decimals)
{
    struct bench_log_sheet_row *row = row_of(sheet, name);
    assert(row->count < BENCH_LOG_SHEET_ROUNDS);
    row->decimals = decimals;
    row->values[row->count++] = value;
}

void bench_log_sheet_add_hist(struct bench_log_sheet *sheet,
                              const struct bench_log_sheet_points *names, const struct hist *hist)
{
    bench_log_sheet_add(sheet, names->p50, (double)hist_quantile(hist, 50000) / 1000.0, 0);
    bench_log_sheet_add(sheet, names->p99, (double)hist_quantile(hist, 99000) / 1000.0, 0);
    bench_log_sheet_add(sheet, names->p99_9, (double)hist_quantile(hist, 99900) / 1000.0, 0);
    bench_log_sheet_add(sheet, names->max, (double)hist_quantile(hist, 100000) / 1000.0, 0);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_log_sheet_median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(*values), compare);
    if (count % 2 == 1)
        return values[count / 2];
    return (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void report_json(struct bench_log_sheet *sheet, struct report *report)
{
    report_group(report, "median");
    for (unsigned i = 0; i < sheet->count; i++) {
        struct bench_log_sheet_row *row = &sheet->rows[i];
        report_number(report, row->name, bench_log_sheet_median(row->values, row->count),
                      row->decimals);
    }
    report_group_end(report);
    /* Sorted by now. */
    report_group(report, "min");
    for (unsigned i = 0; i < sheet->count; i++)
        report_number(report, sheet->rows[i].name, sheet->rows[i].values[0],
                      sheet->rows[i].decimals);
    report_group_end(report);
    report_group(report, "max");
    for (unsigned i = 0; i < sheet->count; i++) {
        const struct bench_log_sheet_row *row = &sheet->rows[i];
        report_number(report, row->name, row->values[row->count - 1], row->decimals);
    }
    report_group_end(report);
}

void bench_log_sheet_report(struct bench_log_sheet *sheet, struct report *report)
{
    if (report->json) {
        report_json(sheet, report);
        return;
    }
    printf("%-30s %12s %12s %12s\n", "", "median", "min", "max");
    for (unsigned i = 0; i < sheet->count; i++) {
        struct bench_log_sheet_row *row = &sheet->rows[i];
        double median = bench_log_sheet_median(row->values, row->count);
        printf("%-30s %12.*f %12.*f %12.*f\n", row->name, row->decimals, median, row->decimals,
               row->values[0], row->decimals, row->values[row->count - 1]);
    }
}
