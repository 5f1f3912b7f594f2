/* cmd.h - the commands of roomd-bench. Each runs to its end, prints its report, and returns the
 * exit status. */
#ifndef BENCH_CMD_H
#define BENCH_CMD_H

#include "bench/options.h"

/* fanout, rooms and slow: publishes at a fixed rate to clients that are live. */
int cmd_load(const struct options *options);

/* idle: what clients cost that only stay. */
int cmd_idle(const struct options *options);

/* storm: a whole room comes back at once. */
int cmd_storm(const struct options *options);

/* flap: sockets that come and go all the time. */
int cmd_flap(const struct options *options);

/* replay: how fast full rooms are handed to clients that join. */
int cmd_replay(const struct options *options);

#endif
