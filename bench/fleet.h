/* fleet.h - the clients of a run: connected a few at a time, each a member of one room, each
 * audited.
 *
 * Member i belongs to room i % rooms; or, where there is a crowd, the first members to the first
 * room and the others to the other rooms. The first `stalled` members stop reading once they are
 * live.
 *
 * A member can be cut, in any state: it comes back by itself and joins from its cursor, as a client
 * does, and its audit goes on.
 */
#ifndef BENCH_FLEET_H
#define BENCH_FLEET_H

#include "bench/audit.h"
#include "bench/entry_memo.h"
#include "bench/hist.h"
#include "bench/room_set.h"
#include "bench/ws_conn.h"

struct fleet;

struct fleet_member {
    struct ws_conn conn; /* first: ws_conn's pointer is ours */
    struct audit audit;
    struct fleet *fleet;
    struct room_set_room *room;
    unsigned guess; /* for the memo */
    bool stalled;
    bool away; /* cut, and waiting to connect again */
};

enum { FLEET_CODES_MAX = 16, FLEET_WHY_MAX = 128 };

/* How often sockets ended with a code. */
struct fleet_code {
    unsigned code;
    uint64_t count;
};

struct fleet_plan {
    unsigned sockets;
    unsigned stalled;
    unsigned crowd;     /* members in the first room; 0: all rooms are alike */
    double flaps;       /* members that are cut at random, a second */
    const char *cursor; /* what every first join asks for */
    bool join_at_open;  /* else fleet_join_all */
};

/* Embedded in the run, zeroed. The counts may be read by anybody. */
struct fleet {
    struct ws_conn_io *io;
    struct room_set *set;
    struct fleet_plan plan;
    struct fleet_member *members;
    unsigned started;
    unsigned unfinished; /* connecting */
    unsigned open;       /* upgraded so far */
    unsigned live;       /* saw their `live` frame */
    unsigned closed;     /* ended by the server, readers */
    unsigned stalled_closed;
    unsigned failed;                          /* never got through the upgrade */
    unsigned trimmed;                         /* joined a room whose log is no longer complete */
    char why[FLEET_WHY_MAX];                  /* the first failure, refusal or end */
    struct fleet_code codes[FLEET_CODES_MAX]; /* of readers */
    struct fleet_code stalled_codes[FLEET_CODES_MAX];

    unsigned *back; /* members that are away, in a ring of plan.sockets places */
    unsigned back_at, back_count;
    bool hold;    /* those who are away stay away */
    uint64_t cut; /* how often a member was */
    bool flapping;
    uint64_t flap_start_ns;
    uint64_t flapped;
    uint64_t random;

    uint64_t joined_ns;         /* when fleet_join_all was called, or the hold ended */
    uint64_t last_ns;           /* when the last entry or `live` arrived, at a reader */
    uint64_t bytes;             /* text received by readers */
    uint64_t refusals;          /* joins rejected, and errors */
    struct audit_totals totals; /* of readers */
    struct audit_totals stalled_totals;
    struct entry_memo memo;
    struct hist latency; /* from due to received: entries of this run at live readers */
    struct hist to_live; /* from joined_ns to `live` */
};

/* Raises the limit of open files if need be. Keeps io and set. */
void fleet_init(struct fleet *fleet, struct ws_conn_io *io, struct room_set *set,
                const struct fleet_plan *plan);

/* Starts more connections, as far as the window of unfinished ones allows. Called often. */
void fleet_connect_more(struct fleet *fleet);

/* Has every socket been upgraded, or failed? Has every open one gone live, or ended? */
bool fleet_is_open(const struct fleet *fleet);
bool fleet_is_live(const struct fleet *fleet);

void fleet_join_all(struct fleet *fleet);

/* Cuts a member without a word. It comes back once there is room among the unfinished, unless
 * fleet_hold says that all are to stay away. */
void fleet_cut(struct fleet *fleet, unsigned member);
void fleet_hold(struct fleet *fleet, bool hold);

/* Cuts members at random, plan.flaps a second, while fleet->flapping. Called often. */
void fleet_flap(struct fleet *fleet, uint64_t now_ns);

/* Stops, or lets go on, the stalled members' reading. */
void fleet_stall(struct fleet *fleet, bool stalled);

/* Has every reader that is still connected got all that was acknowledged in its room? */
bool fleet_is_complete(const struct fleet *fleet);

/* Settles every reader's account. Once, at the end. */
void fleet_audit(struct fleet *fleet);

void fleet_fini(struct fleet *fleet);

#endif
