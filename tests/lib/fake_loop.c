#include "tests/lib/fake_loop.h"

#include <assert.h>

static struct fake_loop *fake_of(struct loop *loop)
{
    return RD_CONTAINER(loop, struct fake_loop, loop);
}

static uint64_t now_ms(struct loop *loop)
{
    return fake_of(loop)->now_ms;
}

static uint64_t wall_ms(struct loop *loop)
{
    return fake_of(loop)->wall_ms;
}

static uint64_t draw(struct loop *loop)
{
    return rng_next(&fake_of(loop)->rng);
}

static void arm(struct loop *loop, uint64_t due_ms)
{
    fake_of(loop)->armed_ms = due_ms;
}

static void wake(struct loop *loop)
{
    fake_of(loop)->woken = true;
}

static size_t place_of(const struct fake_loop *fake, const struct loop_watch *watch)
{
    size_t i = 0;
    while (i < fake->watch_count && fake->watches[i] != watch)
        i++;
    return i;
}

static void watch_changed(struct loop *loop, struct loop_watch *watch)
{
    struct fake_loop *fake = fake_of(loop);
    size_t place = place_of(fake, watch);

    if (watch->events != 0 && place == fake->watch_count) {
        assert(fake->watch_count < FAKE_LOOP_WATCHES_MAX);
        fake->watches[fake->watch_count++] = watch;
        watch->impl = fake;
    } else if (watch->events == 0) {
        assert(place < fake->watch_count);
        fake->watches[place] = fake->watches[--fake->watch_count];
        watch->impl = NULL;
    }
}

static const struct loop_ops OPS = {
    .now_ms = now_ms,
    .wall_ms = wall_ms,
    .random = draw,
    .arm = arm,
    .wake = wake,
    .watch = watch_changed,
};

void fake_loop_init(struct fake_loop *fake, uint64_t seed)
{
    *fake = (struct fake_loop){
        .now_ms = FAKE_LOOP_START_MS,
        .wall_ms = FAKE_LOOP_WALL_MS,
        .armed_ms = UINT64_MAX,
    };
    rng_init(&fake->rng, seed);
    loop_init(&fake->loop, &OPS);
}

void fake_loop_fini(struct fake_loop *fake)
{
    assert(fake->watch_count == 0);
    loop_fini(&fake->loop);
}

bool fake_loop_step(struct fake_loop *fake)
{
    bool any = false;
    if (fake->woken) {
        any = true;
        fake->woken = false;
        loop_run_tasks(&fake->loop);
    }
    if (fake->armed_ms <= fake->now_ms) {
        any = true;
        fake->armed_ms = UINT64_MAX;
        loop_run_due(&fake->loop);
    }
    return any;
}

void fake_loop_turn(struct fake_loop *fake)
{
    size_t rounds = 0;
    while (fake_loop_step(fake))
        assert(++rounds < FAKE_LOOP_ROUNDS_MAX);
    assert(list_empty(&fake->loop.tasks)); /* else loop.c forgot to ask for a turn */
}

static void move_clocks(struct fake_loop *fake, uint64_t ms)
{
    fake->now_ms += ms;
    fake->wall_ms += ms;
}

void fake_loop_advance(struct fake_loop *fake, uint64_t ms)
{
    uint64_t until = fake->now_ms + ms;

    fake_loop_turn(fake);
    while (fake->armed_ms <= until) {
        move_clocks(fake, fake->armed_ms - fake->now_ms);
        fake_loop_turn(fake);
    }
    move_clocks(fake, until - fake->now_ms);
    assert(loop_next_due(&fake->loop) > until); /* else loop.c forgot to arm */
}

void fake_loop_set_wall(struct fake_loop *fake, uint64_t to_ms)
{
    fake->wall_ms = to_ms;
}

struct loop_watch *fake_loop_watch(struct fake_loop *fake, int fd)
{
    for (size_t i = 0; i < fake->watch_count; i++)
        if (fake->watches[i]->fd == fd)
            return fake->watches[i];
    return NULL;
}

bool fake_loop_fire(struct loop_watch *watch, unsigned events)
{
    unsigned wanted = watch->events & events;
    if (wanted != 0)
        watch->fn(watch->arg, wanted);
    return wanted != 0;
}
