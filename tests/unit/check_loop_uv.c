#include "edge/loop_uv.h"
#include "tests/lib/suite.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT_MS = 5000, LOG_MAX = 64 };

static struct loop_uv l;
static char letter_a[] = "a", letter_b[] = "b", letter_c[] = "c", letter_d[] = "d",
            letter_x[] = "x";
static char seen[LOG_MAX]; /* one letter an event, in order */
static size_t seen_len;

static void note(char what)
{
    ck_assert_uint_lt(seen_len, LOG_MAX - 1);
    seen[seen_len++] = what;
    seen[seen_len] = '\0';
}

static void note_arg(void *arg)
{
    note(*(const char *)arg);
}

static void setup(void)
{
    loop_uv_init(&l);
    seen_len = 0;
    seen[0] = '\0';
}

static void teardown(void)
{
    loop_uv_fini(&l); /* asserts that nothing was left */
}

static void run_out(void)
{
    ck_assert(loop_uv_run_out(&l, LIMIT_MS));
}

/* --- timers and tasks ----------------------------------------------------------------------- */

START_TEST(timers_run_in_order_of_their_due_times)
{
    struct loop_timer a = {0}, b = {0}, c = {0}, stopped = {0};
    loop_timer_start(&l.loop, &c, 20, note_arg, letter_c);
    loop_timer_start(&l.loop, &stopped, 2, note_arg, letter_x);
    loop_timer_start(&l.loop, &a, 1, note_arg, letter_a);
    loop_timer_start(&l.loop, &b, 1, note_arg, letter_b);
    loop_timer_stop(&l.loop, &stopped);
    uint64_t before = loop_now_ms(&l.loop);
    run_out();
    ck_assert_str_eq(seen, "abc");
    ck_assert_uint_ge(loop_now_ms(&l.loop) - before, 20);
}
END_TEST

START_TEST(a_stopped_timer_does_not_keep_the_loop_alive)
{
    struct loop_timer timer = {0};
    loop_timer_start(&l.loop, &timer, 3600 * 1000, note_arg, letter_x);
    loop_timer_stop(&l.loop, &timer);
    uint64_t before = loop_now_ms(&l.loop);
    run_out();
    ck_assert_uint_lt(loop_now_ms(&l.loop) - before, LIMIT_MS);
}
END_TEST

START_TEST(run_out_gives_up_at_its_limit)
{
    struct loop_timer timer = {0};
    loop_timer_start(&l.loop, &timer, 3600 * 1000, note_arg, letter_x);
    ck_assert(!loop_uv_run_out(&l, 5));
    loop_timer_stop(&l.loop, &timer);
    run_out();
}
END_TEST

struct chain {
    struct loop_timer timer;
    struct loop_task task;
    unsigned left;
    char letter;
};

static void again_at_once(void *arg)
{
    struct chain *chain = arg;
    note(chain->letter);
    if (--chain->left != 0)
        loop_timer_start(&l.loop, &chain->timer, 0, again_at_once, chain);
}

START_TEST(a_timer_that_starts_itself_anew_lets_others_run)
{
    struct chain chain = {.left = 3, .letter = 't'};
    struct loop_task task = {0};
    loop_timer_start(&l.loop, &chain.timer, 0, again_at_once, &chain);
    loop_defer(&l.loop, &task, note_arg, letter_d);
    run_out();
    /* Whether timers or tasks come first in a turn depends on libuv's version. */
    ck_assert(strcmp(seen, "tdtt") == 0 || strcmp(seen, "dttt") == 0);
}
END_TEST

static void defer_again(void *arg)
{
    struct chain *chain = arg;
    note(chain->letter);
    if (--chain->left != 0)
        loop_defer(&l.loop, &chain->task, defer_again, chain);
}

START_TEST(a_task_that_defers_itself_runs_once_a_turn)
{
    struct chain a = {.left = 3, .letter = 'a'};
    struct chain b = {.left = 3, .letter = 'b'};
    loop_defer(&l.loop, &a.task, defer_again, &a);
    loop_defer(&l.loop, &b.task, defer_again, &b);
    loop_defer(&l.loop, &a.task, defer_again, &a);
    (void)uv_run(&l.uv, UV_RUN_NOWAIT);
    ck_assert_str_eq(seen, "ab");
    run_out();
    ck_assert_str_eq(seen, "ababab");
}
END_TEST

START_TEST(a_cancelled_task_does_not_run)
{
    struct loop_task a = {0}, b = {0};
    loop_defer(&l.loop, &a, note_arg, letter_a);
    loop_defer(&l.loop, &b, note_arg, letter_b);
    loop_cancel(&a);
    run_out();
    ck_assert_str_eq(seen, "b");
}
END_TEST

/* --- file descriptors ----------------------------------------------------------------------- */

struct end {
    struct loop_watch watch;
    int fd;
    unsigned got;
    bool stop;
};

static void on_ready(void *arg, unsigned events)
{
    struct end *end = arg;
    end->got |= events;
    note(events == LOOP_READ ? 'r' : events == LOOP_WRITE ? 'w' : 'b');
    if (end->stop)
        loop_watch_stop(&l.loop, &end->watch);
}

static void make_pair(struct end *a, struct end *b)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *a = (struct end){.fd = fds[0], .stop = true};
    *b = (struct end){.fd = fds[1], .stop = true};
}

static void watch(struct end *end, unsigned events)
{
    loop_watch_start(&l.loop, &end->watch, end->fd, events, on_ready, end);
}

START_TEST(a_watch_tells_what_is_ready)
{
    struct end a, b;
    make_pair(&a, &b);
    ck_assert_int_eq(write(b.fd, "x", 1), 1);
    watch(&a, LOOP_READ | LOOP_WRITE);
    watch(&b, LOOP_READ); /* nothing to read there */
    (void)uv_run(&l.uv, UV_RUN_NOWAIT);
    ck_assert_str_eq(seen, "b");
    loop_watch_stop(&l.loop, &b.watch);
    run_out();
    (void)close(a.fd);
    (void)close(b.fd);
}
END_TEST

START_TEST(interest_can_change_and_a_stopped_watch_may_start_at_once)
{
    struct end a, b;
    make_pair(&a, &b);
    watch(&a, LOOP_READ);
    watch(&a, LOOP_WRITE);
    (void)uv_run(&l.uv, UV_RUN_NOWAIT);
    ck_assert_str_eq(seen, "w");
    watch(&a, LOOP_READ);
    loop_watch_stop(&l.loop, &a.watch);
    loop_watch_stop(&l.loop, &a.watch);
    watch(&a, LOOP_WRITE); /* the same descriptor, while its old handle is still closing */
    run_out();
    ck_assert_str_eq(seen, "ww");
    (void)close(a.fd);
    (void)close(b.fd);
}
END_TEST

/* What Redis' backend relies on: a refused connection is an event, not silence. */
START_TEST(an_error_on_the_descriptor_is_an_event)
{
    struct end a, b;
    make_pair(&a, &b);
    /* Closing with unread data resets a unix socket: the other end polls as POLLERR. */
    ck_assert_int_eq(write(a.fd, "x", 1), 1);
    (void)close(b.fd);
    watch(&a, LOOP_READ);
    run_out();
    ck_assert_uint_eq(a.got & LOOP_READ, LOOP_READ);
    char byte;
    ck_assert_int_le(read(a.fd, &byte, 1), 0);
    (void)close(a.fd);
}
END_TEST

START_TEST(a_watch_survives_an_error_that_its_owner_does_not_act_on)
{
    int fds[2];
    ck_assert_int_eq(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    (void)close(fds[0]); /* the writing end now polls as POLLERR for ever */
    struct end a = {.fd = fds[1]};
    watch(&a, LOOP_WRITE);
    (void)uv_run(&l.uv, UV_RUN_NOWAIT);
    ck_assert_str_eq(seen, "b");
    (void)uv_run(&l.uv, UV_RUN_NOWAIT);
    ck_assert_str_eq(seen, "bb");
    loop_watch_stop(&l.loop, &a.watch);
    run_out();
    (void)close(fds[1]);
}
END_TEST

/* --- clock and randomness ------------------------------------------------------------------- */

START_TEST(the_wall_clock_is_utc_and_random_numbers_differ)
{
    ck_assert_uint_gt(loop_wall_ms(&l.loop), 1600000000000u);
    uint64_t first = loop_random(&l.loop);
    unsigned same = 0;
    for (int i = 0; i < 2 * LOOP_UV_RANDOM_POOL; i++)
        same += loop_random(&l.loop) == first;
    ck_assert_uint_eq(same, 0);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_lt(loop_random_below(&l.loop, 7), 7);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("loop_uv");
    TCase *tc = tcase_create("turns");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, timers_run_in_order_of_their_due_times);
    tcase_add_test(tc, a_stopped_timer_does_not_keep_the_loop_alive);
    tcase_add_test(tc, run_out_gives_up_at_its_limit);
    tcase_add_test(tc, a_timer_that_starts_itself_anew_lets_others_run);
    tcase_add_test(tc, a_task_that_defers_itself_runs_once_a_turn);
    tcase_add_test(tc, a_cancelled_task_does_not_run);
    tcase_add_test(tc, the_wall_clock_is_utc_and_random_numbers_differ);
    suite_add_tcase(s, tc);

    tc = tcase_create("descriptors");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_watch_tells_what_is_ready);
    tcase_add_test(tc, interest_can_change_and_a_stopped_watch_may_start_at_once);
    tcase_add_test(tc, an_error_on_the_descriptor_is_an_event);
    tcase_add_test(tc, a_watch_survives_an_error_that_its_owner_does_not_act_on);
    suite_add_tcase(s, tc);
    return s;
}
