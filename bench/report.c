#include "bench/report.h"

#include <inttypes.h>
#include <stdio.h>

static void name_of(struct report *report, const char *name)
{
    if (report->json)
        printf("%s\"%s\":", report->comma ? "," : "", name);
    else
        printf("%*s%-*s ", (int)(2 * report->depth), "", (int)(26 - 2 * report->depth), name);
    report->comma = true;
}

static void line_end(const struct report *report)
{
    if (!report->json)
        putchar('\n');
}

void report_begin(struct report *report, bool json)
{
    *report = (struct report){.json = json};
    if (json)
        putchar('{');
}

void report_end(struct report *report)
{
    if (report->json)
        puts("}");
    fflush(stdout);
}

void report_group(struct report *report, const char *name)
{
    if (report->json)
        printf("%s\"%s\":{", report->comma ? "," : "", name);
    else
        printf("%*s%s\n", (int)(2 * report->depth), "", name);
    report->comma = false;
    report->depth++;
}

void report_group_end(struct report *report)
{
    if (report->json)
        putchar('}');
    report->comma = true;
    report->depth--;
}

void report_count(struct report *report, const char *name, uint64_t value)
{
    name_of(report, name);
    printf("%" PRIu64, value);
    line_end(report);
}

void report_number(struct report *report, const char *name, double value, int decimals)
{
    name_of(report, name);
    printf("%.*f", decimals, value);
    line_end(report);
}

void report_flag(struct report *report, const char *name, bool value)
{
    name_of(report, name);
    fputs(value ? "true" : "false", stdout);
    line_end(report);
}

/* Control characters, quotes and what isn't ASCII are written as escapes in both forms: a server's
 * text must not steer the terminal. */
static void put_escaped(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
}

void report_text(struct report *report, const char *name, const char *value)
{
    name_of(report, name);
    if (report->json)
        putchar('"');
    put_escaped(value);
    if (report->json)
        putchar('"');
    line_end(report);
}

void report_hist(struct report *report, const char *name, const struct hist *hist)
{
    static const struct {
        const char *name;
        unsigned per_100k;
    } POINTS[] = {
        {"p50", 50000}, {"p90", 90000}, {"p99", 99000}, {"p99_9", 99900}, {"max", 100000}};

    report_group(report, name);
    report_count(report, "samples", hist->count);
    for (unsigned i = 0; i < sizeof(POINTS) / sizeof(POINTS[0]); i++)
        report_number(report, POINTS[i].name,
                      (double)hist_quantile(hist, POINTS[i].per_100k) / 1000.0, 1);
    report_group_end(report);
}
