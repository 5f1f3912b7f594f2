#include "bench/run.h"

#include "bench/clock.h"
#include "bench/die.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How often the end of a wait is asked for, and how often a terminal is told. */
static const uint64_t ASK_NS = 5 * CLOCK_MS;
static const uint64_t SHOW_NS = 200 * CLOCK_MS;

enum { CONNECT_SECONDS = 60, LIVE_SECONDS = 60, ERASE_WIDTH = 78 };

static void pin_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        die(DIE_RUN, "can't run on CPU %d: %s", cpu, strerror(errno));
}

static bool publisher_open_done(const struct run *run)
{
    return publisher_is_open(&run->pub);
}

void run_init(struct run *run, const struct options *options)
{
    char why[TARGET_TEXT_MAX];
    run->options = options;
    run->on_terminal = !options->json && isatty(STDERR_FILENO) == 1;
    if (!target_parse(options->url, &run->target, why))
        die(DIE_USAGE, "--url %s: %s", options->url, why);
    struct proc_cpu cpu;
    uint64_t kib;
    if (options->pid != 0 &&
        (!proc_read_cpu(options->pid, &cpu) || !proc_read_pss_kib(options->pid, &kib)))
        die(DIE_RUN, "can't read /proc/%d: is that the server's pid, and may you see it?",
            (int)options->pid);
    run->redis_pid = options->redis_pid;
    if (run->redis_pid != 0 && !proc_read_cpu(run->redis_pid, &cpu))
        die(DIE_RUN, "can't read /proc/%d: is that Redis' pid?", (int)run->redis_pid);
    if (options->cpu >= 0)
        pin_to(options->cpu);
    poller_init(&run->poller);
    ws_conn_io_init(&run->io, &run->poller, &run->target);
    room_set_init(&run->set, options->rooms);
    publisher_open(&run->pub, &run->io, &run->set, options->size);
    if (!run_wait(run, publisher_open_done, CONNECT_SECONDS))
        die(DIE_RUN, "the server doesn't answer the WebSocket upgrade");
}

void run_fini(struct run *run)
{
    if (run->fleet.members != NULL)
        fleet_fini(&run->fleet);
    publisher_fini(&run->pub);
    room_set_fini(&run->set);
    ws_conn_io_fini(&run->io);
    poller_fini(&run->poller);
}

static void erase_progress(const struct run *run)
{
    if (run->on_terminal)
        fprintf(stderr, "\r%*s\r", ERASE_WIDTH, "");
}

static void tick(struct run *run, uint64_t now)
{
    uint64_t kib;
    if (run->sample_memory && run->options->pid != 0 &&
        proc_read_pss_kib(run->options->pid, &kib) && kib > run->peak_pss_kib)
        run->peak_pss_kib = kib;
    if (run->on_terminal)
        fprintf(stderr,
                "\r%u of %u open, %u live, %" PRIu64 " published, %" PRIu64 " delivered    ",
                run->fleet.open, run->fleet.plan.sockets, run->fleet.live, run->pub.sent,
                run->fleet.totals.applied);
    run->shown_ns = now;
}

/* What changes as long as the server does anything for us. */
static uint64_t movement(const struct run *run)
{
    return run->fleet.totals.applied + run->fleet.stalled_totals.applied + run->fleet.live +
           run->fleet.open + run->pub.acked + run->pub.rejected;
}

static bool wait_for(struct run *run, run_done_fn done, double seconds, bool while_moving)
{
    uint64_t patience = (uint64_t)(seconds * (double)CLOCK_SECOND);
    uint64_t asked = 0;
    uint64_t moved = clock_now_ns();
    uint64_t seen = movement(run);
    for (;;) {
        poller_turn(&run->poller, (int)(ASK_NS / CLOCK_MS));
        publisher_pump(&run->pub);
        uint64_t now = clock_now_ns();
        if (now - asked < ASK_NS)
            continue;
        asked = now;
        if (run->fleet.members != NULL) {
            fleet_flap(&run->fleet, now);
            fleet_connect_more(&run->fleet);
        }
        if (now - run->shown_ns >= SHOW_NS)
            tick(run, now);
        if (while_moving && movement(run) != seen) {
            seen = movement(run);
            moved = now;
        }
        if (done(run) || now - moved >= patience)
            break;
    }
    erase_progress(run);
    return done(run);
}

bool run_wait(struct run *run, run_done_fn done, double seconds)
{
    return wait_for(run, done, seconds, false);
}

bool run_wait_while_moving(struct run *run, run_done_fn done, double seconds)
{
    return wait_for(run, done, seconds, true);
}

static bool fleet_open_done(const struct run *run)
{
    return fleet_is_open(&run->fleet);
}

double run_connect(struct run *run, const struct fleet_plan *plan)
{
    fleet_init(&run->fleet, &run->io, &run->set, plan);
    uint64_t start = clock_now_ns();
    fleet_connect_more(&run->fleet);
    bool done = run_wait(run, fleet_open_done, CONNECT_SECONDS);
    const struct fleet *fleet = &run->fleet;
    if (!done || fleet->failed > 0)
        die(DIE_RUN, "only %u of %u sockets were opened; %s", fleet->open, plan->sockets,
            fleet->why[0] != '\0' ? fleet->why : "the others had no answer");
    return (double)(clock_now_ns() - start) / (double)CLOCK_SECOND;
}

struct run_usage run_usage_now(const struct run *run)
{
    struct run_usage usage = {.wall_ns = clock_now_ns(),
                              .applied = run->fleet.totals.applied,
                              .published = run->pub.sent};
    struct timespec own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    usage.own_ns = (uint64_t)own.tv_sec * CLOCK_SECOND + (uint64_t)own.tv_nsec;
    if (run->options->pid != 0 && !proc_read_cpu(run->options->pid, &usage.server))
        die(DIE_RUN, "the server's process is gone");
    struct proc_cpu redis;
    if (run->redis_pid != 0) {
        if (!proc_read_cpu(run->redis_pid, &redis))
            die(DIE_RUN, "Redis' process is gone");
        usage.redis_ns = redis.total_ns;
    }
    return usage;
}

struct run_usage run_usage_between(const struct run_usage *from, const struct run_usage *to)
{
    return (struct run_usage){
        .wall_ns = to->wall_ns - from->wall_ns,
        .redis_ns = to->redis_ns - from->redis_ns,
        .own_ns = to->own_ns - from->own_ns,
        .applied = to->applied - from->applied,
        .published = to->published - from->published,
        .server = {.total_ns = to->server.total_ns - from->server.total_ns,
                   .user_ns = to->server.user_ns - from->server.user_ns,
                   .system_ns = to->server.system_ns - from->server.system_ns}};
}

bool run_is_settled(const struct run *run)
{
    return publisher_is_done(&run->pub) && publisher_is_quiet(&run->pub) &&
           fleet_is_live(&run->fleet) && fleet_is_complete(&run->fleet);
}

bool run_is_live(const struct run *run)
{
    return fleet_is_live(&run->fleet);
}

void run_require_live(struct run *run)
{
    bool done = run_wait_while_moving(run, run_is_live, LIVE_SECONDS);
    const struct fleet *fleet = &run->fleet;
    if (!done || fleet->live < fleet->open)
        die(DIE_RUN, "only %u of %u clients went live; %s", fleet->live, fleet->plan.sockets,
            fleet->why[0] != '\0' ? fleet->why : "the others had no answer to their join");
}
