/* option_table.h - the options of a command line as one table, for parsing and for --help.
 *
 * --name VALUE and --name=VALUE; a FLAG takes no value. What is wrong ends the process with exit
 * status DIE_USAGE and one line that says why.
 */
#ifndef BENCH_OPTION_TABLE_H
#define BENCH_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* What the field holds: const char *, unsigned (pid_t and int are as wide), double, bool. */
enum option_kind { OPTION_TEXT, OPTION_COUNT, OPTION_REAL, OPTION_FLAG };

struct option_row {
    const char *name; /* without the dashes */
    enum option_kind kind;
    size_t offset;   /* of the field in the struct that is filled */
    double min, max; /* of OPTION_COUNT and OPTION_REAL, both allowed */
    const char *help;
};

/* Stores argv[from] and what follows into the struct at options; texts are borrowed from argv.
 * Returns true where --help was met: then what comes after it was not looked at. */
bool option_table_parse(const struct option_row *rows, size_t count, void *options, int argc,
                        char **argv, int from);

/* One line an option, on standard output. */
void option_table_print(const struct option_row *rows, size_t count);

#endif
