/* die.h - the end of a load run that can't go on: one line that says why, and an exit status.
 *
 * A load tool has nothing to save, so what the server must never do is right here.
 */
#ifndef BENCH_DIE_H
#define BENCH_DIE_H

/* Exit statuses of the load tools. */
enum {
    DIE_OK = 0,
    DIE_AUDIT = 1, /* entries were lost, doubled or out of order */
    DIE_USAGE = 2, /* the command line made no sense */
    DIE_RUN = 3    /* the run couldn't be done, or the server refused part of it */
};

/* Prints "<program>: <text>" on stderr and exits. */
_Noreturn void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* p, or the end of the process where an allocation gave NULL. */
void *die_if_null(void *p);

#endif
