#include "base/buf.h"

#include "base/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){.max = max};
}

void buf_fini(struct buf *buf)
{
    free(buf->p);
    buf->p = NULL;
    buf->len = 0;
    buf->capacity = 0;
}

/* Doubles, so that n appends copy O(n) bytes, but not past max. */
static void grow(struct buf *buf, size_t need)
{
    size_t capacity = buf->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buf->capacity;
    while (capacity < need)
        capacity = capacity > buf->max / 2 ? buf->max : capacity * 2;
    if (capacity > buf->max)
        capacity = buf->max;
    buf->p = xalloc_array(buf->p, capacity, 1);
    buf->capacity = capacity;
}

char *buf_reserve(struct buf *buf, size_t len)
{
    /* Subtracting from the limit: a sum might wrap. */
    if (len > buf->max - buf->len)
        return NULL;
    if (buf->p == NULL || len > buf->capacity - buf->len)
        grow(buf, buf->len + len);
    return buf->p + buf->len;
}

enum rd_err buf_append(struct buf *buf, const void *p, size_t len)
{
    if (len == 0)
        return RD_OK;
    char *dst = buf_reserve(buf, len);
    if (dst == NULL)
        return RD_ETOOBIG;
    memcpy(dst, p, len);
    buf->len += len;
    return RD_OK;
}

void buf_clear(struct buf *buf, size_t keep)
{
    buf->len = 0;
    if (buf->capacity > keep)
        buf_fini(buf);
}
