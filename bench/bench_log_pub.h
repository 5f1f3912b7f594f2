/* bench_log_pub.h - a process of its own that publishes, so that its CPU isn't the reader's.
 *
 * Open loop: publishes are due in small batches, one each millisecond of an absolute schedule,
 * whatever Redis does meanwhile, and each carries when it was due. Rooms are drawn at random, the
 * same ones in each run. What it counts lies in memory that both processes see.
 *
 * Plain: XADD, pipelined over one connection. As a script: appends of a roomlog of its own, with a
 * ref, as roomd publishes.
 *
 * Always true: it ends with the process that started it.
 */
#ifndef BENCH_BENCH_LOG_PUB_H
#define BENCH_BENCH_LOG_PUB_H

#include "bench/bench_log_options.h"
#include "bench/hist.h"

#include <stdatomic.h>

enum { BENCH_LOG_PUB_ROOM_MAX = 40, BENCH_LOG_PUB_REASON_MAX = 160 };

/* Seen by both; written by the publisher only, but for `each` while it is idle. */
struct bench_log_pub_shared {
    _Atomic uint64_t sent; /* publishes, all together */
    _Atomic bool failed;   /* Redis refused one; error says why */
    char error[BENCH_LOG_PUB_REASON_MAX];
    struct hist late; /* from due to sent, of the newest plan */
    uint64_t each[];  /* publishes of each room: the number of its newest */
};

struct bench_log_pub_plan {
    uint64_t fill;       /* so many to each room at once, untimed; 0: by the clock, as below */
    unsigned fill_rooms; /* the first so many; 0: all */
    uint64_t start_ns;   /* the first batch is due */
    double seconds;
};

struct bench_log_pub {
    const struct bench_log_options *options;
    uint32_t run;
    struct bench_log_pub_shared *shared;
    size_t shared_len;
    pid_t pid;
    int to_fd, from_fd; /* plans go out, and one byte comes back for each that is done */
    bool busy;
};

/* Starts the process. Call it before anything else is opened. Keeps options. */
void bench_log_pub_start(struct bench_log_pub *pub, const struct bench_log_options *options,
                         uint32_t run);
void bench_log_pub_stop(struct bench_log_pub *pub);

/* Begins a plan. The one before must be done: asserted. */
void bench_log_pub_begin(struct bench_log_pub *pub, const struct bench_log_pub_plan *plan);
/* Was everything sent and answered? Ends the process where a publish failed. */
bool bench_log_pub_done(struct bench_log_pub *pub);
void bench_log_pub_wait(struct bench_log_pub *pub);

/* The data of a publish, of exactly size bytes, numbered as the newest of its room. For whoever
 * publishes beside the process, while that is idle. */
void bench_log_pub_data(const struct bench_log_pub *pub, unsigned room, uint64_t due_ns,
                        uint64_t sent_ns, char *dst, size_t size);

/* The name of a room, as text in dst. Its key is BENCH_LOG_PUB_PREFIX and the name. */
#define BENCH_LOG_PUB_PREFIX "room:"
struct str bench_log_pub_room(uint32_t run, unsigned room, char dst[BENCH_LOG_PUB_ROOM_MAX]);
struct str bench_log_pub_key(uint32_t run, unsigned room, char dst[BENCH_LOG_PUB_ROOM_MAX]);

#endif
