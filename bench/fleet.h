/* fleet.h - the clients of a run: connected a few at a time, each a member of one room, each
 * audited.
 *
 * Member i belongs to room i % rooms. The first `stalled` members stop reading once they are live.
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
    const char *cursor; /* what every join asks for */
    bool join_at_open;  /* else fleet_join_all */
};

/* Embedded in the run, zeroed. The counts may be read by anybody. */
struct fleet {
    struct ws_conn_io *io;
    struct room_set *set;
    struct fleet_plan plan;
    struct fleet_member *members;
    unsigned started;
    unsigned open;   /* upgraded so far */
    unsigned live;   /* saw their `live` frame */
    unsigned closed; /* ended by the server, readers */
    unsigned stalled_closed;
    unsigned failed;                          /* never got through the upgrade */
    unsigned trimmed;                         /* joined a room whose log is no longer complete */
    char why[FLEET_WHY_MAX];                  /* the first failure, refusal or end */
    struct fleet_code codes[FLEET_CODES_MAX]; /* of readers */
    struct fleet_code stalled_codes[FLEET_CODES_MAX];

    uint64_t joined_ns;         /* when fleet_join_all was called */
    uint64_t last_ns;           /* when the last entry or `live` arrived, at a reader */
    uint64_t bytes;             /* text received by readers */
    uint64_t refusals;          /* joins rejected, and errors */
    struct audit_totals totals; /* of readers */
    struct audit_totals stalled_totals;
    struct entry_memo memo;
    struct hist latency; /* from due to received: entries of this run at live readers */
    struct hist to_live; /* from fleet_join_all to `live` */
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

/* Stops, or lets go on, the stalled members' reading. */
void fleet_stall(struct fleet *fleet, bool stalled);

/* Has every reader that is still connected got all that was acknowledged in its room? */
bool fleet_is_complete(const struct fleet *fleet);

/* Settles every reader's account. Once, at the end. */
void fleet_audit(struct fleet *fleet);

void fleet_fini(struct fleet *fleet);

#endif
