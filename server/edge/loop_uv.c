#include "edge/loop_uv.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static struct loop_uv *self(struct loop *loop)
{
    return RD_CONTAINER(loop, struct loop_uv, loop);
}

/* For calls that fail only where the kernel has no memory or descriptors left for the loop itself:
 * as with xalloc, there is no path for that which could be trusted. */
static void must(int rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "roomd: %s: %s\n", what, uv_strerror(rc));
    abort();
}

/* --- clock and randomness ------------------------------------------------------------------- */

static uint64_t now_ms(struct loop *loop)
{
    return uv_now(&self(loop)->uv);
}

static uint64_t wall_ms(struct loop *loop)
{
    (void)loop;
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t); /* can't fail for this clock */
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t random_number(struct loop *loop)
{
    struct loop_uv *l = self(loop);
    if (l->random_left == 0) {
        ssize_t got = getrandom(l->random_pool, sizeof(l->random_pool), 0);
        assert(got == (ssize_t)sizeof(l->random_pool));
        (void)got;
        l->random_left = LOOP_UV_RANDOM_POOL;
    }
    return l->random_pool[--l->random_left];
}

/* --- timers --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct loop_uv *l = timer->data;
    l->running_due = true;
    loop_run_due(&l->loop);
    l->running_due = false;
}

static void arm(struct loop *loop, uint64_t due_ms)
{
    struct loop_uv *l = self(loop);
    if (due_ms == UINT64_MAX) {
        (void)uv_timer_stop(&l->timer);
        return;
    }
    uint64_t now = uv_now(&l->uv);
    uint64_t delay = due_ms > now ? due_ms - now : 0;
    /* libuv would run a timer that is due at once in this same turn, and so never leave a timer
     * that starts itself anew with no delay. */
    if (l->running_due && delay == 0)
        delay = 1;
    must(uv_timer_start(&l->timer, on_timer, delay, 0), "uv_timer_start");
}

/* --- tasks ---------------------------------------------------------------------------------- */

static void on_wake(uv_idle_t *wake)
{
    struct loop_uv *l = wake->data;
    /* Stopped first: a task that defers another starts it again. */
    (void)uv_idle_stop(wake);
    loop_run_tasks(&l->loop);
}

static void wake_up(struct loop *loop)
{
    must(uv_idle_start(&self(loop)->wake, on_wake), "uv_idle_start");
}

/* --- file descriptors ----------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events);

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void start_poll(uv_poll_t *poll, unsigned events)
{
    int wanted = ((events & LOOP_READ) != 0 ? UV_READABLE : 0) |
                 ((events & LOOP_WRITE) != 0 ? UV_WRITABLE : 0);
    must(uv_poll_start(poll, wanted, on_poll), "uv_poll_start");
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct loop_watch *watch = poll->data;
    if (watch == NULL)
        return;
    if (status >= 0) {
        watch->fn(watch->arg, ((events & UV_READABLE) != 0 ? LOOP_READ : 0u) |
                                  ((events & UV_WRITABLE) != 0 ? LOOP_WRITE : 0u));
        return;
    }
    /* The descriptor has an error (POLLERR), and libuv has stopped the handle. The owner learns
     * which one by reading or writing; where it goes on watching, so do we. */
    watch->fn(watch->arg, LOOP_READ | LOOP_WRITE);
    if (poll->data != NULL && !uv_is_active((uv_handle_t *)poll))
        start_poll(poll, watch->events);
}

static void watch_changed(struct loop *loop, struct loop_watch *watch)
{
    uv_poll_t *poll = watch->impl;
    if (watch->events == 0) {
        /* The handle lives until libuv has let go of it; the watch need not. */
        watch->impl = NULL;
        poll->data = NULL;
        uv_close((uv_handle_t *)poll, free_handle);
        return;
    }
    if (poll == NULL) {
        poll = xalloc_zero(sizeof(*poll));
        must(uv_poll_init(&self(loop)->uv, poll, watch->fd), "uv_poll_init");
        poll->data = watch;
        watch->impl = poll;
    }
    start_poll(poll, watch->events);
}

/* --- life ----------------------------------------------------------------------------------- */

static const struct loop_ops ops = {
    .now_ms = now_ms,
    .wall_ms = wall_ms,
    .random = random_number,
    .arm = arm,
    .wake = wake_up,
    .watch = watch_changed,
};

void loop_uv_init(struct loop_uv *l)
{
    *l = (struct loop_uv){.running_due = false};
    loop_init(&l->loop, &ops);
    must(uv_loop_init(&l->uv), "uv_loop_init");
    must(uv_timer_init(&l->uv, &l->timer), "uv_timer_init");
    must(uv_idle_init(&l->uv, &l->wake), "uv_idle_init");
    l->timer.data = l;
    l->wake.data = l;
}

static void on_limit(uv_timer_t *limit)
{
    *(bool *)limit->data = true;
}

bool loop_uv_run_out(struct loop_uv *l, uint64_t limit_ms)
{
    bool late = false;
    uv_timer_t limit;
    must(uv_timer_init(&l->uv, &limit), "uv_timer_init");
    limit.data = &late;
    uv_update_time(&l->uv);
    must(uv_timer_start(&limit, on_limit, limit_ms, 0), "uv_timer_start");
    uv_unref((uv_handle_t *)&limit);

    while (uv_loop_alive(&l->uv) && !late) {
        /* loop_timer_stop leaves the platform's timer armed: nobody waits for it now. */
        if (l->loop.timers == 0)
            (void)uv_timer_stop(&l->timer);
        (void)uv_run(&l->uv, UV_RUN_ONCE);
    }
    bool left = uv_loop_alive(&l->uv) != 0;
    if (left)
        uv_print_active_handles(&l->uv, stderr);
    uv_close((uv_handle_t *)&limit, NULL);
    (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    return !left;
}

void loop_uv_fini(struct loop_uv *l)
{
    loop_fini(&l->loop);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_close((uv_handle_t *)&l->wake, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&l->uv);
    assert(rc == 0);
    (void)rc;
}
