/* redis_resolve.h - a host name's addresses, looked up without stopping the loop.
 *
 * getaddrinfo may block for many seconds and can't be interrupted, so each look-up has a thread of
 * its own, which shares nothing with the loop but the job: the thread fills it in, then rings an
 * eventfd; the loop reads it after that.
 *
 * A cancelled look-up's thread goes on until getaddrinfo returns, and then frees the job.
 */
#ifndef ROOMLOG_REDIS_RESOLVE_H
#define ROOMLOG_REDIS_RESOLVE_H

#include "base/loop.h"

enum { REDIS_RESOLVE_MAX = 8, REDIS_RESOLVE_TEXT = 64 /* an IPv6 address with its zone and NUL */ };

struct redis_resolve; /* one look-up */

/* Numeric addresses, in the order in which to try them. */
struct redis_resolve_result {
    char address[REDIS_RESOLVE_MAX][REDIS_RESOLVE_TEXT];
    size_t count;       /* 0: failed */
    const char *reason; /* why; a text that lives for ever */
};

/* Runs once, later. The look-up is over and must not be cancelled any more; result is borrowed. */
typedef void (*redis_resolve_fn)(void *arg, const struct redis_resolve_result *result);

/* True, and *out_result filled, where host is a numeric address: then nothing need be looked up. */
bool redis_resolve_numeric(const char *host, struct redis_resolve_result *out_result);

/* Copies host. Returns NULL where there is no thread or descriptor to be had. */
struct redis_resolve *redis_resolve_start(struct loop *loop, const char *host,
                                          redis_resolve_fn done, void *arg);
/* done won't run. NULL is fine. */
void redis_resolve_cancel(struct redis_resolve *resolve);

#endif
