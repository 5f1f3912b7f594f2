/* listener.h - the doors: accepts connections, and tells plain HTTP from WebSockets.
 *
 * The listening sockets are ours and not libwebsockets': it would accept without a bound, spin
 * where descriptors run out, abort the process where a port is taken, and not set the options that
 * keep the kernel from hiding a slow client's backlog (TCP_NOTSENT_LOWAT). Each accepted socket is
 * adopted by the one libwebsockets context, which runs on our loop.
 *
 *      accept ──► conn (HTTP) ──► response, closed
 *                     └─ upgrade ──► ws ──► closed
 *
 * Limits: above max_websockets an upgrade is answered 503 with a Retry-After drawn for each, while
 * plain HTTP (health, metrics) goes on. Past a margin above that, connections are refused as they
 * are accepted. Where descriptors run out, accepting pauses, and one connection is told so.
 *
 * Its end: listener_stop (no more come in), later listener_close (what is left is cut), then the
 * loop must run out, then listener_destroy. libwebsockets takes its context down in the same two
 * steps.
 */
#ifndef EDGE_LISTENER_H
#define EDGE_LISTENER_H

#include "edge/address.h"
#include "edge/http.h"
#include "edge/loop_uv.h"
#include "edge/upgrade.h"
#include "edge/ws.h"

enum { LISTENER_HTTP_MARGIN = 256 /* connections above max_websockets, for plain HTTP */ };

struct listener_config {
    const struct address *addresses;
    size_t count;
    size_t max_websockets;
    struct upgrade_rules rules;
};

struct listener;

/* Binds the addresses and begins to accept. NULL: reason says what failed. Keeps everything but
 * config, whose rules are kept too. Returns owned. */
struct listener *listener_create(struct loop_uv *loop, struct http *http, struct ws_host *ws,
                                 struct metrics *metrics, const struct listener_config *config,
                                 char *reason, size_t cap);
/* Closes the listening sockets; connections go on. Harmless where stopped. */
void listener_stop(struct listener *listener);
/* Cuts the connections; they are gone when the loop has run out. Not from inside one of its own
 * callbacks. */
void listener_close(struct listener *listener);
/* NULL is fine. */
void listener_destroy(struct listener *listener);

#endif
