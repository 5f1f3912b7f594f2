/* bench_log_options.h - the command line of roomd-bench-log, checked. */
#ifndef BENCH_BENCH_LOG_OPTIONS_H
#define BENCH_BENCH_LOG_OPTIONS_H

#include "roomlog/roomlog_redis.h"

#include <stdbool.h>
#include <sys/types.h>

enum bench_log_command { BENCH_LOG_FEED, BENCH_LOG_RECONNECT, BENCH_LOG_REPLAY, BENCH_LOG_APPEND };

struct bench_log_options {
    enum bench_log_command command;
    const char *url;
    const char *live_name;
    enum roomlog_redis_live live;
    unsigned rooms;
    unsigned followed; /* of them, the first so many */
    unsigned hot;      /* publishes go to so many of them; 0: to all */
    double rate;       /* publishes a second */
    unsigned size;     /* bytes of data */
    double seconds;    /* of one measurement */
    double warm;       /* seconds before it */
    unsigned rounds;
    unsigned replayed;  /* feed: of the rooms, so many are replayed meanwhile */
    unsigned entries;   /* replay: in each room; feed: in each that is replayed */
    unsigned page;      /* replay: entries a page */
    unsigned pages;     /* replay: in flight */
    unsigned in_flight; /* append: pipelined */
    unsigned maxlen;    /* 0: rooms aren't cut */
    pid_t redis_pid;    /* 0: ask Redis */
    int cpu;            /* of the reader; -1: any */
    int publisher_cpu;
    bool script, base, encode, keep, json;
};

/* Never returns for --help and faults. The result borrows from argv. */
struct bench_log_options bench_log_options_parse(int argc, char **argv);

const char *bench_log_options_name(enum bench_log_command command);

#endif
