/* xalloc.h - memory, or the end of the process.
 *
 * A path for "out of memory" that never runs can't be trusted, so there is none: these print one
 * line and abort. That is safe only because every size that a peer controls was held against a
 * ceiling before it came here.
 */
#ifndef BASE_XALLOC_H
#define BASE_XALLOC_H

#include "protocol/str.h"

/* Each returns owned memory, to be freed with free(). Zero bytes are fine. */
void *xalloc(size_t size);
void *xalloc_zero(size_t size);
/* count * size, checked for overflow. ptr may be NULL. */
void *xalloc_array(void *ptr, size_t count, size_t size);
/* A copy with a NUL behind it. */
char *xalloc_str(struct str s);

#endif
