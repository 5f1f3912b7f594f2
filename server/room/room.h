/* room.h - one room: who is in it, how far its live feed has come, and the fan-out.
 *
 * A room follows its log from the moment it opens. Each new entry is encoded once, and then meets
 * every member: a member that replays holds it in its pending list; a live one gets it where it
 * chains to the last that this member was sent, and is sent back to reading the log where it
 * doesn't.
 *
 *      OUT ── join ──► REPLAYING ◄── broken, or an entry that doesn't chain ──┐
 *       ▲                  └────────── the seam (replay.h) ──────────► LIVE ──┘
 *       └───────────────────────────── leave ───────────────────────────┘
 *
 * Always true: a member is sent ids that only grow, between two resyncs; what it is sent chains
 * (each entry's prev is the id sent before it), so nothing is missing in between.
 *
 * The room knows neither the registry that holds it nor the replay that reads for it: both
 * listen to it through struct room_hooks.
 */
#ifndef ROOM_ROOM_H
#define ROOM_ROOM_H

#include "base/loop.h"
#include "base/metrics.h"
#include "room/pending.h"
#include "room/ring.h"
#include "roomlog/roomlog.h"

struct room;
struct room_member;
struct replay; /* room/replay.h */
struct fetch;  /* room/fetch.h */

enum room_member_state { ROOM_MEMBER_OUT, ROOM_MEMBER_REPLAYING, ROOM_MEMBER_LIVE };

/* What a member's owner is told. All run from the loop. None may join, rejoin or leave from inside,
 * nor anybody else's member: mark it, and do it in a later turn. Packets are borrowed. */
struct room_member_ops {
    /* The join holds. from: the honoured cursor, NULL for a fresh start. Once for each join, or
     * resync or failed instead. */
    void (*joined)(struct room_member *member, const struct stream_id *from,
                   const struct verdict_info *info);
    /* The cursor can't be honoured: a fresh start follows. In place of joined, or at any time. */
    void (*resync)(struct room_member *member, enum verdict why);
    /* One frame of a snapshot, after joined or resync, before the entries. Taken like a replayed
     * entry. */
    void (*snapshot)(struct room_member *member, struct packet *p);
    /* False, of a live entry only: not taken now, read it from the log later. Then member goes from
     * LIVE to REPLAYING. */
    bool (*entry)(struct room_member *member, struct packet *p, bool replayed);
    /* What comes now is as it happens. cursor: where the member stands. Once after each joined or
     * resync: a live member that had to read the log again in between goes on without a word. */
    void (*live)(struct room_member *member, struct stream_id cursor, uint64_t replayed);
    /* The log could not answer: the member is out already, and may be freed from inside. */
    void (*failed)(struct room_member *member, struct str room, enum rd_err err);
    void (*signal)(struct room_member *member, struct packet *p);
    /* May the replay read another page for this member? Where not, replay_resume comes later. */
    bool (*may_read)(struct room_member *member);
};

/* How a join begins. */
struct room_start {
    enum roomlog_from from;
    struct stream_id after; /* ROOMLOG_AFTER: its cursor */
    uint32_t
        newest; /* bounds a fresh start, now (ROOMLOG_NEWEST) or after a resync; 0: unbounded */
    bool state; /* each fresh start begins with a snapshot of the room's state */
};

/* What replay.c keeps of a member that replays. */
struct room_member_replay {
    struct replay *owner;
    struct list link;       /* in a fetch, or in the room's waiting list */
    struct fetch *fetch;    /* what it waits for; NULL: none */
    enum roomlog_from from; /* how the next page is asked for */
    uint32_t newest;        /* bounds a fresh start; 0: everything retained */
    bool state;             /* each fresh start begins with a snapshot */
    bool answered;          /* joined or resync has gone out for this join */
    bool announced;         /* and live has, after that */
    bool doubts_ring;       /* the next page is the log's, whatever the ring holds */
    uint64_t replayed;      /* entries sent since then */
    struct loop_timer retry;
};

/* Embedded in whoever joins, who fills in ops and budget, zeroes the rest, and keeps it until it is
 * OUT. */
struct room_member {
    const struct room_member_ops *ops;
    struct pending_budget *budget;
    enum room_member_state state;
    struct room *room; /* NULL: OUT */
    struct list link;
    struct stream_id last; /* the last id sent, or the cursor that it began from */
    struct pending pending;
    struct room_member_replay replay;
};

/* Who listens to a room; arg is theirs. */
struct room_hooks {
    /* The feed holds: replays may begin. Once. */
    void (*started)(struct room *room, void *arg);
    /* This member went from LIVE to REPLAYING: it must read the log after last. */
    void (*behind)(struct room *room, struct room_member *member, void *arg);
    /* The last member has left. */
    void (*emptied)(struct room *room, void *arg);
};

/* What all rooms of a worker share. */
struct room_common {
    struct roomlog *log;
    struct packet_account *packets;
    struct metrics *metrics;
    struct ring_pool *rings;
};

struct room {
    struct roomlog_follower follower;
    struct roomlog *log;
    struct packet_account *packets;
    struct metrics *metrics;
    const struct room_hooks *hooks;
    void *hooks_arg;
    struct list members;
    size_t member_count;
    bool started;
    struct stream_id position; /* how far the live feed has come; valid once started */
    uint64_t epoch;   /* grows each time the feed breaks: positions of two epochs don't compare */
    struct ring ring; /* the newest entries, up to position */
    /* Places of the registry and of the replay in the rooms that they hold. */
    struct list registry_link;
    struct loop_timer linger;
    struct loop_timer start_limit;
    struct list fetch_link;
    struct list fetches; /* those that were not yet asked for */
    struct list waiting; /* members that wait for the feed to start */
    size_t name_len;
    char name[];
};

/* Returns owned; follows the log at once. Copies name and common, keeps what they point at, and
 * hooks. */
struct room *room_create(struct str name, const struct room_common *common,
                         const struct room_hooks *hooks, void *hooks_arg);
/* Nobody may be in it: asserted. */
void room_destroy(struct room *room);

static inline struct str room_name(const struct room *room)
{
    return (struct str){room->name, room->name_len};
}

/* OUT → REPLAYING. From here on nothing new is missed: it waits in member's pending list. */
void room_enter(struct room *room, struct room_member *member);
/* LIVE or REPLAYING → REPLAYING, with an empty pending list: a rejoin. */
void room_restart(struct room_member *member);
/* REPLAYING → LIVE. Its pending list must be empty: asserted. */
void room_go_live(struct room_member *member);
/* Any → OUT; lets go of the pending list. */
void room_exit(struct room_member *member);

/* To every member but sender (NULL: to all). */
void room_signal(struct room *room, const struct room_member *sender, struct packet *p);

#endif
