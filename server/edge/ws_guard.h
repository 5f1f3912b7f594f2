/* ws_guard.h - looks at what a client sends before libwebsockets does.
 *
 * libwebsockets (4.1 to 4.3) has three holes in its receiving half that its callbacks can't mend:
 *
 * - It accepts frames that aren't masked and doesn't tell. RFC 6455 section 5.1 demands that they
 * end the connection (1002): the mask is what keeps a hostile page from writing requests of its own
 *   making into a proxy between it and us.
 * - It swallows an empty PONG, which is what a client answers to an empty PING: it looks dead.
 * - It goes on parsing a connection's bytes behind a request that it has already answered, which is
 * how pipelined requests hang 4.1.6 for ever and smuggle bodies into 4.3.5.
 *
 * There is no callback before it reads, and the parser's state is private. But it reads a plain
 * socket by one call, recv(), through the dynamic linker, which looks into the program before the C
 * library. So this file defines recv. For a descriptor that isn't guarded it is the system call and
 * nothing else; for a guarded one it walks the frame headers (not the payload: its cost is per
 * frame, not per byte) and
 *
 * - hands over a request only up to its end, so nothing pipelined is ever parsed as part of it;
 * - tells the owner of each PONG;
 * - stops at the first byte that breaks the framing rules (unmasked, reserved bits and opcodes,
 * fragmented or long control frames, fragments out of place), tells the owner once, and from then
 * on reads and drops, so that the end of the connection is still noticed.
 *
 * What else was weighed: the payload's place in the read buffer (the header stands before it, but
 * not where a frame came in two reads, and control frames aren't shown at all); offsets into
 * private structs (break with each release); a second poll on a dup of the descriptor with MSG_PEEK
 * (a wake-up and two system calls a read, and it loses the race); parsing WebSocket ourselves (then
 * libwebsockets would be of no use).
 *
 * Should the interposition ever not hold, ws_guard_upgrade refuses every upgrade: it can't
 * fail silently.
 *
 * Descriptors belong to the thread that guards them.
 */
#ifndef EDGE_WS_GUARD_H
#define EDGE_WS_GUARD_H

#include <stdbool.h>

/* Called from inside a read of libwebsockets: must not call into it, and not stop the guard. */
struct ws_guard_ops {
    void (*pong)(void *arg);
    void (*broken)(void *arg); /* once */
};

/* A connection was accepted; its request comes first. */
void ws_guard_start(int fd);

/* The connection is a WebSocket from here on. False: what was read doesn't end where the request
 * does, so the frames can't be followed; the connection must be dropped. Keeps ops and arg until
 * ws_guard_stop. */
bool ws_guard_upgrade(int fd, const struct ws_guard_ops *ops, void *arg);

/* Reads and drops what has come in behind the request, a bounded amount: closing with unread bytes
 * would reset the connection, and the answer with it. */
void ws_guard_drain(int fd);

/* Must be called before the descriptor can be used for anything else. Harmless where not guarded.
 */
void ws_guard_stop(int fd);

#endif
