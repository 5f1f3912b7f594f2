/* roomd-bench - puts a measured load on a room server and audits what every client got. */
#include "bench/cmd.h"

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    switch (options.command) {
    case OPTIONS_FANOUT:
    case OPTIONS_ROOMS:
    case OPTIONS_SLOW:
        return cmd_load(&options);
    case OPTIONS_IDLE:
        return cmd_idle(&options);
    case OPTIONS_REPLAY:
        return cmd_replay(&options);
    case OPTIONS_STORM:
        return cmd_storm(&options);
    case OPTIONS_FLAP:
        return cmd_flap(&options);
    }
    return 2;
}
