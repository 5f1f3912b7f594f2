/* ws_handshake.h - the proof of the WebSocket upgrade (RFC 6455 section 4.2.2): key in, accept out.
 *
 * SHA-1 is written out here so that the load tool needs no crypto library; nothing secret hangs on
 * it.
 */
#ifndef BENCH_WS_HANDSHAKE_H
#define BENCH_WS_HANDSHAKE_H

#include "protocol/str.h"

#include <stdint.h>

enum {
    WS_HANDSHAKE_KEY_LEN = 24,   /* base64 of 16 bytes */
    WS_HANDSHAKE_ACCEPT_LEN = 28 /* base64 of a SHA-1 */
};

/* The Sec-WebSocket-Key of 16 bytes, and a NUL. */
void ws_handshake_key(const uint8_t nonce[16], char out_key[WS_HANDSHAKE_KEY_LEN + 1]);

/* The Sec-WebSocket-Accept that answers a key, and a NUL. Keys of the wrong length get one too: it
 * can't be right, and the peer's check says so. */
void ws_handshake_accept(struct str key, char out_accept[WS_HANDSHAKE_ACCEPT_LEN + 1]);

/* The value of a header in an HTTP head (names compared without case, blanks around the value
 * stripped); absent where it isn't there. Borrowed from head. */
struct str ws_handshake_header(struct str head, const char *name);

#endif
