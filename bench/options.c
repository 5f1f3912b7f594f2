#include "bench/options.h"

#include "bench/die.h"
#include "bench/option_table.h"
#include "bench/payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *what;
    struct options defaults;
} COMMANDS[] = {
    [OPTIONS_FANOUT] = {"fanout",
                        "sockets in one room, publishes at a fixed rate",
                        {.sockets = 1000, .rooms = 1, .rate = 20, .seconds = 5}},
    [OPTIONS_ROOMS] = {"rooms",
                       "the same over many rooms",
                       {.sockets = 1000, .rooms = 100, .rate = 200, .seconds = 5}},
    [OPTIONS_IDLE] = {"idle",
                      "sockets that joined and do nothing: memory for each, CPU of all",
                      {.sockets = 1000, .rooms = 1, .rate = 0, .seconds = 3}},
    [OPTIONS_SLOW] =
        {"slow",
         "fanout in which some sockets never read: what they get, what the others feel",
         {.sockets = 200, .rooms = 1, .rate = 400, .seconds = 6, .stalled = 5}},
    [OPTIONS_REPLAY] = {"replay",
                        "sockets that join full rooms from the beginning",
                        {.sockets = 100, .rooms = 1, .rate = 0, .seconds = 1, .entries = 1000}},
    [OPTIONS_STORM] =
        {"storm",
         "a whole room's sockets are cut and come back, others go on publishing",
         {.sockets = 1000, .others = 100, .rooms = 11, .rate = 200, .seconds = 5, .entries = 20}},
    [OPTIONS_FLAP] = {"flap",
                      "sockets are cut at random and come back at once, while others publish",
                      {.sockets = 500, .rooms = 20, .rate = 500, .seconds = 10, .flaps = 50}},
};

enum { COMMAND_COUNT = sizeof(COMMANDS) / sizeof(COMMANDS[0]) };

/* One table for parsing and for --help. */
static const struct option_row ROWS[] = {
#define FIELD(field) offsetof(struct options, field)
    {"url", OPTION_TEXT, FIELD(url), 0, 0,
     "ws://host:port/v1/ws, or unix:/path/to/socket [ws://127.0.0.1:8080/v1/ws]"},
    {"sockets", OPTION_COUNT, FIELD(sockets), 1, 1000000, "clients"},
    {"rooms", OPTION_COUNT, FIELD(rooms), 1, 1000000, "rooms the clients are spread over"},
    {"rate", OPTION_REAL, FIELD(rate), 0, 1000000, "publishes a second, over all rooms"},
    {"burst", OPTION_COUNT, FIELD(burst), 1, 10000,
     "publishes that are due at the same moment, in one room [1]"},
    {"size", OPTION_COUNT, FIELD(size), PAYLOAD_MIN, PAYLOAD_MAX,
     "bytes of data in each publish [150]"},
    {"seconds", OPTION_REAL, FIELD(seconds), 0.1, 86400, "how long to publish"},
    {"stalled", OPTION_COUNT, FIELD(stalled), 0, 1000000,
     "slow: of the clients, how many never read [5]"},
    {"wake", OPTION_REAL, FIELD(wake), 0, 86400,
     "slow: seconds after which they do read [at the end]"},
    {"entries", OPTION_COUNT, FIELD(entries), 1, 10000000,
     "replay: entries put into each room first [1000]; storm: published while they are away [20]"},
    {"others", OPTION_COUNT, FIELD(others), 0, 1000000,
     "storm: sockets in the other rooms, beside --sockets in the first [100]"},
    {"distinct", OPTION_FLAG, FIELD(distinct), 0, 0,
     "storm: sockets are cut between the entries, so that they come back with many cursors"},
    {"flaps", OPTION_REAL, FIELD(flaps), 0.1, 100000, "flap: sockets cut a second"},
    {"pid", OPTION_COUNT, FIELD(pid), 1, 4194304,
     "the server's process: reports its CPU and memory"},
    {"redis-pid", OPTION_COUNT, FIELD(redis_pid), 1, 4194304,
     "the process of the Redis behind the server: reports its CPU"},
    {"redis", OPTION_TEXT, FIELD(redis), 0, 0,
     "storm: URL of that Redis: counts its XRANGEs, and finds its process"},
    {"cpu", OPTION_COUNT, FIELD(cpu), 0, 1023, "run on this CPU only"},
    {"json", OPTION_FLAG, FIELD(json), 0, 0, "one JSON object instead of text"},
#undef FIELD
};

enum { ROW_COUNT = sizeof(ROWS) / sizeof(ROWS[0]) };

const char *options_command_name(enum options_command command)
{
    return COMMANDS[command].name;
}

static _Noreturn void help(void)
{
    puts("usage: roomd-bench COMMAND [--OPTION VALUE]...\n\nCommands:");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const struct options *d = &COMMANDS[i].defaults;
        printf("  %-8s %s\n           [--sockets %u --rooms %u --rate %g --seconds %g]\n",
               COMMANDS[i].name, COMMANDS[i].what, d->sockets, d->rooms, d->rate, d->seconds);
    }
    puts("\nOptions (defaults in brackets):");
    option_table_print(ROWS, ROW_COUNT);
    puts("\nExit status: 0 all is well; 1 entries were lost, doubled or out of order;\n"
         "2 the command line is wrong; 3 the run failed or the server refused part of it.\n"
         "bench/README.md says what each number means.");
    exit(DIE_OK);
}

static struct options defaults_of(const char *command)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i].name, command) != 0)
            continue;
        struct options options = COMMANDS[i].defaults;
        options.command = (enum options_command)i;
        options.url = "ws://127.0.0.1:8080/v1/ws";
        options.burst = 1;
        options.size = 150;
        options.cpu = -1;
        return options;
    }
    die(DIE_USAGE, "unknown command \"%s\"; --help lists them", command);
}

static void check_together(const struct options *options)
{
    if (options->command == OPTIONS_STORM) {
        if (options->rooms < 2 && options->others > 0)
            die(DIE_USAGE, "the others want rooms of their own: --rooms counts the crowd's too");
    } else if (options->rooms > options->sockets)
        die(DIE_USAGE, "%u rooms can't be filled by %u sockets", options->rooms, options->sockets);
    if (options->command == OPTIONS_FANOUT && options->rooms != 1)
        die(DIE_USAGE, "fanout has one room; use the command rooms for more");
    if (options->command == OPTIONS_SLOW && options->stalled >= options->sockets)
        die(DIE_USAGE, "somebody must read: --stalled must be below --sockets");
    bool publishes = options->command != OPTIONS_IDLE && options->command != OPTIONS_REPLAY;
    if (publishes && options->rate * options->seconds < options->burst)
        die(DIE_USAGE, "--rate times --seconds is less than one burst: nothing would be published");
}

struct options options_parse(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        help();
    struct options options = defaults_of(argv[1]);
    if (option_table_parse(ROWS, ROW_COUNT, &options, argc, argv, 2))
        help();
    check_together(&options);
    return options;
}
