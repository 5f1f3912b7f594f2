#include "edge/address.h"

#include "tests/lib/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REASON_MAX = 256 };

static char reason[REASON_MAX];
static char dir[64];

static void setup(void)
{
    strcpy(dir, "/tmp/check_address_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    ck_assert_int_eq(rmdir(dir), 0); /* every socket's file was removed */
}

static struct address parse(const char *text)
{
    struct address address;
    ck_assert_msg(address_parse(text, &address, reason, sizeof(reason)), "%s: %s", text, reason);
    return address;
}

static struct address unix_address(const char *name)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "unix:%s/%s", dir, name);
    return parse(text);
}

static const char *const GOOD[] = {"127.0.0.1:8080", "0.0.0.0:0", "[::1]:8080", "[::]:65535",
                                   "unix:/run/roomd.sock"};
enum { GOOD_COUNT = sizeof(GOOD) / sizeof(GOOD[0]) };

START_TEST(an_address_is_printed_as_it_was_given)
{
    char text[ADDRESS_TEXT_MAX];
    struct address address = parse(GOOD[_i]);
    address_format((const struct sockaddr *)&address.sa, address.len, text, sizeof(text));
    ck_assert_str_eq(text, GOOD[_i]);
    ck_assert_str_eq(address.text, GOOD[_i]);
}
END_TEST

static const char *const BAD[] = {
    "",      "8080",     "127.0.0.1",  "127.0.0.1:",    "127.0.0.1:x",
    ":8080", "::1:8080", "[::1]",      "[::1:8080",     "127.0.0.1:+80",
    "unix:", "[]:80",    "1.2.3.4:-1", "1.2.3.4:65536", "1.2.3.4:80800",
};
enum { BAD_COUNT = sizeof(BAD) / sizeof(BAD[0]) };

START_TEST(what_is_no_address_is_refused_with_a_reason)
{
    struct address address;
    reason[0] = '\0';
    ck_assert_msg(!address_parse(BAD[_i], &address, reason, sizeof(reason)), "%s", BAD[_i]);
    ck_assert_str_ne(reason, "");
}
END_TEST

START_TEST(a_unix_path_that_is_too_long_is_refused)
{
    char text[200] = "unix:/";
    struct address address;
    memset(text + 6, 'x', 120);
    ck_assert(!address_parse(text, &address, reason, sizeof(reason)));
    ck_assert_str_eq(reason, "a unix socket's path may have 107 bytes at most");
}
END_TEST

static int port_of(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    char text[ADDRESS_TEXT_MAX];
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    address_format((const struct sockaddr *)&sa, len, text, sizeof(text));
    return atoi(strrchr(text, ':') + 1);
}

START_TEST(all_of_ipv4_and_all_of_ipv6_can_have_the_same_port)
{
    char text[32];
    struct address four = parse("0.0.0.0:0");
    int fd4 = address_listen(&four, reason, sizeof(reason));
    ck_assert_int_ge(fd4, 0);
    (void)snprintf(text, sizeof(text), "[::]:%d", port_of(fd4));
    struct address six = parse(text);
    int fd6 = address_listen(&six, reason, sizeof(reason));
    /* A machine may have no IPv6 at all. */
    ck_assert_msg(fd6 >= 0 || strcmp(reason, strerror(EAFNOSUPPORT)) == 0, "%s", reason);

    (void)snprintf(text, sizeof(text), "0.0.0.0:%d", port_of(fd4));
    struct address again = parse(text);
    ck_assert_int_lt(address_listen(&again, reason, sizeof(reason)), 0);
    ck_assert_str_eq(reason, strerror(EADDRINUSE));
    address_unlisten(&four, fd4);
    if (fd6 >= 0)
        address_unlisten(&six, fd6);
}
END_TEST

START_TEST(a_unix_sockets_file_goes_with_it)
{
    struct address address = unix_address("a.sock");
    int fd = address_listen(&address, reason, sizeof(reason));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(access(address.text + 5, F_OK), 0);
    ck_assert_int_lt(address_listen(&address, reason, sizeof(reason)), 0); /* in use */
    address_unlisten(&address, fd);
    ck_assert_int_ne(access(address.text + 5, F_OK), 0);
}
END_TEST

START_TEST(a_file_that_nobody_listens_on_is_replaced)
{
    struct address address = unix_address("b.sock");
    int fd = address_listen(&address, reason, sizeof(reason));
    ck_assert_int_ge(fd, 0);
    (void)close(fd); /* as a server that was killed */
    fd = address_listen(&address, reason, sizeof(reason));
    ck_assert_msg(fd >= 0, "%s", reason);
    address_unlisten(&address, fd);
}
END_TEST

START_TEST(a_file_of_another_server_is_left_alone)
{
    struct address address = unix_address("c.sock");
    int first = address_listen(&address, reason, sizeof(reason));
    ck_assert_int_ge(first, 0);
    ck_assert_int_eq(unlink(address.text + 5), 0);
    int second = address_listen(&address, reason, sizeof(reason));
    ck_assert_int_ge(second, 0);
    address_unlisten(&address, first);
    ck_assert_int_eq(access(address.text + 5, F_OK), 0);
    address_unlisten(&address, second);
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_left_alone)
{
    struct address address = unix_address("d.sock");
    FILE *file = fopen(address.text + 5, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    ck_assert_int_lt(address_listen(&address, reason, sizeof(reason)), 0);
    ck_assert_int_eq(unlink(address.text + 5), 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("address");
    TCase *tc = tcase_create("text");
    tcase_add_loop_test(tc, an_address_is_printed_as_it_was_given, 0, GOOD_COUNT);
    tcase_add_loop_test(tc, what_is_no_address_is_refused_with_a_reason, 0, BAD_COUNT);
    tcase_add_test(tc, a_unix_path_that_is_too_long_is_refused);
    suite_add_tcase(s, tc);

    tc = tcase_create("listening");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, all_of_ipv4_and_all_of_ipv6_can_have_the_same_port);
    tcase_add_test(tc, a_unix_sockets_file_goes_with_it);
    tcase_add_test(tc, a_file_that_nobody_listens_on_is_replaced);
    tcase_add_test(tc, a_file_of_another_server_is_left_alone);
    tcase_add_test(tc, a_file_that_is_no_socket_is_left_alone);
    suite_add_tcase(s, tc);
    return s;
}
