#include "bench/option_table.h"

#include "bench/die.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static double parse_number(const struct option_row *row, const char *text)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(value >= row->min && value <= row->max) ||
        (row->kind == OPTION_COUNT && value != (double)(uint64_t)value))
        die(DIE_USAGE, "--%s wants a%s number from %.10g to %.10g, not \"%s\"", row->name,
            row->kind == OPTION_COUNT ? " whole" : "", row->min, row->max, text);
    return value;
}

_Static_assert(sizeof(pid_t) == sizeof(unsigned) && sizeof(int) == sizeof(unsigned), "see store");

static void store(void *options, const struct option_row *row, const char *value)
{
    char *field = (char *)options + row->offset;
    bool numeric = row->kind == OPTION_COUNT || row->kind == OPTION_REAL;
    double number = numeric ? parse_number(row, value) : 0;
    unsigned count = (unsigned)number;
    bool yes = true;
    switch (row->kind) {
    case OPTION_TEXT:
        memcpy(field, &value, sizeof(value));
        break;
    case OPTION_COUNT:
        memcpy(field, &count, sizeof(count));
        break;
    case OPTION_REAL:
        memcpy(field, &number, sizeof(number));
        break;
    case OPTION_FLAG:
        memcpy(field, &yes, sizeof(yes));
        break;
    }
}

static const struct option_row *find_row(const struct option_row *rows, size_t count,
                                         const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    die(DIE_USAGE, "unknown option --%.*s; --help lists them", (int)len, name);
}

bool option_table_parse(const struct option_row *rows, size_t count, void *options, int argc,
                        char **argv, int from)
{
    for (int i = from; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return true;
        if (strncmp(argv[i], "--", 2) != 0)
            die(DIE_USAGE, "\"%s\" is no option; --help lists them", argv[i]);
        const char *name = argv[i] + 2;
        const char *equals = strchr(name, '=');
        size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
        const struct option_row *row = find_row(rows, count, name, len);
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (row->kind == OPTION_FLAG && value != NULL)
            die(DIE_USAGE, "--%s takes no value", row->name);
        if (row->kind != OPTION_FLAG && value == NULL) {
            if (++i == argc)
                die(DIE_USAGE, "--%s wants a value", row->name);
            value = argv[i];
        }
        store(options, row, value);
    }
    return false;
}

void option_table_print(const struct option_row *rows, size_t count)
{
    size_t widest = 0;
    for (size_t i = 0; i < count; i++)
        widest = strlen(rows[i].name) > widest ? strlen(rows[i].name) : widest;
    for (size_t i = 0; i < count; i++)
        printf("  --%-*s %s\n", (int)widest, rows[i].name, rows[i].help);
}
