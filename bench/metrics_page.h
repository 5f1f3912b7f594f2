/* metrics_page.h - the server's own counts, from GET /metrics. */
#ifndef BENCH_METRICS_PAGE_H
#define BENCH_METRICS_PAGE_H

#include "bench/target.h"

#include <stdint.h>

enum { METRICS_PAGE_MAX = 256 * 1024 };

/* As it was at one moment. */
struct metrics_page {
    char text[METRICS_PAGE_MAX];
};

/* Asks, and waits for the answer. False: the server has no such page. */
bool metrics_page_get(const struct target *target, struct metrics_page *out_page);

/* The value of roomd_<name>; 0 where there is none. */
uint64_t metrics_page_value(const struct metrics_page *page, const char *name);

#endif
