/* options.h - the command line of roomd-bench, checked. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum options_command {
    OPTIONS_FANOUT,
    OPTIONS_ROOMS,
    OPTIONS_IDLE,
    OPTIONS_SLOW,
    OPTIONS_REPLAY,
    OPTIONS_STORM,
    OPTIONS_FLAP
};

struct options {
    enum options_command command;
    const char *url;
    unsigned sockets;
    unsigned rooms;
    double rate;    /* publishes a second, over all rooms; 0: none */
    unsigned burst; /* publishes that are due at the same moment */
    unsigned size;  /* bytes of data */
    double seconds;
    unsigned stalled;  /* slow: sockets that never read */
    double wake;       /* slow: seconds after which they read again; 0: at the end */
    unsigned entries;  /* replay: entries in each room; storm: that the crowd misses */
    unsigned others;   /* storm: sockets in other rooms than the crowd's */
    double flaps;      /* flap: sockets that are cut, a second */
    bool distinct;     /* storm: the crowd comes back with many cursors, not one */
    const char *redis; /* storm: URL of the Redis behind the server; NULL: not asked */
    pid_t redis_pid;   /* Redis' process; 0: not known */
    pid_t pid;         /* the server's; 0: not known */
    int cpu;           /* to run on; -1: any */
    bool json;
};

/* Never returns for --help and faults. The result borrows from argv. */
struct options options_parse(int argc, char **argv);

const char *options_command_name(enum options_command command);

#endif
