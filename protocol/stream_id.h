/* stream_id.h - an entry's place in its room's log: a Redis stream id, `ms-seq`.
 *
 * Two unsigned 64-bit numbers, compared as numbers and never as text (as text, "9-0" is
 * above "10-0"). "0-0" is before every entry: no log ever holds it.
 *
 * The text form is canonical: decimal, no sign, no leading zero, no blank, both halves present.
 * Redis is more generous when it reads; roomd is not, so that equal ids have equal texts.
 */
#ifndef PROTOCOL_STREAM_ID_H
#define PROTOCOL_STREAM_ID_H

#include "protocol/str.h"

#include <stdint.h>

struct stream_id {
    uint64_t ms;
    uint64_t seq;
};

enum {
    STREAM_ID_TEXT_MAX = 41 /* two numbers of 20 digits and the dash; no NUL counted */
};

#define STREAM_ID_ZERO ((struct stream_id){0, 0})
#define STREAM_ID_MAX ((struct stream_id){UINT64_MAX, UINT64_MAX})

/* False, and *out_id as it was, unless text is exactly one canonical id. */
bool stream_id_parse(struct str text, struct stream_id *out_id);

/* Writes at most STREAM_ID_TEXT_MAX bytes, no NUL. Returns how many. */
size_t stream_id_format(struct stream_id id, char *dst);

/* Below, at or above zero, as memcmp. */
static inline int stream_id_cmp(struct stream_id a, struct stream_id b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return a.seq == b.seq ? 0 : a.seq < b.seq ? -1 : 1;
}

static inline bool stream_id_eq(struct stream_id a, struct stream_id b)
{
    return a.ms == b.ms && a.seq == b.seq;
}

static inline bool stream_id_is_zero(struct stream_id id)
{
    return id.ms == 0 && id.seq == 0;
}

#endif
