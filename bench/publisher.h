/* publisher.h - the one socket that publishes, by the clock and not by the answers.
 *
 * Open loop: publish k is due at start + k * interval whatever the server does meanwhile, and its
 * payload carries the time it was due, not the time it was sent. So when server or tool stall, the
 * stall is in the latencies of everything that was due in it (no coordinated omission). How late
 * the tool itself was is kept in `late`, so that its own share can be seen.
 *
 * It joins no room. Publishes carry no `ref`; acks are counted for each room.
 */
#ifndef BENCH_PUBLISHER_H
#define BENCH_PUBLISHER_H

#include "bench/hist.h"
#include "bench/room_set.h"
#include "bench/ws_conn.h"

enum { PUBLISHER_WHY_MAX = 128 };

struct publisher_plan {
    double rate;    /* publishes a second, over all rooms; above 0 */
    unsigned burst; /* that many at a time, into one room, then into the next */
    double seconds;
    size_t first_room; /* rooms before it are left out */
};

/* Embedded in the run, zeroed. The counts may be read by anybody. */
struct publisher {
    struct ws_conn conn; /* first: ws_conn's pointer is ours */
    struct poller_source timer;
    struct room_set *set;
    size_t next_room;
    size_t first_room;
    size_t size; /* of data */
    char *frame; /* room for one publish frame */

    uint64_t start_ns;
    double interval_ns;
    unsigned burst;
    uint64_t bursts_sent;
    uint64_t bursts_total;

    uint64_t fill_left; /* see publisher_fill */

    uint64_t sent;
    uint64_t acked;
    uint64_t rejected;
    uint64_t unsent; /* were due, but too much waited for the socket already */
    uint64_t breaches;
    char first_rejection[PUBLISHER_WHY_MAX];
    struct hist late; /* from due to sent */
};

/* Connects. Keeps io and set. */
void publisher_open(struct publisher *pub, struct ws_conn_io *io, struct room_set *set,
                    size_t size);

/* Is it there, and does it still wait for an answer? */
bool publisher_is_open(const struct publisher *pub);
bool publisher_is_quiet(const struct publisher *pub);

/* Begins to put `each` untimed entries into every room, some at a time, as fast as acks come back.
 * Done when quiet. */
void publisher_fill(struct publisher *pub, uint64_t each);

/* Publishes one untimed entry into this room, now. */
void publisher_put(struct publisher *pub, size_t room);

/* Begins to publish as planned. */
void publisher_start(struct publisher *pub, const struct publisher_plan *plan);

/* Was everything that was planned sent? */
bool publisher_is_done(const struct publisher *pub);

/* Sends what is due. Called often; the timer calls it too. */
void publisher_pump(struct publisher *pub);

void publisher_fini(struct publisher *pub);

#endif
