#include "tests/lib/poll_loop.h"

#include <assert.h>
#include <poll.h>
#include <sys/random.h>
#include <time.h>

static struct poll_loop *self(struct loop *loop)
{
    return RD_CONTAINER(loop, struct poll_loop, loop);
}

static uint64_t clock_ms(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* can't fail for these clocks */
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t now_ms(struct loop *loop)
{
    return self(loop)->now_ms;
}

static uint64_t wall_ms(struct loop *loop)
{
    (void)loop;
    return clock_ms(CLOCK_REALTIME);
}

static uint64_t random_number(struct loop *loop)
{
    (void)loop;
    uint64_t number;
    ssize_t got = getrandom(&number, sizeof(number), 0);
    assert(got == (ssize_t)sizeof(number));
    (void)got;
    return number;
}

/* Each turn asks what is due and what is deferred. */
static void arm(struct loop *loop, uint64_t due_ms)
{
    (void)loop;
    (void)due_ms;
}

static void wake(struct loop *loop)
{
    (void)loop;
}

static void watch_changed(struct loop *loop, struct loop_watch *watch)
{
    struct poll_loop *l = self(loop);
    for (size_t i = 0; i < l->count; i++) {
        if (l->watches[i] != watch)
            continue;
        if (watch->events == 0)
            l->watches[i] = l->watches[--l->count];
        return;
    }
    assert(watch->events != 0 && l->count < POLL_LOOP_WATCHES);
    l->watches[l->count++] = watch;
}

static const struct loop_ops ops = {
    .now_ms = now_ms,
    .wall_ms = wall_ms,
    .random = random_number,
    .arm = arm,
    .wake = wake,
    .watch = watch_changed,
};

void poll_loop_init(struct poll_loop *l)
{
    *l = (struct poll_loop){.count = 0};
    loop_init(&l->loop, &ops);
    l->now_ms = clock_ms(CLOCK_MONOTONIC);
}

void poll_loop_fini(struct poll_loop *l)
{
    assert(l->count == 0);
    loop_fini(&l->loop);
}

/* Is it still watched? A callback may have stopped any of them. */
static bool watched(const struct poll_loop *l, const struct loop_watch *watch)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->watches[i] == watch)
            return true;
    return false;
}

static void serve(struct poll_loop *l, uint64_t wait_ms)
{
    struct pollfd fds[POLL_LOOP_WATCHES];
    struct loop_watch *watches[POLL_LOOP_WATCHES];
    size_t count = l->count;
    for (size_t i = 0; i < count; i++) {
        watches[i] = l->watches[i];
        short events = (watches[i]->events & LOOP_READ) != 0 ? POLLIN : 0;
        if ((watches[i]->events & LOOP_WRITE) != 0)
            events |= POLLOUT;
        fds[i] = (struct pollfd){.fd = watches[i]->fd, .events = events};
    }
    int ready = poll(fds, count, (int)wait_ms);
    l->now_ms = clock_ms(CLOCK_MONOTONIC);
    /* Nobody promises an order among descriptors, so each turn begins with another. */
    l->turns++;
    for (size_t k = 0; ready > 0 && k < count; k++) {
        size_t i = (k + l->turns) % count;
        if (fds[i].revents == 0 || !watched(l, watches[i]) || watches[i]->fd != fds[i].fd)
            continue;
        unsigned events = 0;
        if ((fds[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0)
            events |= LOOP_READ;
        if ((fds[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
            events |= LOOP_WRITE;
        watches[i]->fn(watches[i]->arg, events);
    }
}

/* How long the kernel may be asked to wait. */
static uint64_t patience(const struct poll_loop *l, uint64_t most_ms)
{
    uint64_t due = loop_next_due(&l->loop);
    uint64_t wait = due <= l->now_ms ? 0 : due - l->now_ms;
    if (!list_empty(&l->loop.tasks))
        wait = 0;
    return wait < most_ms ? wait : most_ms;
}

bool poll_loop_run(struct poll_loop *l, uint64_t limit_ms, poll_loop_done_fn done, void *arg)
{
    uint64_t limit = clock_ms(CLOCK_MONOTONIC) + limit_ms;
    while (!done(arg)) {
        l->now_ms = clock_ms(CLOCK_MONOTONIC);
        if (l->now_ms >= limit)
            return false;
        loop_run_due(&l->loop);
        loop_run_tasks(&l->loop);
        if (done(arg))
            return true;
        serve(l, patience(l, limit - l->now_ms));
    }
    return true;
}

static bool idle(void *arg)
{
    struct poll_loop *l = arg;
    return l->count == 0 && l->loop.timers == 0 && list_empty(&l->loop.tasks);
}

bool poll_loop_run_out(struct poll_loop *l, uint64_t limit_ms)
{
    return poll_loop_run(l, limit_ms, idle, l);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void poll_loop_pass(struct poll_loop *l, uint64_t ms)
{
    (void)poll_loop_run(l, ms, never, NULL);
}
