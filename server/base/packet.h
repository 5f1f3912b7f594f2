/* packet.h - one WebSocket frame as it goes over the wire, immutable and counted.
 *
 * A frame for a thousand clients is encoded and framed once; after that only references move. The
 * bytes begin with the WebSocket header (RFC 6455 section 5.2: FIN set, server frames are never
 * masked), so they can be written to any socket as they are, and several can be joined in one
 * write.
 *
 * Always true: the account that a packet was made with counts its real bytes (struct and frame)
 * for exactly as long as it lives, however many queues hold it.
 *
 * References are not atomic: a packet never leaves the thread that made it.
 */
#ifndef BASE_PACKET_H
#define BASE_PACKET_H

#include "protocol/codes.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"

#include <stdint.h>

/* What all living packets of one worker cost. */
struct packet_account {
    size_t bytes;
    size_t count;
};

struct packet {
    struct packet_account *account;
    struct stream_id id;   /* the entry's; 0-0 where the frame is none */
    struct stream_id prev; /* the entry before it; 0-0 too where prev_known is false */
    bool prev_known;
    uint32_t refs;
    uint32_t len;
    char bytes[]; /* header and payload */
};

enum {
    PACKET_HEADER_MAX = 10,        /* opcode, length, 64-bit length */
    PACKET_PAYLOAD_MAX = 1u << 30, /* what a packet may carry; asserted */
    PACKET_CLOSE_REASON_MAX = 123  /* RFC 6455 section 5.5 */
};

/* Each returns owned (one reference). The account must outlive the packet. */
struct packet *packet_text(struct packet_account *account, struct str payload);
struct packet *packet_entry(struct packet_account *account, struct str payload, struct stream_id id,
                            const struct stream_id *prev);
struct packet *packet_close(struct packet_account *account, enum code_close code,
                            struct str reason);
struct packet *packet_ping(struct packet_account *account);
bool packet_is_ping(const struct packet *p);

static inline struct packet *packet_ref(struct packet *p)
{
    p->refs++;
    return p;
}

/* NULL is fine. The last one frees. */
void packet_unref(struct packet *p);

static inline size_t packet_len(const struct packet *p)
{
    return p->len;
}

#endif
