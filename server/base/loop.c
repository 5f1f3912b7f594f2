#include "base/loop.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

void loop_init(struct loop *loop, const struct loop_ops *ops)
{
    *loop = (struct loop){.ops = ops};
    list_init(&loop->tasks);
}

void loop_fini(struct loop *loop)
{
    assert(loop->timers == 0);
    assert(list_empty(&loop->tasks));
    free(loop->heap);
    loop->heap = NULL;
}

static bool before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->order < b->order;
}

static void put(struct loop *loop, size_t place, struct loop_timer *timer)
{
    loop->heap[place] = timer;
    timer->place = place;
}

static void sift_up(struct loop *loop, size_t place, struct loop_timer *timer)
{
    for (; place > 1 && before(timer, loop->heap[place / 2]); place /= 2)
        put(loop, place, loop->heap[place / 2]);
    put(loop, place, timer);
}

static void sift_down(struct loop *loop, size_t place, struct loop_timer *timer)
{
    for (;;) {
        size_t child = place * 2;
        if (child > loop->timers)
            break;
        if (child < loop->timers && before(loop->heap[child + 1], loop->heap[child]))
            child++;
        if (!before(loop->heap[child], timer))
            break;
        put(loop, place, loop->heap[child]);
        place = child;
    }
    put(loop, place, timer);
}

static void take_out(struct loop *loop, struct loop_timer *timer)
{
    size_t place = timer->place;
    struct loop_timer *last = loop->heap[loop->timers--];
    timer->place = 0;
    if (last == timer)
        return;
    if (place > 1 && before(last, loop->heap[place / 2]))
        sift_up(loop, place, last);
    else
        sift_down(loop, place, last);
}

uint64_t loop_next_due(const struct loop *loop)
{
    return loop->timers == 0 ? UINT64_MAX : loop->heap[1]->due_ms;
}

void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms, loop_fn fn,
                      void *arg)
{
    if (timer->place != 0)
        take_out(loop, timer);
    if (loop->timers + 1 >= loop->capacity) {
        loop->capacity = loop->capacity == 0 ? FIRST_CAPACITY : loop->capacity * 2;
        loop->heap = xalloc_array(loop->heap, loop->capacity, sizeof(*loop->heap));
    }
    timer->due_ms = loop_now_ms(loop) + delay_ms;
    timer->order = loop->order++;
    timer->fn = fn;
    timer->arg = arg;
    sift_up(loop, ++loop->timers, timer);
    if (timer->place == 1)
        loop->ops->arm(loop, timer->due_ms);
}

void loop_timer_stop(struct loop *loop, struct loop_timer *timer)
{
    /* The platform may wake once for nothing; re-arming at each stop would cost more. */
    if (timer->place != 0)
        take_out(loop, timer);
}

void loop_run_due(struct loop *loop)
{
    uint64_t now = loop_now_ms(loop);
    /* A timer that starts itself anew with no delay waits for the next turn. */
    uint64_t order = loop->order;

    while (loop->timers != 0 && loop->heap[1]->due_ms <= now && loop->heap[1]->order < order) {
        struct loop_timer *timer = loop->heap[1];
        take_out(loop, timer);
        timer->fn(timer->arg);
    }
    loop->ops->arm(loop, loop_next_due(loop));
}

void loop_defer(struct loop *loop, struct loop_task *task, loop_fn fn, void *arg)
{
    if (task->link.next == NULL)
        list_init(&task->link);
    if (!list_empty(&task->link))
        return;
    task->fn = fn;
    task->arg = arg;
    if (list_empty(&loop->tasks))
        loop->ops->wake(loop);
    list_push_back(&loop->tasks, &task->link);
}

void loop_cancel(struct loop_task *task)
{
    if (task->link.next != NULL)
        list_remove(&task->link);
}

void loop_run_tasks(struct loop *loop)
{
    struct list due;
    list_init(&due);
    list_move_all(&due, &loop->tasks);

    for (struct list *link; (link = list_pop_front(&due)) != NULL;) {
        struct loop_task *task = LIST_ITEM(link, struct loop_task, link);
        task->fn(task->arg);
    }
}

uint64_t loop_random_below(struct loop *loop, uint64_t bound)
{
    assert(bound != 0);
    /* What lies above the last whole multiple of bound would favour small numbers. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t drawn;
    do
        drawn = loop_random(loop);
    while (drawn >= limit);
    return drawn % bound;
}

void loop_watch_start(struct loop *loop, struct loop_watch *watch, int fd, unsigned events,
                      loop_fd_fn fn, void *arg)
{
    assert(events != 0);
    watch->fd = fd;
    watch->events = events;
    watch->fn = fn;
    watch->arg = arg;
    loop->ops->watch(loop, watch);
}

void loop_watch_stop(struct loop *loop, struct loop_watch *watch)
{
    if (watch->events == 0)
        return;
    watch->events = 0;
    loop->ops->watch(loop, watch);
}
