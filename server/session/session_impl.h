/* session_impl.h - what the files of a session share, and nobody else sees.
 *
 * session.c is the visit and its queue, session_frames.c what frames mean, session_host.c what
 * concerns all sessions of a worker.
 */
#ifndef SESSION_SESSION_IMPL_H
#define SESSION_SESSION_IMPL_H

#include "room/registry.h"
#include "session/limiter.h"
#include "session/outq.h"
#include "session/publish.h"
#include "session/session.h"

enum {
    SESSION_FRAME_MAX = 4096, /* every frame of ours but entries and signals is below */
    SESSION_NAME_LEN = 16
};

enum session_state { SESSION_OPEN, SESSION_CLOSING, SESSION_GONE };

/* A session's place in one room. */
struct session_room {
    struct room_member member;
    struct session *session;
    struct list link; /* in session->rooms */
};

struct session {
    struct session_host *host;
    const struct session_conn_ops *ops;
    void *conn;
    enum session_state state;
    struct list link; /* in host->sessions */
    struct list rooms;
    size_t room_count;
    struct outq outq;
    struct pending_budget pending;
    size_t held;              /* bytes that the connection took and still holds */
    uint64_t queued_since_ms; /* since when the queue has not been empty */
    bool moved;               /* something but a ping was taken since the last heartbeat */
    bool ping_waits;          /* in the queue */
    struct limiter joins;
    struct publish_set publishes;
    unsigned errors;
    unsigned pings_missed;
    struct loop_timer timer; /* OPEN: the next ping; CLOSING: the abort */
    struct loop_timer judge; /* runs after a burst went above high water: is it still there? */
    struct loop_task later;  /* leaves the rooms after a close; frees when GONE */
    char name[SESSION_NAME_LEN + 1];
    char *peer;
};

struct str session_name(const struct session *s);

/* Everything that is queued or held for this client: what a slow client is judged and logged by. */
size_t session_queued_bytes(const struct session *s);
/* May a replay read on? */
bool session_below_low_water(const struct session *s);

/* Queues p, a frame that can't be had again, or closes the session where that is above high water.
 */
void session_push(struct session *s, struct packet *p);
/* Queues p, a live entry of room. False: not now, but the log has it. */
RD_MUST_USE bool session_push_entry(struct session *s, struct packet *p, struct str room);
/* The same for an entry that a replay sends, which is never refused. */
void session_push_replayed(struct session *s, struct packet *p);
/* Queues a frame of ours, at most SESSION_FRAME_MAX bytes. */
void session_push_text(struct session *s, const char *text, size_t len);

/* Closes with this code. */
void session_close(struct session *s, enum code_close code);
/* Closes with 4000; counted as why, logged. */
void session_evict(struct session *s, struct str room, enum metric why);
/* Says bye behind what is queued, and closes with 1012. */
void session_say_bye(struct session *s);

/* session_frames.c */

/* Makes s able to publish. */
void session_frames_init(struct session *s);
/* The room of the URL, as if the client had sent a join. */
void session_frames_hello(struct session *s, const struct session_hello *hello);
/* A text message, valid UTF-8: does what it says, or answers why not. */
void session_frames_handle(struct session *s, struct str text);

/* session_host.c */

/* After a packet was queued: are all of them together above the worker's budget? */
void session_host_check_budget(struct session_host *host);

#endif
