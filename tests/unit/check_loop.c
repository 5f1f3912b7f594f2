/* loop.c, played on the fake loop: so this checks the fake loop as well. */
#include "base/loop.h"

#include "tests/lib/fake_loop.h"
#include "tests/lib/suite.h"

enum { TIMERS = 300 };

static struct fake_loop fake;

/* What ran, in order. */
static int ran[TIMERS * 2];
static size_t runs;

struct alarm {
    struct loop_timer timer;
    struct loop_task task;
    int number;
    uint64_t ran_at_ms;
};

static struct alarm alarms[TIMERS];

static void make(void)
{
    fake_loop_init(&fake, 7);
    runs = 0;
    memset(alarms, 0, sizeof(alarms));
    for (int i = 0; i < TIMERS; i++)
        alarms[i].number = i;
}

static void unmake(void)
{
    fake_loop_fini(&fake);
}

static void note(void *arg)
{
    struct alarm *a = arg;
    ran[runs++] = a->number;
    a->ran_at_ms = loop_now_ms(&fake.loop);
}

static void start(int number, uint64_t delay_ms)
{
    loop_timer_start(&fake.loop, &alarms[number].timer, delay_ms, note, &alarms[number]);
}

static void defer(int number)
{
    loop_defer(&fake.loop, &alarms[number].task, note, &alarms[number]);
}

/* --- timers --------------------------------------------------------------------------------- */

START_TEST(a_timer_runs_when_it_is_due_and_not_before)
{
    start(0, 100);
    ck_assert(loop_timer_running(&alarms[0].timer));
    fake_loop_advance(&fake, 99);
    ck_assert_uint_eq(runs, 0);
    fake_loop_advance(&fake, 1);
    ck_assert_uint_eq(runs, 1);
    ck_assert(!loop_timer_running(&alarms[0].timer));
    fake_loop_advance(&fake, 1000);
    ck_assert_uint_eq(runs, 1);
}
END_TEST

START_TEST(a_timer_without_delay_runs_from_the_loop_and_not_from_its_start)
{
    start(0, 0);
    ck_assert_uint_eq(runs, 0);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(runs, 1);
}
END_TEST

START_TEST(timers_run_in_the_order_of_their_times_and_equal_ones_as_started)
{
    static const uint64_t DELAYS[] = {30, 10, 20, 10, 30, 10};
    static const int WANT[] = {1, 3, 5, 2, 0, 4};
    for (int i = 0; i < 6; i++)
        start(i, DELAYS[i]);
    fake_loop_advance(&fake, 30);
    ck_assert_uint_eq(runs, 6);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(ran[i], WANT[i]);
    ck_assert_uint_eq(alarms[2].ran_at_ms, FAKE_LOOP_START_MS + 20);
}
END_TEST

START_TEST(a_stopped_timer_does_not_run)
{
    start(0, 10);
    start(1, 10);
    loop_timer_stop(&fake.loop, &alarms[0].timer);
    loop_timer_stop(&fake.loop, &alarms[0].timer); /* harmless */
    fake_loop_advance(&fake, 10);
    ck_assert_uint_eq(runs, 1);
    ck_assert_int_eq(ran[0], 1);
}
END_TEST

START_TEST(a_timer_that_is_started_again_runs_once_at_its_new_time)
{
    start(0, 10);
    start(0, 50);
    fake_loop_advance(&fake, 49);
    ck_assert_uint_eq(runs, 0);
    fake_loop_advance(&fake, 51);
    ck_assert_uint_eq(runs, 1);
}
END_TEST

static void stop_next(void *arg)
{
    struct alarm *a = arg;
    note(a);
    loop_timer_stop(&fake.loop, &alarms[a->number + 1].timer);
    loop_cancel(&alarms[a->number + 1].task);
}

START_TEST(a_timer_may_stop_another_that_is_due_in_the_same_turn)
{
    loop_timer_start(&fake.loop, &alarms[0].timer, 10, stop_next, &alarms[0]);
    start(1, 10);
    start(2, 10);
    fake_loop_advance(&fake, 10);
    ck_assert_uint_eq(runs, 2);
    ck_assert_int_eq(ran[1], 2);
}
END_TEST

static void start_again(void *arg)
{
    struct alarm *a = arg;
    note(a);
    if (runs < 3)
        loop_timer_start(&fake.loop, &a->timer, 0, start_again, a);
}

START_TEST(a_timer_that_starts_itself_without_delay_waits_for_the_next_turn)
{
    loop_timer_start(&fake.loop, &alarms[0].timer, 0, start_again, &alarms[0]);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(runs, 1);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(runs, 2);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(runs, 3);
}
END_TEST

START_TEST(next_due_is_the_earliest_running_timer)
{
    ck_assert_uint_eq(loop_next_due(&fake.loop), UINT64_MAX);
    start(0, 50);
    start(1, 20);
    ck_assert_uint_eq(loop_next_due(&fake.loop), FAKE_LOOP_START_MS + 20);
    loop_timer_stop(&fake.loop, &alarms[1].timer);
    ck_assert_uint_eq(loop_next_due(&fake.loop), FAKE_LOOP_START_MS + 50);
    loop_timer_stop(&fake.loop, &alarms[0].timer);
    ck_assert_uint_eq(loop_next_due(&fake.loop), UINT64_MAX);
}
END_TEST

/* The heap, through random starts, restarts and stops. */
START_TEST(many_timers_run_each_at_its_time)
{
    struct rng rng;
    uint64_t due[TIMERS] = {0}; /* 0: not running */
    rng_init(&rng, (uint64_t)_i);
    for (int step = 0; step < 4 * TIMERS; step++) {
        size_t i = rng_below(&rng, TIMERS);
        if (rng_chance(&rng, 70)) {
            uint64_t delay = rng_below(&rng, 1000);
            start((int)i, delay);
            due[i] = FAKE_LOOP_START_MS + delay;
        } else {
            loop_timer_stop(&fake.loop, &alarms[i].timer);
            due[i] = 0;
        }
    }
    fake_loop_advance(&fake, 1000);
    size_t running = 0;
    for (size_t i = 0; i < TIMERS; i++) {
        ck_assert_uint_eq(alarms[i].ran_at_ms, due[i]);
        running += due[i] != 0;
    }
    ck_assert_uint_eq(runs, running);
}
END_TEST

/* --- tasks ---------------------------------------------------------------------------------- */

START_TEST(a_task_runs_once_on_the_next_turn_however_often_it_was_deferred)
{
    defer(0);
    defer(1);
    defer(0);
    ck_assert_uint_eq(runs, 0);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(runs, 2);
    ck_assert_int_eq(ran[0], 0);
    ck_assert_int_eq(ran[1], 1);
    ck_assert(!fake_loop_step(&fake));
}
END_TEST

START_TEST(a_cancelled_task_does_not_run)
{
    defer(0);
    defer(1);
    loop_cancel(&alarms[0].task);
    loop_cancel(&alarms[0].task); /* harmless */
    loop_cancel(&alarms[2].task); /* never deferred */
    fake_loop_turn(&fake);
    ck_assert_uint_eq(runs, 1);
    ck_assert_int_eq(ran[0], 1);
}
END_TEST

START_TEST(a_task_may_cancel_another_of_the_same_turn)
{
    loop_defer(&fake.loop, &alarms[0].task, stop_next, &alarms[0]);
    defer(1);
    defer(2);
    fake_loop_turn(&fake);
    ck_assert_uint_eq(runs, 2);
    ck_assert_int_eq(ran[1], 2);
}
END_TEST

static void defer_again(void *arg)
{
    struct alarm *a = arg;
    note(a);
    if (runs < 3)
        loop_defer(&fake.loop, &a->task, defer_again, a);
}

START_TEST(a_task_that_is_deferred_from_a_task_waits_for_the_next_turn)
{
    loop_defer(&fake.loop, &alarms[0].task, defer_again, &alarms[0]);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(runs, 1);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(runs, 2);
    ck_assert(fake_loop_step(&fake));
    ck_assert_uint_eq(runs, 3);
    ck_assert(!fake_loop_step(&fake));
}
END_TEST

/* --- watches -------------------------------------------------------------------------------- */

static unsigned seen_events;

static void see(void *arg, unsigned events)
{
    seen_events = events;
    if (arg != NULL)
        loop_watch_stop(&fake.loop, arg);
}

START_TEST(a_watch_hears_only_what_it_asked_for)
{
    struct loop_watch watch = {.events = 0};
    loop_watch_start(&fake.loop, &watch, 5, LOOP_READ, see, NULL);
    ck_assert_ptr_eq(fake_loop_watch(&fake, 5), &watch);
    ck_assert(!fake_loop_fire(&watch, LOOP_WRITE));
    ck_assert(fake_loop_fire(&watch, LOOP_READ | LOOP_WRITE));
    ck_assert_uint_eq(seen_events, LOOP_READ);

    loop_watch_start(&fake.loop, &watch, 5, LOOP_READ | LOOP_WRITE, see, NULL);
    ck_assert(fake_loop_fire(&watch, LOOP_WRITE));
    ck_assert_uint_eq(seen_events, LOOP_WRITE);
    loop_watch_stop(&fake.loop, &watch);
    loop_watch_stop(&fake.loop, &watch); /* harmless */
    ck_assert_ptr_null(fake_loop_watch(&fake, 5));
    ck_assert(!fake_loop_fire(&watch, LOOP_READ));
}
END_TEST

START_TEST(a_watch_may_be_stopped_from_its_own_callback)
{
    struct loop_watch watch = {.events = 0};
    loop_watch_start(&fake.loop, &watch, 5, LOOP_READ, see, &watch);
    ck_assert(fake_loop_fire(&watch, LOOP_READ));
    ck_assert_ptr_null(fake_loop_watch(&fake, 5));
}
END_TEST

/* --- clocks and chance ---------------------------------------------------------------------- */

START_TEST(the_wall_clock_may_jump_and_the_other_does_not)
{
    ck_assert_uint_eq(loop_wall_ms(&fake.loop), FAKE_LOOP_WALL_MS);
    fake_loop_advance(&fake, 10);
    ck_assert_uint_eq(loop_wall_ms(&fake.loop), FAKE_LOOP_WALL_MS + 10);
    fake_loop_set_wall(&fake, 5);
    ck_assert_uint_eq(loop_wall_ms(&fake.loop), 5);
    ck_assert_uint_eq(loop_now_ms(&fake.loop), FAKE_LOOP_START_MS + 10);
}
END_TEST

START_TEST(the_same_seed_draws_the_same_numbers)
{
    uint64_t first[10];
    for (size_t i = 0; i < 10; i++)
        first[i] = loop_random(&fake.loop);
    ck_assert_uint_ne(first[0], first[1]);
    fake_loop_fini(&fake);
    fake_loop_init(&fake, 7);
    for (size_t i = 0; i < 10; i++)
        ck_assert_uint_eq(loop_random(&fake.loop), first[i]);
}
END_TEST

START_TEST(random_below_stays_below_and_reaches_all)
{
    unsigned seen[6] = {0};
    for (size_t i = 0; i < 6000; i++)
        seen[loop_random_below(&fake.loop, 6)]++;
    for (size_t i = 0; i < 6; i++)
        ck_assert_uint_gt(seen[i], 800); /* 1000, more or less: this seed always draws the same */
    ck_assert_uint_eq(loop_random_below(&fake.loop, 1), 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("loop");
    TCase *tc = tcase_create("loop");
    tcase_add_checked_fixture(tc, make, unmake);
    tcase_add_test(tc, a_timer_runs_when_it_is_due_and_not_before);
    tcase_add_test(tc, a_timer_without_delay_runs_from_the_loop_and_not_from_its_start);
    tcase_add_test(tc, timers_run_in_the_order_of_their_times_and_equal_ones_as_started);
    tcase_add_test(tc, a_stopped_timer_does_not_run);
    tcase_add_test(tc, a_timer_that_is_started_again_runs_once_at_its_new_time);
    tcase_add_test(tc, a_timer_may_stop_another_that_is_due_in_the_same_turn);
    tcase_add_test(tc, a_timer_that_starts_itself_without_delay_waits_for_the_next_turn);
    tcase_add_test(tc, next_due_is_the_earliest_running_timer);
    tcase_add_loop_test(tc, many_timers_run_each_at_its_time, 0, 5);
    tcase_add_test(tc, a_task_runs_once_on_the_next_turn_however_often_it_was_deferred);
    tcase_add_test(tc, a_cancelled_task_does_not_run);
    tcase_add_test(tc, a_task_may_cancel_another_of_the_same_turn);
    tcase_add_test(tc, a_task_that_is_deferred_from_a_task_waits_for_the_next_turn);
    tcase_add_test(tc, a_watch_hears_only_what_it_asked_for);
    tcase_add_test(tc, a_watch_may_be_stopped_from_its_own_callback);
    tcase_add_test(tc, the_wall_clock_may_jump_and_the_other_does_not);
    tcase_add_test(tc, the_same_seed_draws_the_same_numbers);
    tcase_add_test(tc, random_below_stays_below_and_reaches_all);
    suite_add_tcase(suite, tc);
    return suite;
}
