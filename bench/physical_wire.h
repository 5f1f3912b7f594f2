/* physical_wire.h - the few frames that the bare server speaks, framed and ready to send.
 *
 * Each function appends to bytes that the caller bounds.
 */
#ifndef BENCH_PHYSICAL_WIRE_H
#define BENCH_PHYSICAL_WIRE_H

#include "bench/bytes.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"

/* The answer to an upgrade request. False where it has no key. */
bool physical_wire_upgrade(struct bytes *buf, struct str request);

void physical_wire_welcome(struct bytes *buf);
void physical_wire_joined(struct bytes *buf, struct str room, struct stream_id head);
void physical_wire_entry(struct bytes *buf, struct str room, struct stream_id id,
                         struct stream_id prev, struct str type, struct str data);
void physical_wire_ack(struct bytes *buf, struct str room, struct stream_id id);
void physical_wire_pong(struct bytes *buf, const uint8_t *payload, size_t len);

/* What a client asks for. */
enum physical_wire_op { PHYSICAL_WIRE_OTHER, PHYSICAL_WIRE_JOIN, PHYSICAL_WIRE_PUBLISH };

struct physical_wire_request {
    enum physical_wire_op op;
    struct str room;
    struct str type; /* inside its quotes */
    struct str data; /* JSON text */
};

/* False where text is no JSON object. Borrows from text. */
bool physical_wire_read(struct str text, struct physical_wire_request *out_request);

#endif
