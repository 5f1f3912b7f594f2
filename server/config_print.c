#include "config.h"

#include "config_options.h"

#include <inttypes.h>
#include <string.h>

enum { HELP_COLUMN = 6, LINE_MAX_LEN = 96, URL_MAX = 1024 };

/* --- help ----------------------------------------------------------------------------------- */

static void print_wrapped(FILE *to, const char *text)
{
    int at = HELP_COLUMN;
    (void)fprintf(to, "%*s", HELP_COLUMN, "");
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");
        if (at != HELP_COLUMN && at + 1 + len > LINE_MAX_LEN) {
            (void)fprintf(to, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        if (at != HELP_COLUMN)
            at += fprintf(to, " ");
        at += fprintf(to, "%.*s", len, text);
        text += len;
        text += strspn(text, " ");
    }
    (void)fprintf(to, "\n");
}

/* "  --high-water SIZE  (1MiB; 1KiB to 1GiB)" */
static void print_option(FILE *to, const struct config_option *o)
{
    char min[CONFIG_VALUE_TEXT_MAX];
    char max[CONFIG_VALUE_TEXT_MAX];
    (void)fprintf(to, "  --%s %s", o->name, o->argument);
    if (o->kind == CONFIG_NUMBER)
        (void)fprintf(to, "  (%s; %s to %s)", o->by_default,
                      config_value_format(o->min, o->unit, min),
                      config_value_format(o->max, o->unit, max));
    else if (o->by_default != NULL)
        (void)fprintf(to, "  (%s)", o->by_default);
    (void)fprintf(to, "\n");
    print_wrapped(to, o->help);
}

void config_print_help(FILE *to)
{
    (void)fprintf(to,
                  "usage: roomd [options]\n\n"
                  "A WebSocket room server: every event of a room goes into a log, and a client\n"
                  "that comes back gets what it missed.\n\n"
                  "Each option may be given as a flag (--high-water 1MiB), in the environment\n"
                  "(ROOMD_HIGH_WATER=1MiB) or in the file (high-water = 1MiB); the first that is\n"
                  "there counts, in this order. Sizes: 64KiB, 1MiB. Times: 250ms, 5s, 10m. Behind\n"
                  "each stand its default and its range.\n\n"
                  "  --config FILE\n      read options from FILE\n"
                  "  --check-config\n      check all options, print what counts, and end\n"
                  "  --version\n      print the version and end\n"
                  "  --help\n      print this and end\n\n");
    for (size_t i = 0; i < config_options_count; i++)
        print_option(to, &config_options[i]);
}

/* --- values --------------------------------------------------------------------------------- */

static void print_choice(FILE *to, const struct config_option *o, uint64_t which)
{
    const char *p = o->argument;
    for (; which != 0; which--)
        p += strcspn(p, "|") + 1;
    (void)fprintf(to, "%s = %.*s\n", o->name, (int)strcspn(p, "|"), p);
}

static void print_text(FILE *to, const struct config_option *o, const char *text)
{
    char redacted[URL_MAX];
    if (text == NULL)
        return;
    config_redact(text, redacted, sizeof(redacted));
    (void)fprintf(to, "%s = %s\n", o->name, redacted);
}

void config_print(FILE *to, const struct config *config)
{
    for (size_t i = 0; i < config_options_count; i++) {
        const struct config_option *o = &config_options[i];
        const void *value = (const char *)config + o->at;
        char text[CONFIG_VALUE_TEXT_MAX];
        switch (o->kind) {
        case CONFIG_TEXT:
            print_text(to, o, *(char *const *)value);
            break;
        case CONFIG_LIST:
            for (size_t k = 0; k < ((const struct config_list *)value)->count; k++)
                (void)fprintf(to, "%s = %s\n", o->name,
                              ((const struct config_list *)value)->items[k]);
            break;
        case CONFIG_CHOICE:
            print_choice(to, o, *(const uint64_t *)value);
            break;
        case CONFIG_NUMBER:
            (void)fprintf(to, "%s = %s\n", o->name,
                          config_value_format(*(const uint64_t *)value, o->unit, text));
            break;
        }
    }
}
