#include "bench/bench_log_note.h"
#include "bench/bench_log_pub_impl.h"
#include "bench/die.h"
#include "bench/redis_link.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FILL_BATCH = 256 };

/* --- names ---------------------------------------------------------------------------------- */

struct str bench_log_pub_key(uint32_t run, unsigned room, char dst[BENCH_LOG_PUB_ROOM_MAX])
{
    int len = snprintf(dst, BENCH_LOG_PUB_ROOM_MAX, BENCH_LOG_PUB_PREFIX "bench-%08" PRIx32 "-%u",
                       run, room);
    return (struct str){dst, (size_t)len};
}

struct str bench_log_pub_room(uint32_t run, unsigned room, char dst[BENCH_LOG_PUB_ROOM_MAX])
{
    struct str key = bench_log_pub_key(run, room, dst);
    size_t prefix = sizeof(BENCH_LOG_PUB_PREFIX) - 1;
    return (struct str){key.p + prefix, key.len - prefix};
}

/* --- the schedule --------------------------------------------------------------------------- */

unsigned bench_log_pub_next_room(struct bench_log_pub_schedule *schedule)
{
    /* xorshift64: good enough to spread, and the same rooms in each run. */
    uint64_t x = schedule->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    schedule->random = x;
    return (unsigned)((x >> 32) % schedule->pub->options->hot);
}

static uint64_t due_after(const struct bench_log_pub_schedule *schedule, uint64_t ticks)
{
    double each = schedule->pub->options->rate * (double)BENCH_LOG_PUB_TICK_NS / CLOCK_SECOND;
    return (uint64_t)((double)ticks * each + 0.5);
}

bool bench_log_pub_next_batch(struct bench_log_pub_schedule *schedule, uint64_t *out_due_ns,
                              unsigned *out_count)
{
    uint64_t total = (uint64_t)(schedule->plan.seconds * CLOCK_SECOND / BENCH_LOG_PUB_TICK_NS);
    if (schedule->ticks >= total)
        return false;
    *out_due_ns = schedule->plan.start_ns + schedule->ticks * BENCH_LOG_PUB_TICK_NS;
    *out_count =
        (unsigned)(due_after(schedule, schedule->ticks + 1) - due_after(schedule, schedule->ticks));
    schedule->ticks++;
    return true;
}

void bench_log_pub_data(const struct bench_log_pub *pub, unsigned room, uint64_t due_ns,
                        uint64_t sent_ns, char *dst, size_t size)
{
    struct bench_log_note note = {
        .run = pub->run, .n = ++pub->shared->each[room], .due_ns = due_ns, .sent_ns = sent_ns};
    bench_log_note_write(dst, size, &note);
    atomic_fetch_add_explicit(&pub->shared->sent, 1, memory_order_relaxed);
}

_Noreturn void bench_log_pub_fail(struct bench_log_pub *pub, const char *reason)
{
    (void)snprintf(pub->shared->error, sizeof(pub->shared->error), "%s", reason);
    atomic_store(&pub->shared->failed, true);
    _exit(DIE_RUN);
}

/* --- plain XADD ----------------------------------------------------------------------------- */

struct plain {
    struct bench_log_pub *pub;
    struct redis_link *link;
    char *data;
    char maxlen[16];
};

static void put(struct plain *plain, unsigned room, uint64_t due_ns, uint64_t sent_ns)
{
    const struct bench_log_options *options = plain->pub->options;
    char key[BENCH_LOG_PUB_ROOM_MAX];
    struct str words[10] = {STR("XADD"), bench_log_pub_key(plain->pub->run, room, key)};
    size_t count = 2;
    if (options->maxlen != 0) {
        words[count++] = STR("MAXLEN");
        words[count++] = STR("~");
        words[count++] = str_from(plain->maxlen);
    }
    bench_log_pub_data(plain->pub, room, due_ns, sent_ns, plain->data, options->size);
    words[count++] = STR("*");
    words[count++] = STR("type");
    words[count++] = STR("bench");
    words[count++] = STR("data");
    words[count++] = (struct str){plain->data, options->size};
    redis_link_put(plain->link, words, count);
}

static void check(struct plain *plain)
{
    if (redis_link_errors(plain->link) != 0)
        bench_log_pub_fail(plain->pub, redis_link_error(plain->link));
}

static void sleep_until(uint64_t ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / CLOCK_SECOND),
                             .tv_nsec = (long)(ns % CLOCK_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static void run_plain(struct plain *plain, struct bench_log_pub_schedule *schedule)
{
    uint64_t due_ns;
    unsigned count;
    while (bench_log_pub_next_batch(schedule, &due_ns, &count)) {
        if (count == 0)
            continue;
        sleep_until(due_ns);
        uint64_t now = clock_now_ns();
        for (unsigned i = 0; i < count; i++)
            put(plain, bench_log_pub_next_room(schedule), due_ns, now);
        redis_link_flush(plain->link);
        hist_add(&plain->pub->shared->late, now > due_ns ? now - due_ns : 0);
        redis_link_drain(plain->link, 0);
    }
    /* Redis drops what it hasn't yet done for a client that goes away with answers unread. */
    redis_link_settle(plain->link);
    check(plain);
}

static void fill(struct plain *plain, const struct bench_log_pub_plan *plan)
{
    unsigned rooms = plan->fill_rooms != 0 ? plan->fill_rooms : plain->pub->options->rooms;
    for (uint64_t i = 0; i < plan->fill; i++) {
        for (unsigned room = 0; room < rooms; room++) {
            put(plain, room, 0, 0);
            if (redis_link_unanswered(plain->link) >= FILL_BATCH)
                redis_link_settle(plain->link);
        }
    }
    redis_link_settle(plain->link);
    check(plain);
}

/* --- the process ---------------------------------------------------------------------------- */

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        die(DIE_RUN, "can't publish on CPU %d: %s", cpu, strerror(errno));
}

static _Noreturn void serve(struct bench_log_pub *pub)
{
    struct plain plain = {.pub = pub, .link = redis_link_open(pub->options->url)};
    plain.data = die_if_null(malloc(pub->options->size));
    (void)snprintf(plain.maxlen, sizeof(plain.maxlen), "%u", pub->options->maxlen);
    struct bench_log_pub_script *script =
        pub->options->script ? bench_log_pub_script_open(pub) : NULL;
    struct bench_log_pub_schedule schedule = {.pub = pub, .random = UINT64_C(0x9e3779b97f4a7c15)};

    while (read(pub->to_fd, &schedule.plan, sizeof(schedule.plan)) ==
           (ssize_t)sizeof(schedule.plan)) {
        schedule.ticks = 0;
        memset(&pub->shared->late, 0, sizeof(pub->shared->late));
        if (schedule.plan.fill != 0)
            fill(&plain, &schedule.plan);
        else if (script != NULL)
            bench_log_pub_script_run(script, &schedule);
        else
            run_plain(&plain, &schedule);
        if (write(pub->from_fd, "", 1) != 1)
            break;
    }
    _exit(DIE_OK);
}

void bench_log_pub_start(struct bench_log_pub *pub, const struct bench_log_options *options,
                         uint32_t run)
{
    *pub = (struct bench_log_pub){.options = options, .run = run};
    pub->shared_len = sizeof(*pub->shared) + options->rooms * sizeof(pub->shared->each[0]);
    pub->shared =
        mmap(NULL, pub->shared_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int plans[2];
    int answers[2];
    if (pub->shared == MAP_FAILED || pipe(plans) < 0 || pipe(answers) < 0)
        die(DIE_RUN, "the publisher can't be started: %s", strerror(errno));
    pid_t parent = getpid();
    pub->pid = fork();
    if (pub->pid < 0)
        die(DIE_RUN, "the publisher can't be started: %s", strerror(errno));
    bool child = pub->pid == 0;
    pub->to_fd = child ? plans[0] : plans[1];
    pub->from_fd = child ? answers[1] : answers[0];
    close(child ? plans[1] : plans[0]);
    close(child ? answers[0] : answers[1]);
    if (!child)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_TIMERSLACK, 1000UL);
    if (getppid() != parent)
        _exit(DIE_RUN);
    if (options->publisher_cpu >= 0)
        pin(options->publisher_cpu);
    serve(pub);
}

void bench_log_pub_stop(struct bench_log_pub *pub)
{
    close(pub->to_fd);
    close(pub->from_fd);
    (void)waitpid(pub->pid, NULL, 0);
    (void)munmap(pub->shared, pub->shared_len);
}

void bench_log_pub_begin(struct bench_log_pub *pub, const struct bench_log_pub_plan *plan)
{
    assert(!pub->busy);
    if (write(pub->to_fd, plan, sizeof(*plan)) != (ssize_t)sizeof(*plan))
        die(DIE_RUN, "the publisher has ended");
    pub->busy = true;
}

static bool done_within(struct bench_log_pub *pub, int wait_ms)
{
    struct pollfd fd = {.fd = pub->from_fd, .events = POLLIN};
    char byte;
    if (pub->busy && poll(&fd, 1, wait_ms) > 0) {
        if (read(pub->from_fd, &byte, 1) != 1)
            die(DIE_RUN, "a publish failed: %s",
                atomic_load(&pub->shared->failed) ? pub->shared->error : "the publisher has ended");
        pub->busy = false;
    }
    return !pub->busy;
}

bool bench_log_pub_done(struct bench_log_pub *pub)
{
    return done_within(pub, 0);
}

void bench_log_pub_wait(struct bench_log_pub *pub)
{
    while (!done_within(pub, -1))
        ;
}
