#include "bench/options.h"

#include "bench/die.h"
#include "bench/payload.h"

#include <errno.h>
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
};

enum { COMMAND_COUNT = sizeof(COMMANDS) / sizeof(COMMANDS[0]) };

enum kind { TEXT, COUNT, REAL, FLAG };

/* One table for parsing and for --help. */
static const struct option_row {
    const char *name;
    enum kind kind;
    size_t offset;
    double min, max;
    const char *help;
} ROWS[] = {
#define FIELD(field) offsetof(struct options, field)
    {"url", TEXT, FIELD(url), 0, 0,
     "ws://host:port/v1/ws, or unix:/path/to/socket [ws://127.0.0.1:8080/v1/ws]"},
    {"sockets", COUNT, FIELD(sockets), 1, 1000000, "clients"},
    {"rooms", COUNT, FIELD(rooms), 1, 1000000, "rooms the clients are spread over"},
    {"rate", REAL, FIELD(rate), 0, 1000000, "publishes a second, over all rooms"},
    {"burst", COUNT, FIELD(burst), 1, 10000,
     "publishes that are due at the same moment, in one room [1]"},
    {"size", COUNT, FIELD(size), PAYLOAD_MIN, PAYLOAD_MAX, "bytes of data in each publish [150]"},
    {"seconds", REAL, FIELD(seconds), 0.1, 86400, "how long to publish"},
    {"stalled", COUNT, FIELD(stalled), 0, 1000000, "slow: of the clients, how many never read [5]"},
    {"wake", REAL, FIELD(wake), 0, 86400, "slow: seconds after which they do read [at the end]"},
    {"entries", COUNT, FIELD(entries), 1, 10000000,
     "replay: entries put into each room first [1000]"},
    {"pid", COUNT, FIELD(pid), 1, 4194304, "the server's process: reports its CPU and memory"},
    {"cpu", COUNT, FIELD(cpu), 0, 1023, "run on this CPU only"},
    {"json", FLAG, FIELD(json), 0, 0, "one JSON object instead of text"},
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
    for (int i = 0; i < ROW_COUNT; i++)
        printf("  --%-8s %s\n", ROWS[i].name, ROWS[i].help);
    puts("\nExit status: 0 all is well; 1 entries were lost, doubled or out of order;\n"
         "2 the command line is wrong; 3 the run failed or the server refused part of it.\n"
         "bench/README.md says what each number means.");
    exit(DIE_OK);
}

static double parse_number(const struct option_row *row, const char *text)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(value >= row->min && value <= row->max) ||
        (row->kind == COUNT && value != (double)(uint64_t)value))
        die(DIE_USAGE, "--%s wants a%s number from %.10g to %.10g, not \"%s\"", row->name,
            row->kind == COUNT ? " whole" : "", row->min, row->max, text);
    return value;
}

/* Every field of kind COUNT is 32 bits wide, pid and cpu included. */
_Static_assert(sizeof(pid_t) == sizeof(unsigned) && sizeof(int) == sizeof(unsigned), "see store");

static void store(struct options *options, const struct option_row *row, const char *value)
{
    char *field = (char *)options + row->offset;
    double number = row->kind == COUNT || row->kind == REAL ? parse_number(row, value) : 0;
    unsigned count = (unsigned)number;
    bool yes = true;
    switch (row->kind) {
    case TEXT:
        memcpy(field, &value, sizeof(value));
        break;
    case COUNT:
        memcpy(field, &count, sizeof(count));
        break;
    case REAL:
        memcpy(field, &number, sizeof(number));
        break;
    case FLAG:
        memcpy(field, &yes, sizeof(yes));
        break;
    }
}

static const struct option_row *find_row(const char *name, size_t len)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (strlen(ROWS[i].name) == len && memcmp(ROWS[i].name, name, len) == 0)
            return &ROWS[i];
    die(DIE_USAGE, "unknown option --%.*s; --help lists them", (int)len, name);
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
    if (options->rooms > options->sockets)
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
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            help();
        if (strncmp(argv[i], "--", 2) != 0)
            die(DIE_USAGE, "\"%s\" is no option; --help lists them", argv[i]);
        const char *name = argv[i] + 2;
        const char *equals = strchr(name, '=');
        const struct option_row *row =
            find_row(name, equals != NULL ? (size_t)(equals - name) : strlen(name));
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (row->kind == FLAG && value != NULL)
            die(DIE_USAGE, "--%s takes no value", row->name);
        if (row->kind != FLAG && value == NULL) {
            if (++i == argc)
                die(DIE_USAGE, "--%s wants a value", row->name);
            value = argv[i];
        }
        store(&options, row, value);
    }
    check_together(&options);
    return options;
}
