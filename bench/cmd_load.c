#include "bench/clock.h"
#include "bench/cmd.h"
#include "bench/summary.h"

/* How long nothing may arrive before the rest counts as lost, and how long a stalled
 * client that reads again is given to be told its code. */
static const double SETTLE_SECONDS = 5;
static const double WAKE_SECONDS = 8;

static bool publisher_done(const struct run *run)
{
    return publisher_is_done(&run->pub);
}

static bool stalled_gone(const struct run *run)
{
    return run->fleet.stalled_closed == run->fleet.plan.stalled;
}

static bool never(const struct run *run)
{
    return false;
}

/* Publishes all that is planned, waking the stalled in between if they are to be. */
static void publish_all(struct run *run)
{
    const struct options *o = run->options;
    if (o->wake > 0 && o->wake < o->seconds) {
        (void)run_wait(run, never, o->wake);
        fleet_stall(&run->fleet, false);
    }
    /* A tool that can't keep up sends late, but it sends: it is done some time after the last is
     * due. */
    (void)run_wait(run, publisher_done, 2 * o->seconds + 10);
    (void)run_wait_while_moving(run, run_is_settled, SETTLE_SECONDS);
}

static void report_slow(struct report *report, const struct run *run, uint64_t pss_before)
{
    report_group(report, "stalled");
    report_count(report, "sockets", run->fleet.plan.stalled);
    report_count(report, "still_connected", run->fleet.plan.stalled - run->fleet.stalled_closed);
    summary_codes(report, "close_codes", run->fleet.stalled_codes);
    report_group_end(report);
    if (run->options->pid == 0)
        return;
    report_group(report, "server_pss_kib");
    report_count(report, "before", pss_before);
    report_count(report, "peak", run->peak_pss_kib);
    report_group_end(report);
}

int cmd_load(const struct options *options)
{
    struct run run = {0};
    run_init(&run, options);
    double connect_s = run_connect(&run, &(struct fleet_plan){.sockets = options->sockets,
                                                              .stalled = options->stalled,
                                                              .cursor = "$",
                                                              .join_at_open = true});
    run_require_live(&run);

    uint64_t pss_before = 0;
    if (options->pid != 0)
        (void)proc_read_pss_kib(options->pid, &pss_before); /* run_init could read it */
    run.sample_memory = options->command == OPTIONS_SLOW;
    fleet_stall(&run.fleet, true);
    struct run_usage before = run_usage_now(&run);
    publisher_start(&run.pub, &(struct publisher_plan){
                                  .rate = options->rate,
                                  .burst = options->burst,
                                  .seconds = options->seconds,
                              });
    publish_all(&run);
    struct run_usage after = run_usage_now(&run);
    struct run_usage usage = run_usage_between(&before, &after);
    fleet_stall(&run.fleet, false);
    if (options->stalled > 0)
        (void)run_wait(&run, stalled_gone, WAKE_SECONDS);
    fleet_audit(&run.fleet);

    struct report report;
    report_begin(&report, options->json);
    summary_head(&report, &run);
    summary_connect(&report, &run, connect_s);
    summary_traffic(&report, &run, &usage);
    summary_cpu(&report, &run, &usage);
    if (options->command == OPTIONS_SLOW)
        report_slow(&report, &run, pss_before);
    int status = summary_verdict(&report, &run);
    report_end(&report);
    run_fini(&run);
    return status;
}
