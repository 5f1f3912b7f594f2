/* ws_frame.h - WebSocket frames (RFC 6455 section 5) as bytes: headers and masks, no socket.
 *
 * Shared by the load tool's clients and by the bare server they are held against. Neither
 * negotiates an extension, so a reserved bit is a fault.
 */
#ifndef BENCH_WS_FRAME_H
#define BENCH_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ws_frame_opcode {
    WS_FRAME_CONTINUATION = 0x0,
    WS_FRAME_TEXT = 0x1,
    WS_FRAME_BINARY = 0x2,
    WS_FRAME_CLOSE = 0x8,
    WS_FRAME_PING = 0x9,
    WS_FRAME_PONG = 0xa
};

enum {
    WS_FRAME_HEAD_MAX = 14,    /* the longest header: 2, a 64-bit length, the mask */
    WS_FRAME_CONTROL_MAX = 125 /* the most that a control frame may carry */
};

struct ws_frame_head {
    unsigned opcode;
    bool fin;
    bool masked;
    uint8_t mask[4];
    size_t head_len;
    uint64_t payload_len;
};

enum ws_frame_verdict { WS_FRAME_OK, WS_FRAME_MORE, WS_FRAME_BAD };

/* Reads a header. MORE: the bytes end before it does. BAD: a reserved bit or opcode, a length that
 * isn't the shortest form, or a control frame that is fragmented or too long. */
enum ws_frame_verdict ws_frame_read_head(const uint8_t *p, size_t len,
                                         struct ws_frame_head *out_head);

/* Writes the header of a whole message to dst, which has room for WS_FRAME_HEAD_MAX bytes. mask is
 * NULL for frames of a server. Returns its length. */
size_t ws_frame_write_head(uint8_t *dst, unsigned opcode, size_t payload_len, const uint8_t *mask);

/* Masks or unmasks in place; the two are the same. */
void ws_frame_mask(uint8_t *p, size_t len, const uint8_t mask[4]);

#endif
