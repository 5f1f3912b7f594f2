#include "base/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static const struct {
    const char *kind, *name, *help;
} TABLE[METRICS_COUNT] = {
#define METRICS_AS_ROW(symbol, kind, name, help) {#kind, name, help},
    METRICS_LIST(METRICS_AS_ROW)
#undef METRICS_AS_ROW
};

size_t metrics_print(const struct metrics *m, char *dst, size_t cap)
{
    size_t len = 0;
    if (cap != 0)
        dst[0] = '\0';
    for (size_t i = 0; i < METRICS_COUNT; i++) {
        /* Past the end, snprintf only counts. */
        bool room = len < cap;
        int wrote = snprintf(room ? dst + len : NULL, room ? cap - len : 0,
                             "# HELP roomd_%s %s\n# TYPE roomd_%s %s\nroomd_%s %" PRIu64 "\n",
                             TABLE[i].name, TABLE[i].help, TABLE[i].name, TABLE[i].kind,
                             TABLE[i].name, m->v[i]);
        len += wrote > 0 ? (size_t)wrote : 0;
    }
    return len;
}
