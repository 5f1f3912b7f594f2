/* bytes.h - bytes that grow: what a socket hasn't taken yet, what isn't whole yet.
 *
 * The caller holds the length against a ceiling of its own before it appends. Embedded, all zero is
 * empty.
 */
#ifndef BENCH_BYTES_H
#define BENCH_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *p;
    size_t len;
    size_t cap;
};

/* Afterwards p isn't NULL, and `more` bytes can be appended without moving it. */
void bytes_reserve(struct bytes *bytes, size_t more);

void bytes_append(struct bytes *bytes, const void *p, size_t len);

/* Takes len bytes off the front. What is left empty gives back its memory if it is much. */
void bytes_consume(struct bytes *bytes, size_t len);

/* Frees it; it is empty again. */
void bytes_fini(struct bytes *bytes);

#endif
