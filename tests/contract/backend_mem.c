#include "tests/contract/backend.h"

#include "base/xalloc.h"
#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/faulty_roomlog.h"

#include <check.h>
#include <stdlib.h>

struct mem {
    struct fake_loop fake;
    struct metrics metrics;
    struct roomlog *inner; /* the log in the process */
    struct roomlog *log;   /* what the test is given */
};

static struct mem *create(const struct backend_limits *limits)
{
    struct mem *mem = xalloc_zero(sizeof(*mem));
    fake_loop_init(&mem->fake, 1);
    mem->inner = roomlog_mem_create(&mem->fake.loop, &mem->metrics,
                                    &(struct roomlog_mem_limits){
                                        .max_entries = limits->max_entries,
                                        .max_bytes = 64 << 20,
                                        .max_rooms = 10000,
                                        .max_refs = 10000,
                                        .dedupe_ms = limits->dedupe_ms,
                                        .max_in_flight = limits->max_in_flight,
                                        .max_state_keys = limits->state_keys,
                                        .max_state_bytes = limits->state_bytes,
                                        .max_states_bytes = 16 << 20,
                                    });
    mem->log = mem->inner;
    return mem;
}

static void *create_plain(const struct backend_limits *limits, struct roomlog **out_log)
{
    struct mem *mem = create(limits);
    *out_log = mem->log;
    return mem;
}

static void *create_faulty(const struct backend_limits *limits, struct roomlog **out_log)
{
    struct mem *mem = create(limits);
    mem->log = faulty_roomlog_create(&mem->fake.loop, mem->inner);
    *out_log = mem->log;
    return mem;
}

static void destroy(void *self)
{
    struct mem *mem = self;
    roomlog_close(mem->log);
    fake_loop_turn(&mem->fake);
    fake_loop_fini(&mem->fake);
    free(mem);
}

/* With a clock that stands still, what doesn't come while there is something to do never comes. */
static bool run(void *self, backend_done_fn done, void *arg)
{
    struct mem *mem = self;
    while (!done(arg))
        if (!fake_loop_step(&mem->fake))
            return false;
    return true;
}

static void pass(void *self, uint64_t ms)
{
    struct mem *mem = self;
    fake_loop_advance(&mem->fake, ms);
}

static void add(void *self, struct str room, struct stream_id id,
                const struct roomlog_publish *what)
{
    struct mem *mem = self;
    ck_assert(roomlog_mem_add(mem->inner, room, id, what));
}

static void trim(void *self, struct str room, size_t keep)
{
    struct mem *mem = self;
    roomlog_mem_trim(mem->inner, room, keep);
}

static void del(void *self, struct str room, struct stream_id id)
{
    struct mem *mem = self;
    ck_assert(roomlog_mem_delete(mem->inner, room, id));
}

static void reset(void *self, struct str room)
{
    struct mem *mem = self;
    roomlog_mem_reset(mem->inner, room);
}

static void lose_tail(void *self, struct str room, size_t lost)
{
    struct mem *mem = self;
    roomlog_mem_lose_tail(mem->inner, room, lost);
}

const struct backend backend_mem = {
    .name = "mem",
    .create = create_plain,
    .destroy = destroy,
    .run = run,
    .pass = pass,
    .add = add,
    .trim = trim,
    .del = del,
    .reset = reset,
    .lose_tail = lose_tail,
};

const struct backend backend_faulty = {
    .name = "faulty",
    .create = create_faulty,
    .destroy = destroy,
    .run = run,
    .pass = pass,
    .add = add,
    .trim = trim,
    .del = del,
    .reset = reset,
    .lose_tail = lose_tail,
};
