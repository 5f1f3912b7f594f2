/* redis_place.h - where one Redis can be reached: host and port, or a unix socket. No I/O.
 */
#ifndef ROOMLOG_REDIS_PLACE_H
#define ROOMLOG_REDIS_PLACE_H

#include "base/rd.h"
#include "protocol/str.h"

#include <stdint.h>

enum {
    REDIS_PLACE_HOST_MAX = 253,
    REDIS_PLACE_TEXT_MAX = REDIS_PLACE_HOST_MAX + sizeof("[]:65535") /* its NUL counted */
};

struct redis_place {
    char host[REDIS_PLACE_HOST_MAX + 1]; /* a name or an address; or a unix socket's path */
    uint16_t port;                       /* 0: a unix socket */
};

/* False: host is empty, too long or holds a NUL; or port isn't from 1 to 65535. */
RD_MUST_USE bool redis_place_set(struct redis_place *place, struct str host, long long port);

/* As bytes: two names of one machine are two places. */
bool redis_place_eq(const struct redis_place *a, const struct redis_place *b);

/* "host:port", "[v6]:port" or "unix:/path". Returns dst. */
const char *redis_place_format(const struct redis_place *place, char dst[REDIS_PLACE_TEXT_MAX]);

#endif
