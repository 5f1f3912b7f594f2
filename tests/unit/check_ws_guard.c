/* Plays both ends of a socket: bytes go in at one, and come out at the other through recv, as
 * libwebsockets would read them. */
#include "edge/ws_guard.h"

#include "tests/lib/suite.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define MASK "\1\2\3\4"

enum { READ_MAX = 512 };

static int client, server;
static unsigned pongs, broken;
static char got[READ_MAX];
static size_t got_len;

static void on_pong(void *arg)
{
    ck_assert_ptr_eq(arg, &client);
    pongs++;
}

static void on_broken(void *arg)
{
    ck_assert_ptr_eq(arg, &client);
    broken++;
}

static const struct ws_guard_ops ops = {.pong = on_pong, .broken = on_broken};

static void setup(void)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    client = fds[0];
    server = fds[1];
    pongs = broken = 0;
    got_len = 0;
    ws_guard_start(server);
}

static void teardown(void)
{
    ws_guard_stop(server);
    (void)close(client);
    (void)close(server);
}

static void put(const char *p, size_t len)
{
    ck_assert_int_eq(write(client, p, len), (ssize_t)len);
}

#define PUT(literal) put((literal), sizeof(literal) - 1)

/* Reads until nothing more comes; at most `step` bytes a time. */
static void read_all(size_t step)
{
    ssize_t n;
    while ((n = recv(server, got + got_len, step, 0)) > 0)
        got_len += (size_t)n;
}

#define ASSERT_GOT(literal)                                                                        \
    do {                                                                                           \
        ck_assert_uint_eq(got_len, sizeof(literal) - 1);                                           \
        ck_assert_mem_eq(got, literal, sizeof(literal) - 1);                                       \
        got_len = 0;                                                                               \
    } while (0)

/* Past the request and its upgrade. */
static void upgrade(void)
{
    PUT(REQUEST);
    read_all(READ_MAX);
    ASSERT_GOT(REQUEST);
    ck_assert(ws_guard_upgrade(server, &ops, &client));
}

/* --- the request ---------------------------------------------------------------------------- */

START_TEST(a_read_ends_where_the_request_does)
{
    PUT(REQUEST "POST / HTTP/1.1\r\n\r\nbody");
    got_len = (size_t)recv(server, got, READ_MAX, 0);
    ASSERT_GOT(REQUEST);
}
END_TEST

START_TEST(a_request_in_pieces_of_any_size_is_read_whole)
{
    size_t step = (size_t)_i;
    PUT(REQUEST);
    read_all(step);
    ASSERT_GOT(REQUEST);
    ck_assert(ws_guard_upgrade(server, &ops, &client));
}
END_TEST

START_TEST(a_bare_line_feed_ends_a_line_too)
{
    PUT("GET / HTTP/1.1\nHost: a\n\nmore");
    got_len = (size_t)recv(server, got, READ_MAX, 0);
    ASSERT_GOT("GET / HTTP/1.1\nHost: a\n\n");
}
END_TEST

START_TEST(an_upgrade_in_the_middle_of_a_request_is_refused)
{
    PUT("GET / HTTP/1.1\r\n");
    read_all(READ_MAX);
    ck_assert(!ws_guard_upgrade(server, &ops, &client));
}
END_TEST

START_TEST(an_upgrade_after_more_was_read_is_refused)
{
    PUT(REQUEST "\x81\x80" MASK);
    read_all(READ_MAX);
    ck_assert(!ws_guard_upgrade(server, &ops, &client));
}
END_TEST

START_TEST(a_descriptor_that_is_not_guarded_is_never_upgraded_and_read_as_it_is)
{
    ck_assert(!ws_guard_upgrade(client, &ops, &client));
    ck_assert(!ws_guard_upgrade(-1, &ops, &client));
    ck_assert_int_eq(write(server, REQUEST "more", sizeof(REQUEST) + 3), sizeof(REQUEST) + 3);
    ck_assert_int_eq(recv(client, got, READ_MAX, 0), sizeof(REQUEST) + 3);
}
END_TEST

START_TEST(after_stop_the_descriptor_is_read_as_it_is)
{
    upgrade();
    ws_guard_stop(server);
    ws_guard_stop(server);
    PUT("\x81\x01x");
    read_all(READ_MAX);
    ASSERT_GOT("\x81\x01x");
    ck_assert_uint_eq(broken, 0);
}
END_TEST

START_TEST(drain_leaves_nothing_to_read)
{
    PUT(REQUEST "POST / HTTP/1.1\r\n\r\nbody");
    (void)recv(server, got, READ_MAX, 0);
    ws_guard_drain(server);
    char byte;
    ck_assert_int_eq(recvfrom(server, &byte, 1, 0, NULL, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);
}
END_TEST

/* --- frames --------------------------------------------------------------------------------- */

struct frames {
    const char *bytes;
    size_t len;
    size_t fine; /* how many of the bytes may be read */
    unsigned pongs;
};

#define FINE(literal, pongs)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1, sizeof(literal) - 1, (pongs)                               \
    }
#define BROKEN_AT(at, literal)                                                                     \
    {                                                                                              \
        (literal), sizeof(literal) - 1, (at), 0                                                    \
    }
#define TEXT "\x81\x82" MASK "hi" /* 8 bytes */
#define X42 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X126 X42 X42 X42

static const struct frames FRAMES[] = {
    FINE(TEXT, 0),
    FINE(TEXT TEXT TEXT, 0),
    FINE("\x81\x80" MASK TEXT, 0), /* empty */
    FINE("\x82\x81" MASK "x", 0),
    FINE("\x01\x81" MASK "a\x89\x80" MASK "\x00\x81" MASK "b\x80\x81" MASK "c" TEXT, 0),
    FINE("\x8a\x80" MASK, 1),
    FINE("\x8a\x83" MASK "abc" TEXT "\x8a\x80" MASK, 2),
    FINE("\x81\xfe\x00\x7e" MASK X126 TEXT, 0),
    FINE("\x81\xff\x00\x00\x00\x00\x00\x01\x00\x00" MASK "ab", 0), /* and more to come */
    FINE("\x88\x82" MASK "\x03\xe8", 0),
    FINE("\x88\x80" MASK, 0),
    BROKEN_AT(1, "\x88\x81" MASK "\x03"),       /* half a close code */
    BROKEN_AT(3, "\x81\xfe\x00\x7d" MASK X126), /* lengths in more bytes than they need */
    BROKEN_AT(11, TEXT "\x82\xfe\x00\x03" MASK "abc"),
    BROKEN_AT(9, "\x81\xff\x00\x00\x00\x00\x00\x00\xff\xff" MASK X126),
    BROKEN_AT(9, "\x81\xff\x00\x00\x00\x00\x00\x00\x00\x02" MASK "ab"),
    BROKEN_AT(1, "\x81\x02hi"), /* unmasked */
    BROKEN_AT(9, TEXT "\x81\x02hi"),
    BROKEN_AT(1, "\x89\x00"),
    BROKEN_AT(1, "\x88\x00"),
    BROKEN_AT(1, "\x81\x7e\x00\x03"
                 "abc"),
    BROKEN_AT(0, "\xc1\x82" MASK "hi"), /* reserved bits */
    BROKEN_AT(8, TEXT "\xa1\x82" MASK "hi"),
    BROKEN_AT(0, "\x91\x82" MASK "hi"),
    BROKEN_AT(0, "\x83\x82" MASK "hi"), /* reserved opcodes */
    BROKEN_AT(0, "\x87\x82" MASK "hi"),
    BROKEN_AT(0, "\x8b\x82" MASK "hi"),
    BROKEN_AT(0, "\x8f\x82" MASK "hi"),
    BROKEN_AT(0, "\x09\x80" MASK), /* control frames in fragments, or long */
    BROKEN_AT(1, "\x89\xfe\x00\x7e" MASK),
    BROKEN_AT(0, "\x80\x80" MASK), /* fragments out of place */
    BROKEN_AT(6, "\x01\x80" MASK "\x81\x80" MASK),
    BROKEN_AT(8, TEXT "\x80\x80" MASK),
    BROKEN_AT(9, "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x01" MASK "a"), /* above 2^63 */
};
enum { FRAMES_COUNT = sizeof(FRAMES) / sizeof(FRAMES[0]) };

static void assert_frames(const struct frames *f, size_t step)
{
    upgrade();
    put(f->bytes, f->len);
    read_all(step);
    /* In small steps, a read that is all bad looks like "nothing yet": read on past it. */
    while (recv(server, got + got_len, step, 0) > 0)
        ck_abort_msg("bytes came behind the bad ones");
    ck_assert_uint_eq(got_len, f->fine);
    ck_assert_mem_eq(got, f->bytes, f->fine);
    ck_assert_uint_eq(pongs, f->pongs);
    ck_assert_uint_eq(broken, f->fine < f->len);
}

START_TEST(frames_pass_up_to_the_byte_that_breaks_the_rules)
{
    assert_frames(&FRAMES[_i], READ_MAX);
}
END_TEST

START_TEST(reads_of_any_size_make_no_difference)
{
    for (size_t step = 1; step < 8; step++) {
        assert_frames(&FRAMES[_i], step);
        teardown();
        setup();
    }
}
END_TEST

START_TEST(behind_a_bad_byte_nothing_passes_but_the_end)
{
    upgrade();
    PUT("\x81\x02hi" TEXT);
    read_all(READ_MAX);
    ck_assert_uint_eq(got_len, 1);
    PUT(TEXT);
    ck_assert_int_eq(recv(server, got, READ_MAX, 0), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(broken, 1);
    (void)close(client);
    ck_assert_int_eq(recv(server, got, READ_MAX, 0), 0);
    client = dup(server);
}
END_TEST

START_TEST(many_descriptors_are_kept_apart)
{
    enum { MANY = 200 };
    int fds[MANY][2];
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds[i]), 0);
        ws_guard_start(fds[i][1]);
        ck_assert_int_eq(write(fds[i][0], REQUEST, sizeof(REQUEST) - 1), sizeof(REQUEST) - 1);
    }
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(recv(fds[i][1], got, READ_MAX, 0), sizeof(REQUEST) - 1);
        ck_assert(ws_guard_upgrade(fds[i][1], &ops, &client));
    }
    ck_assert_int_eq(write(fds[7][0], "\x81\x01x", 3), 3);
    ck_assert_int_eq(recv(fds[7][1], got, READ_MAX, 0), 1);
    ck_assert_uint_eq(broken, 1);
    ck_assert_int_eq(write(fds[8][0], TEXT, 8), 8);
    ck_assert_int_eq(recv(fds[8][1], got, READ_MAX, 0), 8);
    for (int i = 0; i < MANY; i++) {
        ws_guard_stop(fds[i][1]);
        (void)close(fds[i][0]);
        (void)close(fds[i][1]);
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("ws_guard");
    TCase *tc = tcase_create("request");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_read_ends_where_the_request_does);
    tcase_add_loop_test(tc, a_request_in_pieces_of_any_size_is_read_whole, 1, sizeof(REQUEST));
    tcase_add_test(tc, a_bare_line_feed_ends_a_line_too);
    tcase_add_test(tc, an_upgrade_in_the_middle_of_a_request_is_refused);
    tcase_add_test(tc, an_upgrade_after_more_was_read_is_refused);
    tcase_add_test(tc, a_descriptor_that_is_not_guarded_is_never_upgraded_and_read_as_it_is);
    tcase_add_test(tc, after_stop_the_descriptor_is_read_as_it_is);
    tcase_add_test(tc, drain_leaves_nothing_to_read);
    suite_add_tcase(s, tc);

    tc = tcase_create("frames");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, frames_pass_up_to_the_byte_that_breaks_the_rules, 0, FRAMES_COUNT);
    tcase_add_loop_test(tc, reads_of_any_size_make_no_difference, 0, FRAMES_COUNT);
    tcase_add_test(tc, behind_a_bad_byte_nothing_passes_but_the_end);
    tcase_add_test(tc, many_descriptors_are_kept_apart);
    suite_add_tcase(s, tc);
    return s;
}
