/* ws.h - one WebSocket, one session.
 *
 * In: fragments are joined into whole texts, up to max_frame_bytes, and handed to the session.
 *
 * Out: the session says that it has something (want_write), and the socket goes onto the worker's
 * dirty list. At the end of the turn, before the loop sleeps, one flush takes the packets that came
 * together in that turn, joins them into one buffer of up to 16 KiB and writes it with one send():
 * a send costs 6 to 8 microseconds whatever is in it, and asking libwebsockets for a writable
 * callback first costs two more system calls. Only after a partial write is that callback waited
 * for.
 *
 * The rules that make this safe, each with its measurement behind it:
 * - Packets are already framed and go out raw (LWS_WRITE_RAW), never as LWS_WRITE_TEXT.
 * - Each write ends at the end of a frame, for libwebsockets puts its own PONG and CLOSE
 *   between any two writes.
 * - Nothing is written while libwebsockets holds an unsent rest.
 * - The session's CLOSE packet is written like any other, never lws_close_reason: on the libuv loop
 *   Debian's builds don't send that one, and no build does where something is buffered.
 *
 * A turn makes at most WS_WRITES_A_TURN writes, of which a large one counts as several; what is
 * left over is written in the next, after others had theirs. So a room of ten thousand doesn't hold
 * up a room of ten, nor do ten thousand that replay.
 */
#ifndef EDGE_WS_H
#define EDGE_WS_H

#include "base/buf.h"
#include "base/list.h"
#include "session/session.h"

#include <uv.h>

struct lws;
struct ws;

enum {
    WS_CHUNK = 16384,        /* what is joined into one write */
    WS_WRITES_A_TURN = 1000, /* about 8 ms, */
    WS_WRITE_BYTES = 4096,   /* where a write is of less than so much; so much more counts as one */
    WS_BACKLOG_SHARE = 250,  /* of these, where there is a backlog */
    WS_WRITES_A_SOCKET = 8,  /* before others of this turn are served */
    WS_GATHER_NS = 3000      /* how long a flush waits, for each socket to be written, while
                                messages go on coming in: half of what the write will take */
};

/* What all sockets of a worker share. The fields are ws.c's, except that count may be read. */
struct ws_host {
    struct session_host *sessions;
    size_t max_frame_bytes;
    size_t count;
    struct list dirty;   /* sockets with something to write, since the last flush */
    struct list backlog; /* and those that it didn't come to; the longest waiting first, both */
    uv_prepare_t flush;
    uv_idle_t more;              /* active: there is something to write, don't sleep */
    bool heard;                  /* a message, or a piece of one, came in this turn */
    uint64_t gathered;           /* sockets that want to write since the last flush */
    uint64_t gathering_since_ns; /* 0: nothing waits for more to come in */
    char chunk[WS_CHUNK];
};

/* Keeps sessions and uv. */
void ws_host_init(struct ws_host *host, uv_loop_t *uv, struct session_host *sessions,
                  size_t max_frame_bytes);
/* No socket may be left: asserted. The loop must run once more before host may go. */
void ws_host_fini(struct ws_host *host);

/* After the upgrade. NULL: drop the connection. Keeps wsi until ws_closed. */
struct ws *ws_open(struct ws_host *host, struct lws *wsi, const struct session_hello *hello);

/* What libwebsockets tells. A returned value is for libwebsockets. */
void ws_received(struct ws *ws, struct str piece);
void ws_writable(struct ws *ws);
int ws_peer_closes(struct ws *ws);
/* The connection is gone. Frees ws. */
void ws_closed(struct ws *ws);

#endif
