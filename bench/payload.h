/* payload.h - what the load tool publishes as `data`: {"run":"1a2b3c4d","t":123456789,"pad":"...."}
 *
 * `run` tells this run's entries from everything else in the room, `t` is the scheduled time of
 * the publish (clock.h; 0 where it isn't to be timed), and `pad` makes up the size asked for.
 */
#ifndef BENCH_PAYLOAD_H
#define BENCH_PAYLOAD_H

#include "protocol/str.h"

#include <stdint.h>

enum {
    PAYLOAD_MIN = 60, /* what the fields need at their longest */
    PAYLOAD_MAX = 60000
};

/* Writes exactly size bytes, PAYLOAD_MIN to PAYLOAD_MAX, to dst. */
void payload_write(char *dst, size_t size, uint32_t run, uint64_t t_ns);

/* True, and both numbers, where text is byte for byte what payload_write would have written. */
bool payload_read(struct str text, uint32_t *out_run, uint64_t *out_t_ns);

#endif
