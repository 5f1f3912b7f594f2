#include "roomlog/redis_wire.h"

#include "tests/lib/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct redis_wire wire;
static int peer; /* plays Redis; blocking */

static void set_up(void)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    redis_wire_init(&wire, ends[0]);
    peer = ends[1];
}

static void tear_down(void)
{
    redis_wire_fini(&wire);
    (void)close(peer);
}

static void say(const void *bytes, size_t len)
{
    ck_assert_int_eq(write(peer, bytes, len), (ssize_t)len);
}

static enum redis_wire_end read_up_to(size_t budget)
{
    return redis_wire_read(&wire, &budget);
}

/* The next reply of what was read, which must be there, as a text. */
static struct str next_text(void)
{
    const struct redis_reply *reply;
    struct str text;
    ck_assert_int_eq(redis_wire_next(&wire, &reply), REDIS_WIRE_DONE);
    ck_assert_ptr_nonnull(reply);
    ck_assert(redis_reply_text(reply, &text));
    return text;
}

static void no_reply(void)
{
    const struct redis_reply *reply;
    ck_assert_int_eq(redis_wire_next(&wire, &reply), REDIS_WIRE_DONE);
    ck_assert_ptr_null(reply);
}

/* --- out ------------------------------------------------------------------------------------ */

START_TEST(commands_go_out_together_word_by_word)
{
    static const char want[] = "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\na\r\nb\0-------\r\n"
                               "*2\r\n$0\r\n\r\n$1\r\nx\r\n";
    const struct str set[] = {STR("SET"), STR(""), STR("a\r\nb\0-------")};
    const struct str odd[] = {{NULL, 0}, STR("x")};
    char got[128];
    redis_wire_put(&wire, set, 3);
    redis_wire_put(&wire, odd, 2);
    ck_assert_int_eq(redis_wire_write(&wire), REDIS_WIRE_DONE);
    ck_assert_int_eq(read(peer, got, sizeof(got)), (ssize_t)sizeof(want) - 1);
    ck_assert_mem_eq(got, want, sizeof(want) - 1);
    ck_assert_int_eq(redis_wire_write(&wire), REDIS_WIRE_DONE);
}
END_TEST

START_TEST(what_the_socket_does_not_take_waits_its_turn)
{
    enum { LEN = 3 << 20 };
    char *data = malloc(LEN);
    char *got = malloc(LEN + 64);
    ck_assert(data != NULL && got != NULL);
    for (size_t i = 0; i < LEN; i++)
        data[i] = (char)(i * 7 + i / 251);
    const struct str words[] = {{data, LEN}};
    redis_wire_put(&wire, words, 1);
    const struct str last[] = {STR("PING")};
    size_t have = 0;
    unsigned full = 0;
    enum redis_wire_end end = redis_wire_write(&wire);
    ck_assert_int_eq(end, REDIS_WIRE_MORE);
    redis_wire_put(&wire, last, 1); /* behind what waits */
    for (; end == REDIS_WIRE_MORE; end = redis_wire_write(&wire), full++)
        have += (size_t)read(peer, got + have, LEN + 64 - have);
    ck_assert_int_eq(end, REDIS_WIRE_DONE);
    ck_assert_uint_gt(full, 1);
    ck_assert_uint_eq(wire.out.capacity, 0); /* given back */
    static const char head[] = "*1\r\n$3145728\r\n";
    static const char tail[] = "\r\n*1\r\n$4\r\nPING\r\n";
    size_t want = sizeof(head) - 1 + LEN + sizeof(tail) - 1;
    while (have < want)
        have += (size_t)read(peer, got + have, want - have);
    ck_assert_mem_eq(got, head, sizeof(head) - 1);
    ck_assert_mem_eq(got + sizeof(head) - 1, data, LEN);
    ck_assert_mem_eq(got + sizeof(head) - 1 + LEN, tail, sizeof(tail) - 1);
    free(data);
    free(got);
}
END_TEST

/* --- in ------------------------------------------------------------------------------------- */

START_TEST(replies_come_out_however_their_bytes_fall)
{
    static const char said[] = "+one\r\n$3\r\ntwo\r\n$0\r\n\r\n+four\r\n";
    static const char *const want[] = {"one", "two", "", "four"};
    size_t len = sizeof(said) - 1;
    size_t piece = (size_t)_i + 1;
    size_t at = 0;
    for (size_t i = 0; i < len; i += piece) {
        say(said + i, len - i < piece ? len - i : piece);
        ck_assert_int_eq(read_up_to(1 << 16), REDIS_WIRE_DONE);
        const struct redis_reply *reply;
        for (;;) {
            ck_assert_int_eq(redis_wire_next(&wire, &reply), REDIS_WIRE_DONE);
            if (reply == NULL)
                break;
            struct str text;
            ck_assert(redis_reply_text(reply, &text));
            ck_assert(str_eq(text, str_from(want[at++])));
        }
    }
    ck_assert_uint_eq(at, 4);
}
END_TEST

START_TEST(a_read_takes_no_more_than_its_budget)
{
    static char said[1000];
    memcpy(said, "$990\r\n", 6);
    memcpy(said + 996, "\r\n+x", 4);
    size_t budget = 600;
    say(said, sizeof(said));
    ck_assert_int_eq(redis_wire_read(&wire, &budget), REDIS_WIRE_MORE);
    ck_assert_uint_eq(budget, 0);
    no_reply();
    budget = 600;
    ck_assert_int_eq(redis_wire_read(&wire, &budget), REDIS_WIRE_DONE);
    ck_assert_uint_eq(budget, 200);
    ck_assert_uint_eq(next_text().len, 990);
    no_reply();
    ck_assert_int_eq(read_up_to(600), REDIS_WIRE_DONE); /* nothing there */
    say("\r\n", 2);
    ck_assert_int_eq(read_up_to(600), REDIS_WIRE_DONE);
    ck_assert(str_eq(next_text(), STR("x")));
}
END_TEST

/* The rest of a reply of `left` bytes in all, while the wire reads it. keep: what its buffer may
 * not go above; 0: whatever. */
static void stream(size_t left, size_t keep)
{
    static char bytes[60000];
    while (left != 0) {
        size_t len = left < sizeof(bytes) ? left : sizeof(bytes);
        say(bytes, len);
        left -= len;
        while (read_up_to(1 << 20) == REDIS_WIRE_MORE)
            no_reply();
        if (left != 0)
            no_reply();
        ck_assert(keep == 0 || wire.in.capacity <= keep);
    }
}

START_TEST(memory_that_a_large_reply_took_is_given_back)
{
    enum { LEN = 5 << 20 };
    char head[32];
    say(head, (size_t)snprintf(head, sizeof(head), "$%d\r\n", LEN));
    stream(LEN, 0);
    say("\r\n+x\r\n+y", 8); /* behind it another, and the beginning of a third */
    ck_assert_int_eq(read_up_to(1 << 20), REDIS_WIRE_DONE);
    ck_assert_uint_eq(next_text().len, LEN);
    ck_assert(str_eq(next_text(), STR("x")));
    no_reply();
    ck_assert_uint_gt(wire.in.capacity, REDIS_WIRE_KEEP); /* it holds something */
    say("\r\n", 2);
    ck_assert_int_eq(read_up_to(1 << 20), REDIS_WIRE_DONE);
    ck_assert(str_eq(next_text(), STR("y")));
    no_reply();
    ck_assert_uint_eq(wire.in.capacity, 0);
}
END_TEST

START_TEST(a_reply_that_is_too_large_is_an_error_and_takes_no_memory)
{
    enum { KEEP = 256 << 10 };
    const struct redis_reply *reply;
    char head[32];
    say(head, (size_t)snprintf(head, sizeof(head), "*2\r\n$%d\r\n", REDIS_SCAN_BYTES_MAX));
    stream(REDIS_SCAN_BYTES_MAX, KEEP);
    say("\r\n:1\r\n+next\r\n", 13);
    ck_assert_int_eq(read_up_to(KEEP), REDIS_WIRE_DONE);
    ck_assert_int_eq(redis_wire_next(&wire, &reply), REDIS_WIRE_DONE);
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(redis_reply_err(reply), RD_ETOOBIG);
    ck_assert_uint_eq(wire.passed_over, 1);
    ck_assert(str_eq(next_text(), STR("next")));
    no_reply();
    ck_assert_uint_le(wire.in.capacity, KEEP);
}
END_TEST

START_TEST(at_rest_it_holds_nothing)
{
    const struct str ping[] = {STR("PING")};
    redis_wire_put(&wire, ping, 1);
    ck_assert_int_eq(redis_wire_write(&wire), REDIS_WIRE_DONE);
    say("+PONG\r\n+x", 9);
    ck_assert_int_eq(read_up_to(100), REDIS_WIRE_DONE);
    ck_assert(str_eq(next_text(), STR("PONG")));
    redis_wire_rest(&wire);
    ck_assert_uint_eq(wire.out.capacity, 0);
    say("\r\n", 2);
    ck_assert_int_eq(read_up_to(100), REDIS_WIRE_DONE);
    ck_assert(str_eq(next_text(), STR("x"))); /* but what had come */
    redis_wire_rest(&wire);
    ck_assert_uint_eq(wire.in.capacity, 0);
    ck_assert_uint_eq(wire.scan.capacity, 0);
    no_reply();
}
END_TEST

/* --- ends ----------------------------------------------------------------------------------- */

START_TEST(the_end_of_a_connection_has_a_reason)
{
    say("-ERR max number of clients reached\r\n", 36);
    (void)shutdown(peer, SHUT_RDWR);
    const struct str ping[] = {STR("PING")};
    redis_wire_put(&wire, ping, 1);
    ck_assert_int_eq(redis_wire_write(&wire), REDIS_WIRE_LOST);
    ck_assert_str_eq(wire.reason, "Broken pipe");
    /* What was said before can still be read. */
    const struct redis_reply *reply;
    ck_assert_int_eq(read_up_to(100), REDIS_WIRE_DONE);
    ck_assert_int_eq(redis_wire_next(&wire, &reply), REDIS_WIRE_DONE);
    ck_assert_int_eq(redis_reply_err(reply), RD_ELOG);
    ck_assert_int_eq(read_up_to(100), REDIS_WIRE_LOST);
    ck_assert_str_eq(wire.reason, "Redis closed the connection");
}
END_TEST

START_TEST(who_does_not_speak_resp2_is_let_go)
{
    const struct redis_reply *reply;
    say("+OK\r\nHTTP/1.1 400\r\n", 19);
    ck_assert_int_eq(read_up_to(100), REDIS_WIRE_DONE);
    ck_assert(str_eq(next_text(), STR("OK")));
    ck_assert_int_eq(redis_wire_next(&wire, &reply), REDIS_WIRE_LOST);
    ck_assert_str_eq(wire.reason, "a reply begins with a byte that RESP2 doesn't have");
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_wire");
    TCase *tc = tcase_create("wire");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, commands_go_out_together_word_by_word);
    tcase_add_test(tc, what_the_socket_does_not_take_waits_its_turn);
    tcase_add_loop_test(tc, replies_come_out_however_their_bytes_fall, 0, 30);
    tcase_add_test(tc, a_read_takes_no_more_than_its_budget);
    tcase_add_test(tc, memory_that_a_large_reply_took_is_given_back);
    tcase_add_test(tc, a_reply_that_is_too_large_is_an_error_and_takes_no_memory);
    tcase_add_test(tc, at_rest_it_holds_nothing);
    tcase_add_test(tc, the_end_of_a_connection_has_a_reason);
    tcase_add_test(tc, who_does_not_speak_resp2_is_let_go);
    suite_add_tcase(suite, tc);
    return suite;
}
