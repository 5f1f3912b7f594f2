/* session.h - one client's visit, from welcome to goodbye.
 *
 * Frames come in as whole texts (session_receive), packets go out through the session's queue, from
 * which the connection takes them when its socket can. The session knows no socket: the connection
 * is a struct session_conn, played by edge/ws in the server and by a fake in the tests.
 *
 *     OPEN ── a reason to close ──► CLOSING ── session_closed ──► GONE: freed a turn later
 *       └────────────────── session_closed ────────────────────────┘
 *
 * In CLOSING the queue holds nothing but the close frame and the goodbye before it, what comes in
 * is ignored, and the connection is aborted if it hasn't gone after close_ms.
 *
 * Backpressure: a live entry that finds more than high_water of frames queued and pending lists
 * isn't queued. Where the queue has stood for patience_ms, its reader is slow, and the session is
 * closed with 4000. Where it has not, a burst came in faster than any socket could be written: then
 * the member reads the log from where it was, at its own pace, and the session is closed only if
 * its queue is still above the mark after patience_ms. Frames of our own can't be read again, so
 * for them the session is closed either way.
 *
 * What a replay has put into the queue doesn't count there, nor what the connection holds (one
 * chunk, or one packet): a replay only reads on while what is queued and held, whoever put it
 * there, is below low_water (pending lists apart, for only reading on can empty them). So a replay
 * is bounded by itself and can't close a client, however long it is or however large an entry.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "base/loop.h"
#include "base/metrics.h"
#include "base/packet.h"
#include "protocol/codes.h"
#include "protocol/str.h"
#include "roomlog/roomlog.h"

struct registry; /* room/registry.h */
struct session;

struct session_limits {
    size_t high_water;      /* queued bytes above which a socket is closed with 4000 */
    size_t low_water;       /* below which a replay reads its next page */
    size_t pending_bytes;   /* pending lists of one session, all rooms together */
    size_t max_rooms;       /* of one session */
    size_t max_publishes;   /* of one session, not yet answered */
    size_t max_frame_bytes; /* of one message from the client; the edge holds to it too */
    size_t packet_budget;   /* real bytes of all packets of the worker */
    unsigned max_errors;    /* error frames before 4400 */
    uint64_t heartbeat_ms;  /* between two pings, jittered by a tenth; two missed cut the socket */
    uint64_t close_ms;      /* from the close frame to the abort */
    uint64_t
        patience_ms; /* how long a queue must have stood before it says that its reader is slow */
    uint64_t joins_a_second; /* of one session, on average; 0: unlimited. Twice max_rooms at once */
};

/* What all sessions of a worker share. The fields are session.c's after session_host_init. */
struct session_host {
    struct loop *loop;
    struct roomlog *log;
    struct registry *registry;
    struct metrics *metrics;
    struct packet_account *packets; /* the registry's: entries and frames together */
    struct session_limits limits;
    struct list sessions;
    size_t count; /* sessions that exist, closing ones included */
    struct loop_task shed;
    struct loop_task drain;
    uint64_t drain_spread_ms;
    bool draining;
};

/* All must outlive the host. */
void session_host_init(struct session_host *host, struct loop *loop, struct roomlog *log,
                       struct registry *registry, struct packet_account *packets,
                       struct metrics *metrics, const struct session_limits *limits);
/* No session may be left: asserted. */
void session_host_fini(struct session_host *host);

/* Says `bye` (reason "restart", retry_after_ms drawn for each socket from [0, spread_ms]) and
 * closes with 1012 every session, in slices over several turns, and each that opens from now on. */
void session_host_drain(struct session_host *host, uint64_t spread_ms);

/* What a connection does for its session. Both are called at any time, also from inside the
 * connection's calls into the session; neither may call back into it at once. */
struct session_conn_ops {
    /* There is something to take. Repeated calls are harmless. */
    void (*want_write)(void *conn);
    /* Cut the connection at once (RST, nothing flushed); session_closed follows, in a later turn.
     */
    void (*abort)(void *conn);
};

/* What is known of a client at the upgrade. Borrowed for the call. */
struct session_hello {
    struct str peer;   /* address, for the logs */
    struct str room;   /* of the URL's ?room=, decoded; absent: none */
    struct str cursor; /* of &cursor= */
    struct str last;   /* of &last= */
    struct str state;  /* of &state= */
};

/* Queues `welcome`, and joins the URL's room. Returns the session, which the host owns: it lives
 * until session_closed. Keeps conn until then. */
struct session *session_open(struct session_host *host, const struct session_hello *hello,
                             const struct session_conn_ops *ops, void *conn);

/* A whole text message. Anything: bad UTF-8 closes with 1007 (RFC 6455 section 8.1), what isn't a
 * frame is answered. */
void session_receive(struct session *s, struct str text);
/* A pong, or anything else that shows that the peer lives (session_receive implies it). */
void session_alive(struct session *s);
/* The connection saw something that ends the visit: CLOSE_TOO_BIG, CLOSE_BAD_FRAME (a binary
 * message), CLOSE_PROTOCOL_ERROR. Counted; harmless where already closing. */
void session_fail(struct session *s, enum code_close code);

/* Wire length of the next packet to send; 0: there is none. */
size_t session_next_len(const struct session *s);
/* Takes the next packet out. Returns owned. There must be one. */
struct packet *session_take(struct session *s);
/* After each round of writing: how many bytes the connection still holds that the kernel has not
 * taken (0 where everything went). Replays go on from here. */
void session_wrote(struct session *s, size_t held);
/* Is the session on its way out? Then the connection has no need to answer the peer's close frame.
 */
bool session_closing(const struct session *s);

/* The connection is gone, for whatever reason. The session must not be used any more, nor will it
 * use conn. */
void session_closed(struct session *s);

#endif
