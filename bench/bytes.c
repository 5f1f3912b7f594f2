#include "bench/bytes.h"

#include "bench/die.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 256,
    KEEP_CAPACITY = 4096 /* an empty buffer above this is freed: there may be thousands */
};

void bytes_reserve(struct bytes *bytes, size_t more)
{
    if (bytes->p != NULL && bytes->cap - bytes->len >= more)
        return;
    size_t cap = bytes->cap < FIRST_CAPACITY ? FIRST_CAPACITY : bytes->cap;
    while (cap - bytes->len < more)
        cap *= 2;
    bytes->p = die_if_null(realloc(bytes->p, cap));
    bytes->cap = cap;
}

void bytes_append(struct bytes *bytes, const void *p, size_t len)
{
    bytes_reserve(bytes, len);
    memcpy(bytes->p + bytes->len, p, len);
    bytes->len += len;
}

void bytes_consume(struct bytes *bytes, size_t len)
{
    bytes->len -= len;
    if (bytes->len > 0)
        memmove(bytes->p, bytes->p + len, bytes->len);
    else if (bytes->cap > KEEP_CAPACITY)
        bytes_fini(bytes);
}

void bytes_fini(struct bytes *bytes)
{
    free(bytes->p);
    *bytes = (struct bytes){0};
}
