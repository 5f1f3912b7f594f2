#include "bench/die.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void die(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

void *die_if_null(void *p)
{
    if (p == NULL)
        die(DIE_RUN, "out of memory");
    return p;
}
