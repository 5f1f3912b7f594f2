#include "bench/cmd.h"
#include "bench/summary.h"

static const double SETTLE_SECONDS = 10;

static bool publisher_done(const struct run *run)
{
    return publisher_is_done(&run->pub);
}

int cmd_flap(const struct options *options)
{
    struct run run = {0};
    run_init(&run, options);
    double connect_s = run_connect(&run, &(struct fleet_plan){.sockets = options->sockets,
                                                              .flaps = options->flaps,
                                                              .cursor = "$",
                                                              .join_at_open = true});
    run_require_live(&run);
    struct run_usage before = run_usage_now(&run);
    publisher_start(&run.pub, &(struct publisher_plan){
                                  .rate = options->rate,
                                  .burst = options->burst,
                                  .seconds = options->seconds,
                              });
    run.fleet.flapping = true;
    (void)run_wait(&run, publisher_done, 2 * options->seconds + 10);
    run.fleet.flapping = false;
    (void)run_wait_while_moving(&run, run_is_settled, SETTLE_SECONDS);
    struct run_usage after = run_usage_now(&run);
    struct run_usage usage = run_usage_between(&before, &after);
    fleet_audit(&run.fleet);

    struct report report;
    report_begin(&report, options->json);
    summary_head(&report, &run);
    summary_connect(&report, &run, connect_s);
    report_count(&report, "cut", run.fleet.cut);
    summary_traffic(&report, &run, &usage);
    summary_cpu(&report, &run, &usage);
    int status = summary_verdict(&report, &run);
    report_end(&report);
    run_fini(&run);
    return status;
}
