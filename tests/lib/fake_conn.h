/* fake_conn.h - a client's socket that takes as much as the test says, and when.
 *
 * Plays struct session_conn_ops. Nothing is taken from the session but in fake_conn_read; what is
 * taken is split into text frames, pings and the close frame, with the WebSocket headers checked on
 * the way.
 */
#ifndef TESTS_LIB_FAKE_CONN_H
#define TESTS_LIB_FAKE_CONN_H

#include "session/session.h"

/* One text frame, as the client would see it. text is borrowed for the call. */
typedef void (*fake_conn_text_fn)(void *arg, struct str text);

struct fake_conn {
    struct session *session; /* NULL: closed */
    fake_conn_text_fn on_text;
    void *arg;
    bool wants_write;    /* the session has asked since the last read */
    bool aborted;        /* the session has asked for it: the test closes */
    unsigned close_code; /* of the close frame that was read; 0: none */
    unsigned pings;
    size_t bytes; /* read in all */
};

/* Opens a session over this connection. hello may be NULL. */
void fake_conn_open(struct fake_conn *conn, struct session_host *host,
                    const struct session_hello *hello, fake_conn_text_fn on_text, void *arg);

/* Takes packets while there are any and fewer than max_bytes were taken in this call (so at least
 * one, if there is one and max_bytes isn't 0). Returns the bytes taken. */
size_t fake_conn_read(struct fake_conn *conn, size_t max_bytes);

/* A text message to the server. printf-like. */
void fake_conn_send(struct fake_conn *conn, const char *fmt, ...) RD_PRINTF(2, 3);

/* The connection is gone. Harmless where it is closed. */
void fake_conn_close(struct fake_conn *conn);

#endif
