/* entry_scan.h - an `entry` frame read as far as the audit needs it: room, id, prev, data.
 *
 * A thousand sockets get each entry, so the usual frame is read by hand in the field order that
 * PROTOCOL.md promises, without building anything. That scan is a subset of JSON and claims nothing
 * it hasn't looked at: every byte of a frame it accepts was matched, strings hold printable ASCII
 * without escapes, and data is exactly our own payload. Whatever else comes is read by the strict
 * parser of protocol/json.h, with the same result, only slower.
 */
#ifndef BENCH_ENTRY_SCAN_H
#define BENCH_ENTRY_SCAN_H

#include "protocol/json.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"

#include <stdint.h>

struct entry_scan {
    struct str room; /* borrowed from the text; its quotes are off, escapes left as they were */
    struct stream_id id;
    struct stream_id prev;
    bool prev_null;
    bool ours;     /* data is a payload of this tool */
    uint32_t run;  /* the payload's, 0 where not ours */
    uint64_t t_ns; /* the payload's, 0 where not ours */
};

/* The quick way. False means "can't say", never "no entry". */
bool entry_scan_fast(struct str text, struct entry_scan *out_entry);

/* The sure way, from the members of a frame whose op is "entry". False: the frame is malformed. */
bool entry_scan_members(const struct json_member *members, size_t count,
                        struct entry_scan *out_entry);

/* The last member of that name, as JSON.parse takes it, or absent. Borrowed. */
struct str entry_scan_member(const struct json_member *members, size_t count, const char *name);

/* The inside of a JSON string, escapes as they were; absent where value is no string. */
struct str entry_scan_unquote(struct str value);

#endif
