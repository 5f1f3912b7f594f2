#include "bench/clock.h"
#include "bench/cmd.h"
#include "bench/die.h"
#include "bench/metrics_page.h"
#include "bench/redis_link.h"
#include "bench/summary.h"

#include <stdlib.h>
#include <string.h>

/* How long nothing may happen before the wait is given up; and how long the others are measured
 * after the last has come back, so that what the storm did to them is seen. */
static const double PATIENCE_SECONDS = 10;
static const double AFTER_SECONDS = 0.5;

/* Cut without looking at the other sockets: closing takes the tool's time, too. */
enum { CUT_SLICE = 200 };

/* What server and Redis have counted at one moment. */
struct counts {
    bool pages_known;
    uint64_t pages, shared, feed_reads;
    uint64_t xranges;
};

struct storm {
    struct run run;
    struct redis_link *redis; /* NULL: not asked */
    struct hist before;       /* latency of the others until the first is cut, */
    struct hist away;         /* then until they come back, */
    struct hist during;       /* and from its beginning until a little after its end */
    struct counts from, to;
    uint64_t live_ns; /* when the last was live again */
    uint64_t open_ns; /* when the last was connected again */
};

static struct counts count(const struct storm *storm)
{
    struct counts counts = {.pages = 0};
    struct metrics_page *page = die_if_null(malloc(sizeof(*page)));
    counts.pages_known = metrics_page_get(&storm->run.target, page);
    if (counts.pages_known) {
        counts.pages = metrics_page_value(page, "pages_total");
        counts.shared = metrics_page_value(page, "pages_shared_total");
        counts.feed_reads = metrics_page_value(page, "feed_reads_total");
    }
    free(page);
    if (storm->redis != NULL)
        counts.xranges = redis_link_calls(storm->redis, "xrange");
    return counts;
}

static bool never(const struct run *run)
{
    return false;
}

static bool crowd_acked(const struct run *run)
{
    const struct room_set_room *room = &run->set.rooms[0];
    return room->acked == room->sent;
}

static bool crowd_has_it(const struct run *run)
{
    return crowd_acked(run) && fleet_is_complete(&run->fleet);
}

static bool is_back(const struct run *run)
{
    struct storm *storm = (struct storm *)run; /* run is its first field */
    if (storm->open_ns == 0 && fleet_is_open(&run->fleet))
        storm->open_ns = clock_now_ns();
    return fleet_is_live(&run->fleet);
}

static bool publisher_done(const struct run *run)
{
    return publisher_is_done(&run->pub);
}

/* Where nothing was ever said, everybody's cursor is 0-0, which few rooms that are full know. */
static void say_something(struct run *run)
{
    publisher_put(&run->pub, 0);
    if (!run_wait_while_moving(run, crowd_has_it, PATIENCE_SECONDS))
        die(DIE_RUN, "the crowd didn't get its first entry");
}

/* Gives back the others' latency since the last time. */
static struct hist take_latency(struct storm *storm)
{
    struct hist latency = storm->run.fleet.latency;
    memset(&storm->run.fleet.latency, 0, sizeof(storm->run.fleet.latency));
    return latency;
}

/* The whole crowd goes, and misses the entries that are published meanwhile: all of them all, or,
 * with distinct cursors, each part of it one less than the part before. */
static void send_away(struct storm *storm)
{
    struct run *run = &storm->run;
    const struct options *o = run->options;
    unsigned gone = 0;
    fleet_hold(&run->fleet, true);
    for (unsigned i = 0; i < o->entries; i++) {
        uint64_t upto = o->distinct ? (uint64_t)o->sockets * (i + 1) / o->entries : o->sockets;
        for (; gone < upto; gone++) {
            fleet_cut(&run->fleet, gone);
            if (gone % CUT_SLICE == CUT_SLICE - 1)
                (void)run_wait(run, never, 0);
        }
        publisher_put(&run->pub, 0);
        if (!run_wait(run, crowd_acked, PATIENCE_SECONDS))
            die(DIE_RUN, "a publish had no answer");
        /* So that those who are still there get it, and leave with another cursor. */
        if (o->distinct)
            (void)run_wait(run, never, 0.05);
    }
}

static void come_back(struct storm *storm)
{
    struct run *run = &storm->run;
    storm->from = count(storm);
    storm->away = take_latency(storm);
    fleet_hold(&run->fleet, false);
    if (!run_wait_while_moving(run, is_back, PATIENCE_SECONDS))
        die(DIE_RUN, "only %u of %u came back live; %s", run->fleet.live, run->fleet.plan.sockets,
            run->fleet.why[0] != '\0' ? run->fleet.why : "the others had no answer");
    storm->live_ns = clock_now_ns();
    (void)run_wait(run, never, AFTER_SECONDS);
    storm->during = take_latency(storm);
    storm->to = count(storm);
}

static double seconds_between(uint64_t from, uint64_t to)
{
    return (double)(to - from) / (double)CLOCK_SECOND;
}

static void report_storm(struct report *report, const struct storm *storm)
{
    const struct fleet *fleet = &storm->run.fleet;
    const struct options *o = storm->run.options;
    report_group(report, "storm");
    report_count(report, "others", o->others);
    report_count(report, "missed_entries", o->entries);
    report_flag(report, "distinct_cursors", o->distinct);
    report_number(report, "connected_after_seconds",
                  seconds_between(fleet->joined_ns, storm->open_ns), 3);
    report_number(report, "live_after_seconds", seconds_between(fleet->joined_ns, storm->live_ns),
                  3);
    report_hist(report, "to_live_us", &fleet->to_live);
    if (storm->from.pages_known) {
        report_count(report, "pages", storm->to.pages - storm->from.pages);
        report_count(report, "pages_shared", storm->to.shared - storm->from.shared);
    }
    if (storm->redis != NULL) {
        uint64_t xranges = storm->to.xranges - storm->from.xranges;
        uint64_t feed = storm->to.feed_reads - storm->from.feed_reads;
        report_count(report, "xranges", xranges);
        report_count(report, "xranges_of_live_feed", feed);
        report_count(report, "xranges_of_replays", xranges > feed ? xranges - feed : 0);
    }
    report_hist(report, "others_before_us", &storm->before);
    report_hist(report, "others_while_away_us", &storm->away);
    report_hist(report, "others_during_us", &storm->during);
    report_group_end(report);
}

static void begin(struct storm *storm, const struct options *options)
{
    run_init(&storm->run, options);
    if (options->redis == NULL)
        return;
    storm->redis = redis_link_open(options->redis);
    if (storm->run.redis_pid == 0)
        storm->run.redis_pid = redis_link_server_pid(storm->redis);
}

static int report_all(const struct storm *storm, double connect_s, const struct run_usage *usage)
{
    struct report report;
    report_begin(&report, storm->run.options->json);
    summary_head(&report, &storm->run);
    summary_connect(&report, &storm->run, connect_s);
    report_storm(&report, storm);
    summary_cpu(&report, &storm->run, usage);
    int status = summary_verdict(&report, &storm->run);
    report_end(&report);
    return status;
}

int cmd_storm(const struct options *options)
{
    struct storm *storm = die_if_null(calloc(1, sizeof(*storm)));
    struct run *run = &storm->run;
    begin(storm, options);
    double connect_s =
        run_connect(run, &(struct fleet_plan){.sockets = options->sockets + options->others,
                                              .crowd = options->sockets,
                                              .cursor = "$",
                                              .join_at_open = true});
    run_require_live(run);
    say_something(run);
    if (options->rate > 0 && options->others > 0)
        publisher_start(&run->pub, &(struct publisher_plan){.rate = options->rate,
                                                            .burst = options->burst,
                                                            .seconds = options->seconds,
                                                            .first_room = 1});
    (void)run_wait(run, never, options->seconds / 3);
    storm->before = take_latency(storm);
    send_away(storm);
    struct run_usage before = run_usage_now(run);
    come_back(storm);
    struct run_usage after = run_usage_now(run);
    struct run_usage usage = run_usage_between(&before, &after);
    (void)run_wait(run, publisher_done, options->seconds + PATIENCE_SECONDS);
    (void)run_wait_while_moving(run, run_is_settled, PATIENCE_SECONDS);
    fleet_audit(&run->fleet);
    int status = report_all(storm, connect_s, &usage);
    redis_link_close(storm->redis);
    run_fini(run);
    free(storm);
    return status;
}
