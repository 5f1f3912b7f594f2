#include "base/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *or_die(void *ptr, size_t size)
{
    if (ptr == NULL && size != 0) {
        (void)fprintf(stderr, "roomd: out of memory for %zu bytes\n", size);
        abort();
    }
    return ptr;
}

void *xalloc(size_t size)
{
    return or_die(malloc(size), size);
}

void *xalloc_zero(size_t size)
{
    return or_die(calloc(1, size), size);
}

void *xalloc_array(void *ptr, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return or_die(NULL, SIZE_MAX);
    return or_die(reallocarray(ptr, count, size), count * size);
}

char *xalloc_str(struct str s)
{
    char *copy = xalloc(s.len + 1);
    if (s.len != 0)
        memcpy(copy, s.p, s.len);
    copy[s.len] = '\0';
    return copy;
}
