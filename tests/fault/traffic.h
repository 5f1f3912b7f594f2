/* traffic.h - rooms that are written to, followed and read all the time, while a test breaks what
 * they are kept in.
 *
 * Each room has one writer, who has one append under way at a time: the texts are 0, 1, 2, ... so
 * that the log itself shows what is missing, double or out of order. An append that was refused or
 * whose outcome is unknown is made again under the same ref. The witness of each room fails the
 * test where what it hears isn't chained.
 */
#ifndef TESTS_FAULT_TRAFFIC_H
#define TESTS_FAULT_TRAFFIC_H

#include "base/metrics.h"
#include "tests/contract/witness.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"

enum { TRAFFIC_ROOMS_MAX = 64, TRAFFIC_NAME_MAX = 24 };

struct traffic_room {
    char name[TRAFFIC_NAME_MAX];
    struct witness_follower follower;
    struct witness_append append;
    bool busy, muted;   /* muted: no more is written */
    uint64_t again_ms;  /* no append before */
    unsigned long next; /* the text to be written */
    unsigned long refused, unknown;
    struct stream_id last;      /* of what was acknowledged */
    struct witness_read joiner; /* pages from the beginning, again and again */
    bool joining;
    unsigned long joined; /* whole walks */
};

struct traffic {
    struct poll_loop *loop;
    struct roomlog *log;
    struct traffic_room room[TRAFFIC_ROOMS_MAX];
    size_t count;
    bool refs; /* appends have one */
    bool stopping;
    uint64_t pace_ms; /* between two appends of one room */
    struct loop_timer timer;
};

/* A log on the Redis of this URL, whose attempts and commands end soon. Returns owned. */
struct roomlog *traffic_log(struct poll_loop *loop, struct metrics *metrics, const char *url);

/* Who has this key's stream now. */
typedef struct redis_server *(*traffic_server_fn)(const char *key);

/* count rooms, each followed from its beginning; nothing is written yet. */
void traffic_open(struct traffic *t, struct poll_loop *loop, struct roomlog *log, size_t count,
                  bool refs);
void traffic_start(struct traffic *t);
/* Until nothing is under way, each append acknowledged. */
void traffic_stop(struct traffic *t, uint64_t limit_ms);
/* Lets everybody go. */
void traffic_close(struct traffic *t);

/* Until each room that isn't muted has so many more acknowledged appends. */
void traffic_more(struct traffic *t, unsigned long count, uint64_t limit_ms);

/* After stop. The room's log holds what was acknowledged, each text once and in order; its follower
 * has heard exactly that. */
void traffic_check(struct traffic *t, size_t i, traffic_server_fn server_of);
/* As above, but a failover may have lost entries: then the follower was told (broken), and what the
 * log does hold is in order. Returns how many are lost. */
unsigned long traffic_check_lossy(struct traffic *t, size_t i, traffic_server_fn server_of);

#endif
