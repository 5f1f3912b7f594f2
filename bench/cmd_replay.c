#include "bench/clock.h"
#include "bench/cmd.h"
#include "bench/die.h"
#include "bench/summary.h"

#include <inttypes.h>

/* How long nothing may happen before the wait is given up. */
static const double PATIENCE_SECONDS = 10;

static bool publisher_quiet(const struct run *run)
{
    return publisher_is_quiet(&run->pub);
}

static void fill_rooms(struct run *run)
{
    const struct publisher *pub = &run->pub;
    publisher_fill(&run->pub, run->options->entries);
    if (!run_wait_while_moving(run, publisher_quiet, PATIENCE_SECONDS))
        die(DIE_RUN, "the rooms couldn't be filled: %" PRIu64 " publishes had no answer",
            pub->sent - pub->acked - pub->rejected);
    if (pub->rejected > 0)
        die(DIE_RUN, "the rooms couldn't be filled: %" PRIu64 " publishes were rejected (%s)",
            pub->rejected, pub->first_rejection);
}

/* The reference for completeness: what was acknowledged in every reader's room. */
static uint64_t expected_entries(const struct run *run)
{
    uint64_t expected = 0;
    for (unsigned i = 0; i < run->options->sockets; i++)
        expected += run->fleet.members[i].room->acked;
    return expected;
}

static void report_replay(struct report *report, const struct run *run)
{
    const struct fleet *fleet = &run->fleet;
    uint64_t ours = 0;
    for (unsigned i = 0; i < run->options->sockets; i++)
        ours += fleet->members[i].audit.ours;
    uint64_t expected = expected_entries(run);
    double seconds = (double)(fleet->last_ns - fleet->joined_ns) / (double)CLOCK_SECOND;
    report_group(report, "replay");
    report_count(report, "entries_in_each_room", run->options->entries);
    report_number(report, "seconds", seconds, 3);
    report_number(report, "entries_per_second", (double)fleet->totals.applied / seconds, 0);
    report_number(report, "mbytes_per_second", (double)fleet->bytes / 1e6 / seconds, 1);
    report_number(report, "complete_percent", 100.0 * (double)ours / (double)expected, 4);
    report_count(report, "joined_trimmed_rooms", fleet->trimmed);
    report_hist(report, "join_to_live_us", &fleet->to_live);
    report_group_end(report);
}

int cmd_replay(const struct options *options)
{
    struct run run = {0};
    run_init(&run, options);
    fill_rooms(&run);
    double connect_s =
        run_connect(&run, &(struct fleet_plan){.sockets = options->sockets, .cursor = "0-0"});

    struct run_usage before = run_usage_now(&run);
    fleet_join_all(&run.fleet);
    if (options->rate > 0)
        publisher_start(&run.pub, &(struct publisher_plan){
                                      .rate = options->rate,
                                      .burst = options->burst,
                                      .seconds = options->seconds,
                                  });
    (void)run_wait_while_moving(&run, run_is_settled, PATIENCE_SECONDS);
    struct run_usage after = run_usage_now(&run);
    struct run_usage usage = run_usage_between(&before, &after);
    fleet_audit(&run.fleet);

    struct report report;
    report_begin(&report, options->json);
    summary_head(&report, &run);
    summary_connect(&report, &run, connect_s);
    report_replay(&report, &run);
    if (options->rate > 0)
        summary_traffic(&report, &run, &usage);
    summary_cpu(&report, &run, &usage);
    int status = summary_verdict(&report, &run);
    report_end(&report);
    run_fini(&run);
    return status;
}
