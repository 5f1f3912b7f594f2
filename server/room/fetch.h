/* fetch.h - what members that replay wait for: read once for all who want the same, few at a time,
 * and handed out in slices.
 *
 * A fetch is a read of the log, or none where the room's ring is enough, and the members that wait
 * for it. For the whole node at most in_flight are being read or handed out at a time, taken from
 * the rooms in turn: more would make live entries wait behind them. What has come is handed out to
 * a bounded number of members and bytes in one turn of the loop, by turns between fetches, so that
 * ten thousand members who come back to one room hold nobody else up.
 *
 *     IDLE ── asked for ──► ASKED ── the answer came ──► READY ── nobody is left ──► freed
 *      │ ▲── it takes another read ──┘                     ▲
 *      └───────────── no read needed ──────────────────────┘
 *
 * Nobody is left: all were served, or left (an ASKED read is cancelled then).
 *
 * Always true: a fetch has members; at most one that can still be joined is there for each want;
 * and in_flight counts those that are ASKED, or READY with packets.
 */
#ifndef ROOM_FETCH_H
#define ROOM_FETCH_H

#include "base/strmap.h"
#include "room/room.h"
#include "room/snapshot.h"

enum fetch_kind {
    FETCH_PAGE,  /* a page of the log, as `from` says */
    FETCH_STATE, /* the room's state and a page of what came after it; or, where the log can't show
                    that, or the newest are wanted, a page as `from` says */
    FETCH_WARM,  /* the log's newest, for the room's ring */
    FETCH_RING   /* nothing: the ring has it */
};

enum fetch_phase { FETCH_IDLE, FETCH_ASKED, FETCH_READY };

/* What a member wants of its room. Compared as bytes, so it has no gaps. */
struct fetch_want {
    uint64_t room;  /* whose address is this */
    uint64_t epoch; /* the room's */
    uint32_t newest;
    uint8_t kind; /* enum fetch_kind */
    uint8_t from; /* enum roomlog_from */
    uint8_t info; /* 1: and what the log records about itself */
    uint8_t spare;
    struct stream_id after;
};
_Static_assert(sizeof(struct fetch_want) == 4 * sizeof(uint64_t) + 8, "compared as bytes");

struct fetch_limits {
    size_t page_entries;
    size_t page_bytes;
    size_t frame_bytes; /* of a snapshot's frame */
    size_t in_flight;
};

/* The fields from err on are valid once READY; err and those below it only where there was a read.
 */
struct fetch {
    struct fetch_want want;
    struct room *room;
    enum fetch_phase phase;
    struct list link; /* IDLE: in room->fetches; READY: in queue->ready */
    struct list members;
    struct fetch_queue *queue;
    struct roomlog_read read;
    struct roomlog_state state; /* FETCH_STATE: besides read */
    struct snapshot *snapshot;  /* and made of it; NULL until then */
    bool page_first;            /* before the state */
    bool has_page;
    uint64_t epoch;            /* the room's, when it was asked for or made */
    struct stream_id position; /* likewise: how far the feed had come */
    enum rd_err err;
    struct roomlog_page page; /* its entries as packets: */
    struct packet **packets;
};

/* Whoever asks. All run from the loop. */
struct fetch_ops {
    /* An answer came, in the epoch in which it was asked for. Once, before it is handed out. */
    void (*arrived)(struct fetch *fetch, void *arg);
    /* member has been taken out of fetch, which is READY, and may join another. Returns the bytes
     * that it was sent. */
    size_t (*hand_out)(struct fetch *fetch, struct room_member *member, void *arg);
};

struct fetch_queue {
    struct loop *loop;
    struct roomlog *log;
    struct metrics *metrics;
    struct fetch_limits limits;
    const struct fetch_ops *ops;
    void *arg;
    struct strmap wanted; /* want → fetch, where it can still be joined */
    struct list rooms;    /* those with IDLE fetches, in turn */
    struct list ready;
    size_t in_flight;
    struct loop_task pump;
    struct loop_task slice;
    bool slicing;            /* slice is deferred */
    struct loop_timer again; /* runs after the log said that it is busy */
};

/* Keeps all pointers. */
void fetch_queue_init(struct fetch_queue *queue, struct loop *loop, struct roomlog *log,
                      struct metrics *metrics, const struct fetch_limits *limits,
                      const struct fetch_ops *ops, void *arg);
/* No fetch may be left: asserted. */
void fetch_queue_fini(struct fetch_queue *queue);

/* Does anybody wait for this already? */
bool fetch_wanted(const struct fetch_queue *queue, const struct fetch_want *want);
/* Makes member, which waits for nothing, wait for this. */
void fetch_join(struct fetch_queue *queue, struct room_member *member,
                const struct fetch_want *want);
/* Harmless where member waits for nothing. */
void fetch_leave(struct fetch_queue *queue, struct room_member *member);

/* The feed broke since this was asked for: it may be of a log that is no more. */
static inline bool fetch_stale(const struct fetch *fetch)
{
    return fetch->epoch != fetch->room->epoch;
}

#endif
