/* buf.h - bytes that grow up to a stated ceiling.
 *
 * Always true: len <= max. What would go past max isn't taken at all.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/rd.h"
#include "protocol/str.h"

struct buf {
    char *p;
    size_t len;
    size_t capacity;
    size_t max;
};

/* Allocates nothing until the first append. */
void buf_init(struct buf *buf, size_t max);
void buf_fini(struct buf *buf);

/* RD_ETOOBIG, and nothing taken, where it would pass max. */
RD_MUST_USE enum rd_err buf_append(struct buf *buf, const void *p, size_t len);
/* Room for at least len more bytes behind len, without counting them yet; NULL past max. */
char *buf_reserve(struct buf *buf, size_t len);
/* Empties it; memory above keep bytes is given back. */
void buf_clear(struct buf *buf, size_t keep);

static inline struct str buf_str(const struct buf *buf)
{
    return (struct str){buf->p, buf->len};
}

#endif
