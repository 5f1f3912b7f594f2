/* summary.h - the parts of a report that the commands share, and the exit status they lead to. */
#ifndef BENCH_SUMMARY_H
#define BENCH_SUMMARY_H

#include "bench/report.h"
#include "bench/run.h"

/* The command and what it was asked to do. */
void summary_head(struct report *report, const struct run *run);

void summary_connect(struct report *report, const struct run *run, double seconds);

/* Publishes, deliveries and their latency. */
void summary_traffic(struct report *report, const struct run *run, const struct run_usage *usage);

/* CPU of the server, for each delivery and as a share of a core, and of this tool. */
void summary_cpu(struct report *report, const struct run *run, const struct run_usage *usage);

void summary_codes(struct report *report, const char *name, const struct fleet_code *codes);

/* The audit's faults by place, and whether all is well. Returns the exit status. */
int summary_verdict(struct report *report, const struct run *run);

#endif
