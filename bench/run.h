/* run.h - one load run: the loop, the rooms, the publisher, the clients, and waiting for them. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include "bench/fleet.h"
#include "bench/options.h"
#include "bench/poller.h"
#include "bench/proc.h"
#include "bench/publisher.h"
#include "bench/room_set.h"
#include "bench/target.h"

struct run {
    const struct options *options;
    struct target target;
    struct poller poller;
    struct ws_conn_io io;
    struct room_set set;
    struct publisher pub;
    struct fleet fleet;
    bool sample_memory; /* keeps peak_pss_kib while waiting */
    uint64_t peak_pss_kib;
    bool on_terminal;
    uint64_t shown_ns;
    pid_t redis_pid; /* 0: not known */
};

/* What the server and this tool used between two moments. */
struct run_usage {
    uint64_t wall_ns;
    struct proc_cpu server; /* zeros where no pid was given */
    uint64_t redis_ns;      /* CPU of Redis; 0 where its pid isn't known */
    uint64_t own_ns;        /* CPU of this process */
    uint64_t applied;       /* entries that readers took */
    uint64_t published;
};

typedef bool (*run_done_fn)(const struct run *run);

/* Resolves the URL and connects the publisher. Keeps options. Ends the process where that can't be
 * done. */
void run_init(struct run *run, const struct options *options);
void run_fini(struct run *run);

/* Turns the loop until done says so (asked every few milliseconds). False after the seconds given.
 */
bool run_wait(struct run *run, run_done_fn done, double seconds);

/* The same, but gives up only when nothing has arrived for that long. */
bool run_wait_while_moving(struct run *run, run_done_fn done, double seconds);

/* Connects the fleet, and ends the process if a socket fails. Returns the seconds it took. */
double run_connect(struct run *run, const struct fleet_plan *plan);

/* Everything used so far; the difference of two is what lies between. */
struct run_usage run_usage_now(const struct run *run);
struct run_usage run_usage_between(const struct run_usage *from, const struct run_usage *to);

/* Is all that was sent answered and delivered? */
bool run_is_settled(const struct run *run);

/* Is every client live, or gone? Ends the process if one was refused or ended. */
bool run_is_live(const struct run *run);
void run_require_live(struct run *run);

#endif
