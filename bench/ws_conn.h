/* ws_conn.h - one client's WebSocket: connect, upgrade, text in, text out, close.
 *
 * Non-blocking, on the poller. Thousands live in one process, so a connection owns no buffer
 * while nothing is unfinished: bytes are received into one block that all share, whole
 * messages are handed out from there without a copy, and only the rest of a cut frame is kept.
 *
 * It is strict about the server: a wrong accept key, a masked frame, a reserved bit or a message
 * above WS_CONN_MESSAGE_MAX ends the connection with a reason in `why`. Pings are answered.
 *
 * Life: IDLE -> CONNECTING -> UPGRADING -> OPEN -> CLOSED, with a step to CLOSED from each.
 */
#ifndef BENCH_WS_CONN_H
#define BENCH_WS_CONN_H

#include "bench/bytes.h"
#include "bench/poller.h"
#include "bench/target.h"
#include "protocol/str.h"

#include <stdint.h>

enum {
    WS_CONN_MESSAGE_MAX = 1 << 20, /* bytes of one message, fragments together */
    WS_CONN_UNSENT_MAX = 8 << 20,  /* bytes that may wait for the socket */
    WS_CONN_ABNORMAL = 1006        /* close_code where no close frame came */
};

enum ws_conn_state {
    WS_CONN_IDLE,
    WS_CONN_CONNECTING,
    WS_CONN_UPGRADING,
    WS_CONN_OPEN,
    WS_CONN_CLOSED
};

/* What all connections of a run share. */
struct ws_conn_io {
    struct poller *poller;
    const struct target *target;
    uint8_t *rx;     /* WS_CONN_RX_SIZE bytes, see ws_conn_io_init */
    uint64_t random; /* state of the generator of masks and keys */
    uint64_t now_ns; /* when the bytes being handed out were received */
};

struct ws_conn;

/* Run from the poller. on_text borrows the text. on_closed comes once, last, for every connection
 * that was opened; conn->close_code and why are set. All may send, pause and abort. */
struct ws_conn_ops {
    void (*on_open)(struct ws_conn *conn);
    void (*on_text)(struct ws_conn *conn, struct str text);
    void (*on_closed)(struct ws_conn *conn);
};

/* Embedded in its owner, zeroed; the fields are ws_conn.c's, to be read where the comment says so.
 */
struct ws_conn {
    struct poller_source source; /* first: the poller's pointer is ours */
    struct ws_conn_io *io;
    const struct ws_conn_ops *ops;
    enum ws_conn_state state; /* to be read */
    bool paused;              /* reads nothing */
    bool opened;              /* to be read: the upgrade was done, whatever came after */
    uint16_t close_code;      /* to be read once CLOSED */
    const char *why; /* to be read once CLOSED: a constant text, or NULL after a close frame */
    uint64_t key_seed;
    struct bytes rest;    /* of a frame (or of the HTTP head) that isn't whole yet */
    struct bytes message; /* the fragments so far */
    struct bytes unsent;
};

/* Keeps poller and target. */
void ws_conn_io_init(struct ws_conn_io *io, struct poller *poller, const struct target *target);
void ws_conn_io_fini(struct ws_conn_io *io);

enum ws_conn_opened {
    WS_CONN_STARTED,
    WS_CONN_BUSY,  /* the listener's queue is full: try again later; nothing happened */
    WS_CONN_FAILED /* errno says why; nothing happened */
};

/* Starts to connect. Keeps io and ops. */
enum ws_conn_opened ws_conn_open(struct ws_conn *conn, struct ws_conn_io *io,
                                 const struct ws_conn_ops *ops);

/* Queues a text message. False, and nothing queued, above WS_CONN_UNSENT_MAX. Only when OPEN. */
bool ws_conn_text(struct ws_conn *conn, struct str text);

/* Sends what is queued, as far as the socket takes it; the rest follows by itself. A connection
 * that breaks here is reported by on_closed on a later turn. */
void ws_conn_flush(struct ws_conn *conn);

/* Stops or resumes reading; a stalled client is one that is paused for ever. */
void ws_conn_pause(struct ws_conn *conn, bool paused);

/* Closes without ceremony and without on_closed, and frees what it holds. Fine in every state, also
 * twice. */
void ws_conn_abort(struct ws_conn *conn);

#endif
