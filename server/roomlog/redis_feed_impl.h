/* redis_feed_impl.h - what redis_feed.c shares with its lanes.
 *
 * redis_feed.c reads rooms and tells their followers; redis_feed_lane.c knows through which lane a
 * room is read, and what rings there.
 */
#ifndef ROOMLOG_REDIS_FEED_IMPL_H
#define ROOMLOG_REDIS_FEED_IMPL_H

#include "base/strmap.h"
#include "roomlog/redis_feed.h"
#include "roomlog/redis_followers.h"
#include "roomlog/redis_reply.h"

/* A room:
 *
 *            XINFO answered                       last follower gone
 *   STARTING --------------> LIVE ---------------------------------> GONE, freed once its
 *      |                     ^  | not a stream,                      read is answered
 *      |                     |  v or denied
 *      +-- not a stream --> WRONG   a stream that may be read again: LIVE
 *          or denied
 */
enum redis_feed_state {
    REDIS_FEED_STARTING,
    REDIS_FEED_LIVE,
    REDIS_FEED_WRONG,
    REDIS_FEED_GONE,
    REDIS_FEED_STATES
};

struct redis_feed_room {
    struct redis_feed *feed;
    struct redis_feed_lane *lane;
    struct str key; /* owned */
    enum redis_feed_state state;
    struct list link; /* in lane->rooms */
    struct list
        queue;  /* in lane->dirty or later, or denied or vain; alone while it needn't be read */
    bool dirty; /* it is in lane->dirty, and keeps its place there */

    struct redis_followers followers;
    bool busy;              /* an answer is on the stack: not freed meanwhile */
    struct loop_task greet; /* whoever came to a room that is live already */

    struct stream_id cursor; /* up to here everything was delivered */
    bool proofless;          /* the cursor's own entry isn't in the log: only more can tell */
    bool by_script;          /* MULTI was refused just now */
    bool reading;
    bool changed;            /* since the read under way was sent */
    struct stream_id hinted; /* the newest entry that was announced since then */
    bool rung;               /* a bell asks for the next read; */
    bool by_bell;            /* one asked for this read; */
    unsigned vain;           /* so many in a row found nothing, each soon after the one before */
    uint64_t read_ms;        /* when the last read was sent */
    size_t asked;            /* COUNT of the read under way */
    size_t entry_bytes;
    struct redis_command read;
    struct redis_feed_lane *via;   /* of the read under way */
    struct redis_feed_lane *ahead; /* another than `lane`, armed there too; or NULL */
    unsigned redirects;            /* in a row */
};

/* Rooms to be read once the timer has run: all of them, or a few while it is as if none could be.
 */
struct redis_feed_later {
    struct redis_feed *feed;
    struct list rooms;
    struct loop_timer timer;
    uint64_t ms;
    size_t few;  /* SIZE_MAX: always all */
    size_t came; /* since the timer ran last */
};

struct redis_feed_lane {
    struct redis_feed *feed;
    struct list link; /* in feed->lanes */
    struct redis_bell *bell;
    const struct redis_feed_lane_ops *ops;
    void *arg;

    struct list rooms; /* the longest ago audited first */
    size_t count;      /* of these */
    size_t ahead;      /* rooms of other lanes that have gone ahead to this one */
    size_t due;        /* for the next part of an audit, in parts of a room */
    struct list dirty; /* to be read, in this order */
    struct redis_feed_later later;
    size_t reading;
    struct loop_timer tick; /* polls or audits */
    uint64_t polled_ms;     /* when all were to be read last */
};

struct redis_feed {
    struct loop *loop;
    struct metrics *metrics;
    uint64_t poll_ms;

    struct strmap map; /* key to room */
    struct list lanes;
    struct redis_feed_later denied;
    struct redis_feed_later vain;
    struct redis_reply_entries scratch;
};

/* --- redis_feed.c --------------------------------------------------------------------------- */

/* It must be read, or read again. What waits already keeps its place: a sweep that takes longer
 * than poll_ms still comes to the last room. */
void redis_feed_soil(struct redis_feed_room *room);
/* The same, a little later: Redis couldn't just now. */
void redis_feed_soil_soon(struct redis_feed_room *room);
/* For soil_soon. Its lane's. */
void redis_feed_later_init(struct redis_feed_later *later, struct redis_feed *feed);
/* A bell rang for it. */
void redis_feed_ring(struct redis_feed_room *room);

/* Up to its cursor everything was delivered, and nobody knows of more. */
bool redis_feed_settled(const struct redis_feed_room *room);
/* entries come after the cursor, and the one after the other. */
void redis_feed_deliver(struct redis_feed_room *room, struct roomlog_entry *entries, size_t count);
/* Frees a room that nobody needs any more. True: it is gone. */
bool redis_feed_release(struct redis_feed_room *room);

/* Reads it through this lane now. ahead: the room's slot is on its way there, and it is not the
 * room's own lane yet. False: the lane is down. */
bool redis_feed_ask(struct redis_feed_room *room, struct redis_feed_lane *lane, bool ahead);

/* --- redis_feed_lane.c ---------------------------------------------------------------------- */

/* Reads what is dirty, as far as may be. */
void redis_feed_pump(struct redis_feed_lane *lane);

void redis_feed_enter(struct redis_feed_room *room, struct redis_feed_lane *lane);
void redis_feed_leave(struct redis_feed_room *room);
/* Its slot isn't on the way any more. */
void redis_feed_stay_behind(struct redis_feed_room *room);
/* Whoever was asked through `from` named another. */
void redis_feed_redirect(struct redis_feed_room *room, struct redis_feed_lane *from,
                         const struct redis_redirect *redirect);

#endif
