#include "bench/bench_log_options.h"

#include "bench/bench_log_note.h"
#include "bench/bench_log_sheet.h"
#include "bench/die.h"
#include "bench/option_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL UINT32_MAX /* rooms followed, unless said otherwise */

static const struct {
    const char *name;
    const char *what;
    struct bench_log_options defaults;
} COMMANDS[] = {
    [BENCH_LOG_FEED] = {"feed",
                        "rooms are followed while others publish: latency, CPU, reads, bells",
                        {.rooms = 10000, .rate = 10000, .seconds = 5, .warm = 1, .entries = 5000}},
    [BENCH_LOG_RECONNECT] = {"reconnect",
                             "connections are cut: time until every room was read again",
                             {.rooms = 50000}},
    [BENCH_LOG_REPLAY] = {"replay",
                          "full rooms are read page by page: entries a second, CPU",
                          {.rooms = 50, .entries = 10000}},
    [BENCH_LOG_APPEND] = {"append",
                          "appends, one at a time and pipelined, without and with a ref",
                          {.rooms = 100, .seconds = 2, .in_flight = 1000}},
};

enum { COMMAND_COUNT = sizeof(COMMANDS) / sizeof(COMMANDS[0]) };

static const struct {
    const char *name;
    enum roomlog_redis_live live;
} LIVES[] = {
    {"auto", ROOMLOG_REDIS_AUTO},         {"tracking", ROOMLOG_REDIS_TRACKING},
    {"keyspace", ROOMLOG_REDIS_KEYSPACE}, {"poll", ROOMLOG_REDIS_POLL},
    {"xread", ROOMLOG_REDIS_XREAD},       {"pubsub", ROOMLOG_REDIS_PUBSUB},
};

static const struct option_row ROWS[] = {
#define FIELD(field) offsetof(struct bench_log_options, field)
    {"redis", OPTION_TEXT, FIELD(url), 0, 0, "its URL, as of roomd --redis [redis://127.0.0.1]"},
    {"live", OPTION_TEXT, FIELD(live_name), 0, 0, "as roomd --redis-live [auto]"},
    {"rooms", OPTION_COUNT, FIELD(rooms), 1, 1000000, "rooms"},
    {"followed", OPTION_COUNT, FIELD(followed), 0, 1000000,
     "feed: of these, how many are followed; 0: the cost of XADD alone [all]"},
    {"hot", OPTION_COUNT, FIELD(hot), 0, 1000000,
     "feed: publish to so many of the rooms only [all]"},
    {"rate", OPTION_REAL, FIELD(rate), 1, 1000000, "feed: publishes a second"},
    {"size", OPTION_COUNT, FIELD(size), BENCH_LOG_NOTE_MIN, BENCH_LOG_NOTE_MAX,
     "bytes of data in each publish [150]"},
    {"script", OPTION_FLAG, FIELD(script), 0, 0,
     "feed: publish as roomd does, with a ref, instead of a plain XADD"},
    {"base", OPTION_FLAG, FIELD(base), 0, 0,
     "feed: before each round the same publishes with nobody reading"},
    {"encode", OPTION_FLAG, FIELD(encode), 0, 0, "feed: make the packet of each entry too"},
    {"replayed", OPTION_COUNT, FIELD(replayed), 0, 1000000,
     "feed: replay so many of the rooms meanwhile, without a pause [0]"},
    {"entries", OPTION_COUNT, FIELD(entries), 1, 10000000,
     "replay: entries in each room; feed: in each that is replayed"},
    {"page", OPTION_COUNT, FIELD(page), 1, 10000, "replay: entries a page [500]"},
    {"pages", OPTION_COUNT, FIELD(pages), 1, 1000, "replay: pages in flight [4]"},
    {"in-flight", OPTION_COUNT, FIELD(in_flight), 1, 60000, "append: under way when pipelined"},
    {"seconds", OPTION_REAL, FIELD(seconds), 0.05, 86400, "of each measurement"},
    {"warm", OPTION_REAL, FIELD(warm), 0, 3600, "feed: seconds of publishing before it"},
    {"rounds", OPTION_COUNT, FIELD(rounds), 1, BENCH_LOG_SHEET_ROUNDS, "medians over so many [1]"},
    {"maxlen", OPTION_COUNT, FIELD(maxlen), 0, 1000000000,
     "MAXLEN ~ of each XADD; 0: none [10000]"},
    {"redis-pid", OPTION_COUNT, FIELD(redis_pid), 1, 4194304,
     "the server's process, for its CPU [it is asked, if on this machine]"},
    {"cpu", OPTION_COUNT, FIELD(cpu), 0, 1023, "read on this CPU only"},
    {"publisher-cpu", OPTION_COUNT, FIELD(publisher_cpu), 0, 1023, "publish on this CPU only"},
    {"keep", OPTION_FLAG, FIELD(keep), 0, 0, "leave the rooms in Redis"},
    {"json", OPTION_FLAG, FIELD(json), 0, 0, "one JSON object instead of text"},
#undef FIELD
};

enum { ROW_COUNT = sizeof(ROWS) / sizeof(ROWS[0]) };

const char *bench_log_options_name(enum bench_log_command command)
{
    return COMMANDS[command].name;
}

static _Noreturn void help(void)
{
    puts("usage: roomd-bench-log COMMAND [--OPTION VALUE]...\n\n"
         "Measures roomd's log on Redis alone: no sockets, no rooms in the server.\n\nCommands:");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].what);
    puts("\nOptions (defaults in brackets):");
    option_table_print(ROWS, ROW_COUNT);
    puts("\nExit status: 0 all is well; 1 entries were lost, doubled or out of order;\n"
         "2 the command line is wrong; 3 the run failed.\n"
         "bench/README.md says what each number means.");
    exit(DIE_OK);
}

static struct bench_log_options defaults_of(const char *command)
{
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i].name, command) != 0)
            continue;
        struct bench_log_options options = COMMANDS[i].defaults;
        options.command = (enum bench_log_command)i;
        options.url = "redis://127.0.0.1";
        options.live_name = "auto";
        options.followed = ALL;
        options.size = 150;
        options.page = 500;
        options.pages = 4;
        options.rounds = 1;
        options.maxlen = 10000;
        options.cpu = -1;
        options.publisher_cpu = -1;
        return options;
    }
    die(DIE_USAGE, "unknown command \"%s\"; --help lists them", command);
}

static enum roomlog_redis_live find_live(const char *name)
{
    for (size_t i = 0; i < sizeof(LIVES) / sizeof(LIVES[0]); i++)
        if (strcmp(LIVES[i].name, name) == 0)
            return LIVES[i].live;
    die(DIE_USAGE, "--live: there is no \"%s\"", name);
}

static void check_together(struct bench_log_options *options)
{
    char reason[160];
    options->live = find_live(options->live_name);
    if (!roomlog_redis_url_valid(options->url, reason, sizeof(reason)))
        die(DIE_USAGE, "--redis: %s", reason);
    if (!roomlog_redis_live_valid(options->url, options->live, reason, sizeof(reason)))
        die(DIE_USAGE, "--live: %s", reason);
    bool announced = options->command == BENCH_LOG_FEED && options->script;
    bool listens = options->command == BENCH_LOG_FEED || options->command == BENCH_LOG_RECONNECT;
    if (options->live == ROOMLOG_REDIS_PUBSUB && listens && !announced)
        die(DIE_USAGE, "--live pubsub hears what roomd publishes alone: feed --script");
    if (options->followed == ALL || options->followed > options->rooms)
        options->followed = options->rooms;
    if (options->hot == 0 || options->hot > options->rooms)
        options->hot = options->rooms;
    if (options->replayed > options->rooms)
        options->replayed = options->rooms;
    bool replays = options->command == BENCH_LOG_REPLAY || options->replayed != 0;
    if (replays && options->maxlen != 0 && options->entries > options->maxlen)
        die(DIE_USAGE, "--entries above --maxlen: Redis would cut what is to be replayed");
    if (options->command == BENCH_LOG_FEED && options->rate * options->seconds < 1)
        die(DIE_USAGE, "--rate times --seconds is less than one publish");
}

struct bench_log_options bench_log_options_parse(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        help();
    struct bench_log_options options = defaults_of(argv[1]);
    if (option_table_parse(ROWS, ROW_COUNT, &options, argc, argv, 2))
        help();
    check_together(&options);
    return options;
}
