#include "bench/cmd.h"
#include "bench/summary.h"

static bool never(const struct run *run)
{
    return false;
}

int cmd_idle(const struct options *options)
{
    struct run run = {0};
    run_init(&run, options);
    /* The publisher's socket is open by now: what the first connection sets up once isn't
     * charged to the others. */
    uint64_t before_kib = 0;
    uint64_t after_kib = 0;
    if (options->pid != 0)
        (void)proc_read_pss_kib(options->pid, &before_kib); /* run_init could read it */
    double connect_s = run_connect(
        &run,
        &(struct fleet_plan){.sockets = options->sockets, .cursor = "$", .join_at_open = true});
    run_require_live(&run);
    struct run_usage start = run_usage_now(&run);
    (void)run_wait(&run, never, options->seconds);
    struct run_usage end = run_usage_now(&run);
    struct run_usage usage = run_usage_between(&start, &end);

    struct report report;
    report_begin(&report, options->json);
    summary_head(&report, &run);
    summary_connect(&report, &run, connect_s);
    if (options->pid != 0 && proc_read_pss_kib(options->pid, &after_kib)) {
        report_group(&report, "server_pss");
        report_count(&report, "before_kib", before_kib);
        report_count(&report, "after_kib", after_kib);
        report_number(&report, "bytes_per_connection",
                      ((double)after_kib - (double)before_kib) * 1024.0 / options->sockets, 0);
        report_group_end(&report);
    }
    summary_cpu(&report, &run, &usage);
    int status = summary_verdict(&report, &run);
    report_end(&report);
    run_fini(&run);
    return status;
}
