/* rediss:// against a real Redis with certificates of the test's own: good ones, wrong ones, and
 * connections that drip, or end in the middle of the handshake. What isn't trusted is said, tried
 * again, and never talked to.
 */
#include "roomlog/redis_tls.h"

#include "roomlog/redis_conn.h"
#include "roomlog/redis_reply.h"
#include "roomlog/roomlog_redis.h"
#include "tests/contract/witness.h"
#include "tests/lib/certs.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"
#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 8000, SHORT_MS = 600, PATH_LEN = 96, URL_LEN = 64, FILES_MAX = 16 };

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))
#define ROOM STR("lobby")
#define GOOD_NAMES "DNS:localhost,IP:127.0.0.1"

static struct redis_server server;
static struct poll_loop loop;
static struct metrics metrics;
static struct certs_authority *ours;
static struct certs_authority *theirs;
static char dir[64];
static unsigned port;

/* --- fixture -------------------------------------------------------------------------------- */

/* A file in the test's folder. Good until the sixteenth after it. */
static const char *file(const char *name)
{
    static char paths[FILES_MAX][PATH_LEN];
    static unsigned at;
    char *path = paths[at++ % FILES_MAX];
    (void)snprintf(path, PATH_LEN, "%s/%s", dir, name);
    return path;
}

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(dir, sizeof(dir), "/tmp/roomd-tls-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ours = certs_authority_create("ours");
    theirs = certs_authority_create("theirs");
    certs_authority_write(ours, file("ours.pem"));
    certs_authority_write(theirs, file("theirs.pem"));
    certs_write(ours, "DNS:roomd", 30, file("client.pem"), file("client.key"));
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    port = redis_server_free_port();
    server = (struct redis_server){.pid = 0};
}

static void teardown(void)
{
    poll_loop_fini(&loop);
    if (server.pid != 0)
        redis_server_end(&server);
    certs_authority_destroy(ours);
    certs_authority_destroy(theirs);
    static const char *const names[] = {"ours.pem",   "theirs.pem", "client.pem", "client.key",
                                        "server.pem", "server.key", "trust.pem"};
    for (int i = 0; i < COUNT_OF(names); i++)
        (void)unlink(file(names[i]));
    ck_assert_int_eq(rmdir(dir), 0);
}

/* A Redis whose certificate has these names, whose clients need one ("yes") or don't ("no"). */
static void start_redis(const struct certs_authority *authority, const char *names, int days,
                        const char *clients)
{
    char number[16];
    certs_write(authority, names, days, file("server.pem"), file("server.key"));
    (void)snprintf(number, sizeof(number), "%u", port);
    const char *const extra[] = {"--tls-port",
                                 number,
                                 "--tls-cert-file",
                                 file("server.pem"),
                                 "--tls-key-file",
                                 file("server.key"),
                                 "--tls-ca-cert-file",
                                 file("ours.pem"),
                                 "--tls-auth-clients",
                                 clients,
                                 NULL};
    redis_server_start(&server, extra);
}

/* --- one connection ------------------------------------------------------------------------- */

struct call {
    struct redis_conn *conn;
    struct redis_url url;
    struct redis_finder_fixed finder;
    unsigned ups, downs, closed, answers;
    char reason[200];
    struct redis_command command;
    size_t got; /* bytes of the answer's text; SIZE_MAX: another answer */
};

static void on_up(void *arg)
{
    ((struct call *)arg)->ups++;
}

static void on_down(void *arg, const char *reason)
{
    struct call *call = arg;
    call->downs++;
    (void)snprintf(call->reason, sizeof(call->reason), "%s", reason);
}

static void on_closed(void *arg)
{
    ((struct call *)arg)->closed++;
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct call *call = RD_CONTAINER(command, struct call, command);
    struct str text = {NULL, SIZE_MAX};
    call->answers++;
    if (reply != NULL)
        (void)redis_reply_text(reply, &text);
    call->got = text.len;
}

static const struct redis_conn_ops ops = {.up = on_up, .down = on_down, .closed = on_closed};

static void call_open(struct call *call, const char *scheme, const char *host, unsigned at,
                      const struct redis_tls_config *tls, uint64_t connect_ms)
{
    char text[URL_LEN];
    char reason[REDIS_TLS_REASON_MAX];
    *call = (struct call){.ups = 0};
    (void)snprintf(text, sizeof(text), "%s://%s:%u", scheme, host, at);
    ck_assert_msg(redis_url_parse(text, &call->url, reason, sizeof(reason)), "%s", reason);
    if (tls != NULL) {
        call->url.trust = redis_tls_create(tls, reason, sizeof(reason));
        ck_assert_msg(call->url.trust != NULL, "%s", reason);
    }
    redis_finder_fixed_init(&call->finder, &call->url.places[0]);
    const struct redis_conn_config config = {.url = &call->url,
                                             .finder = &call->finder.finder,
                                             .name = "roomd-test",
                                             .connect_ms = connect_ms,
                                             .command_ms = LIMIT_MS};
    call->conn = redis_conn_open(&loop.loop, &metrics, &config, &ops, call);
}

static void call_close(struct call *call)
{
    redis_conn_close(call->conn);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    ck_assert_uint_eq(call->closed, 1);
    redis_tls_destroy(call->url.trust);
    redis_url_fini(&call->url);
}

static bool is_up(void *arg)
{
    return redis_conn_is_up(((struct call *)arg)->conn);
}

static bool was_down_twice(void *arg)
{
    return ((struct call *)arg)->downs >= 2;
}

static bool is_answered(void *arg)
{
    return ((struct call *)arg)->answers != 0;
}

static void wait_up(struct call *call)
{
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, is_up, call), "not up: %s", call->reason);
}

/* It never comes up, is tried again, and says this. */
static void wait_refused(struct call *call, const char *reason)
{
    ck_assert(poll_loop_run(&loop, LIMIT_MS, was_down_twice, call));
    ck_assert_uint_eq(call->ups, 0);
    ck_assert_msg(strstr(call->reason, reason) != NULL, "\"%s\" isn't \"%s\"", call->reason,
                  reason);
}

/* ECHO of a text of this length. */
static void check_echo(struct call *call, size_t len)
{
    char *data = malloc(len);
    ck_assert_ptr_nonnull(data);
    memset(data, 'x', len);
    const struct str words[] = {STR("ECHO"), {data, len}};
    call->command.done = on_answer;
    call->answers = 0;
    ck_assert(redis_conn_send(call->conn, &call->command, &(struct redis_words){words, 2}, 1));
    free(data);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_answered, call));
    ck_assert_uint_eq(call->got, len);
}

/* --- trust ---------------------------------------------------------------------------------- */

static const struct {
    const char *host;
    const char *names;
    const char *name; /* the option */
} TRUSTED[] = {
    {"localhost", GOOD_NAMES, NULL},
    {"127.0.0.1", GOOD_NAMES, NULL},
    {"127.0.0.1", "DNS:redis.example", "redis.example"},
    {"localhost", "DNS:*.redis.example", "one.redis.example"},
};

START_TEST(a_certificate_that_is_ours_and_of_that_name_is_trusted)
{
    struct call call;
    start_redis(ours, TRUSTED[_i].names, 30, "no");
    call_open(&call, "rediss", TRUSTED[_i].host, port,
              &(struct redis_tls_config){.ca_file = file("ours.pem"), .name = TRUSTED[_i].name},
              LIMIT_MS);
    wait_up(&call);
    check_echo(&call, 5);
    ck_assert_uint_eq(call.downs, 0);
    call_close(&call);
}
END_TEST

static const struct {
    bool stranger;
    const char *names;
    int days;
    const char *ca; /* NULL: the system's */
    const char *name;
    const char *reason;
} DISTRUSTED[] = {
    {true, GOOD_NAMES, 30, "ours.pem", NULL, "unable to get local issuer certificate"},
    {false, GOOD_NAMES, 30, NULL, NULL, "certificate in certificate chain"},
    {false, "DNS:elsewhere.example", 30, "ours.pem", NULL, "hostname mismatch"},
    {false, GOOD_NAMES, 30, "ours.pem", "elsewhere.example", "hostname mismatch"},
    {false, GOOD_NAMES, 30, "ours.pem", "127.0.0.2", "IP address mismatch"},
    {false, GOOD_NAMES, -1, "ours.pem", NULL, "certificate has expired"},
};

START_TEST(a_certificate_that_is_not_is_refused_with_the_reason)
{
    struct call call;
    const char *ca = DISTRUSTED[_i].ca != NULL ? file(DISTRUSTED[_i].ca) : NULL;
    start_redis(DISTRUSTED[_i].stranger ? theirs : ours, DISTRUSTED[_i].names, DISTRUSTED[_i].days,
                "no");
    call_open(&call, "rediss", "localhost", port,
              &(struct redis_tls_config){.ca_file = ca, .name = DISTRUSTED[_i].name}, LIMIT_MS);
    wait_refused(&call, DISTRUSTED[_i].reason);
    ck_assert_ptr_nonnull(strstr(call.reason, "the certificate of "));
    call_close(&call);
}
END_TEST

START_TEST(our_own_certificate_is_shown_where_redis_wants_one)
{
    struct redis_tls_config config = {.ca_file = file("ours.pem")};
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "yes");
    call_open(&call, "rediss", "localhost", port, &config, LIMIT_MS);
    wait_refused(&call, "certificate required");
    call_close(&call);
    config.cert_file = file("client.pem");
    config.key_file = file("client.key");
    call_open(&call, "rediss", "localhost", port, &config, LIMIT_MS);
    wait_up(&call);
    call_close(&call);
}
END_TEST

START_TEST(a_certificate_that_was_renewed_is_used_at_the_next_attempt)
{
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "no");
    certs_authority_write(theirs, file("trust.pem"));
    call_open(&call, "rediss", "localhost", port,
              &(struct redis_tls_config){.ca_file = file("trust.pem")}, LIMIT_MS);
    wait_refused(&call, "certificate in certificate chain");
    /* In the middle of being written it is of no use, and what was before stays. */
    FILE *half = fopen(file("trust.pem"), "w");
    ck_assert_ptr_nonnull(half);
    (void)fputs("-----BEGIN CERTIFICATE-----\n", half);
    (void)fclose(half);
    call.downs = 0;
    wait_refused(&call, "certificate in certificate chain");
    certs_authority_write(ours, file("trust.pem"));
    wait_up(&call);
    call_close(&call);
}
END_TEST

static const struct {
    const char *ca, *cert, *key;
    const char *reason;
} UNUSABLE[] = {
    {"missing.pem", NULL, NULL, "missing.pem: No such file or directory"},
    {"client.key", NULL, NULL, "client.key: no certificate or crl found"},
    {"ours.pem", "missing.pem", "client.key", "missing.pem: No such file or directory"},
    {"ours.pem", "client.pem", "missing.key", "missing.key: No such file or directory"},
    {"ours.pem", "ours.pem", "client.key", "client.key: key values mismatch"},
    {"ours.pem", "client.pem", NULL, "a certificate and its key go together"},
    {NULL, NULL, "client.key", "a certificate and its key go together"},
};

START_TEST(files_that_cannot_be_used_are_named)
{
    char reason[REDIS_TLS_REASON_MAX] = "";
    const struct redis_tls_config config = {
        .ca_file = UNUSABLE[_i].ca != NULL ? file(UNUSABLE[_i].ca) : NULL,
        .cert_file = UNUSABLE[_i].cert != NULL ? file(UNUSABLE[_i].cert) : NULL,
        .key_file = UNUSABLE[_i].key != NULL ? file(UNUSABLE[_i].key) : NULL};
    ck_assert_ptr_null(redis_tls_create(&config, reason, sizeof(reason)));
    ck_assert_msg(strstr(reason, UNUSABLE[_i].reason) != NULL, "\"%s\" isn't \"%s\"", reason,
                  UNUSABLE[_i].reason);
}
END_TEST

/* --- who doesn't speak it ------------------------------------------------------------------- */

START_TEST(a_plain_port_behind_rediss_is_told)
{
    struct call call;
    char number[16];
    (void)snprintf(number, sizeof(number), "%u", port);
    const char *const extra[] = {"--port", number, NULL};
    redis_server_start(&server, extra);
    call_open(&call, "rediss", "localhost", port,
              &(struct redis_tls_config){.ca_file = file("ours.pem")}, SHORT_MS);
    wait_refused(&call, "TLS");
    call_close(&call);
}
END_TEST

/* --- between us ----------------------------------------------------------------------------- */

/* Another process that connects whoever comes with Redis, passes so many bytes at a time to him,
 * and hangs up after so many altogether. */
struct relay {
    pid_t pid;
    unsigned port;
};

static int dial(unsigned to)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)to),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        _exit(1);
    return fd;
}

static bool pass(int from, int to, size_t most)
{
    char bytes[16384];
    ssize_t n = read(from, bytes, most < sizeof(bytes) ? most : sizeof(bytes));
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void relay_one(int guest, size_t piece, size_t limit)
{
    int redis = dial(port);
    struct pollfd fds[2] = {{.fd = guest, .events = POLLIN}, {.fd = redis, .events = POLLIN}};
    bool open = true;
    while (open && limit != 0 && poll(fds, 2, -1) > 0) {
        if (fds[0].revents != 0)
            open = pass(guest, redis, SIZE_MAX);
        if (open && fds[1].revents != 0) {
            size_t most = piece < limit ? piece : limit;
            open = pass(redis, guest, most);
            limit -= most; /* at least what was passed */
        }
    }
    (void)close(redis);
    (void)close(guest);
}

static struct relay relay_start(size_t piece, size_t limit)
{
    struct relay relay = {.port = redis_server_free_port()};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)relay.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    ck_assert_int_eq(bind(door, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(door, 16), 0);
    relay.pid = fork();
    ck_assert_int_ge(relay.pid, 0);
    if (relay.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            relay_one(accept(door, NULL, NULL), piece, limit);
    }
    (void)close(door);
    return relay;
}

static void relay_stop(const struct relay *relay)
{
    (void)kill(relay->pid, SIGKILL);
    (void)waitpid(relay->pid, NULL, 0);
}

static const size_t CUTS[] = {1, 4, 5, 6, 60, 127, 128, 200, 400, 600, 700, 800};

START_TEST(a_handshake_that_is_cut_is_begun_anew)
{
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "no");
    struct relay relay = relay_start(SIZE_MAX, CUTS[_i]);
    call_open(&call, "rediss", "localhost", relay.port,
              &(struct redis_tls_config){.ca_file = file("ours.pem")}, LIMIT_MS);
    wait_refused(&call, "the connection was closed in the TLS handshake");
    relay_stop(&relay);
    call_close(&call);
}
END_TEST

static const size_t PIECES[] = {1, 3, 7, 100};

START_TEST(pieces_of_any_size_make_the_same_handshake_and_answers)
{
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "no");
    struct relay relay = relay_start(PIECES[_i], SIZE_MAX);
    call_open(&call, "rediss", "localhost", relay.port,
              &(struct redis_tls_config){.ca_file = file("ours.pem")}, LIMIT_MS);
    wait_up(&call);
    check_echo(&call, 5000);
    relay_stop(&relay);
    call_close(&call);
}
END_TEST

START_TEST(a_server_that_says_nothing_is_given_up)
{
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "no");
    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    call_open(&call, "rediss", "localhost", port,
              &(struct redis_tls_config){.ca_file = file("ours.pem")}, SHORT_MS);
    wait_refused(&call, "the TLS handshake was not finished in time");
    ck_assert_uint_ge(metrics.v[M_LOG_TIMEOUTS], 2);
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    call_close(&call);
}
END_TEST

START_TEST(an_attempt_may_be_closed_at_any_time)
{
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "no");
    call_open(&call, "rediss", "localhost", port,
              &(struct redis_tls_config){.ca_file = file("ours.pem")}, LIMIT_MS);
    poll_loop_pass(&loop, (uint64_t)_i);
    call_close(&call);
}
END_TEST

/* --- much of it ----------------------------------------------------------------------------- */

/* Both directions wait for the socket many times over. */
START_TEST(large_commands_and_answers_come_whole)
{
    enum { LEN = 30 << 20 };
    struct call call;
    start_redis(ours, GOOD_NAMES, 30, "no");
    call_open(&call, "rediss", "localhost", port,
              &(struct redis_tls_config){.ca_file = file("ours.pem")}, LIMIT_MS);
    wait_up(&call);
    check_echo(&call, LEN);
    check_echo(&call, 1);
    check_echo(&call, 16384);
    call_close(&call);
}
END_TEST

static bool is_ready(void *arg)
{
    return roomlog_ready(arg);
}

static bool heard_all(void *arg)
{
    return ((const struct witness_follower *)arg)->count >= 60;
}

static bool read_all(void *arg)
{
    return ((const struct witness_read *)arg)->answers != 0;
}

static unsigned acked;

static void on_acked(struct witness_append *w)
{
    ck_assert_int_eq(w->err, RD_OK);
    acked++;
}

START_TEST(a_room_is_followed_written_and_read_through_tls)
{
    enum { COUNT = 60, LARGE = 50000 };
    static char data[LARGE];
    static struct witness_append appends[COUNT];
    char url[URL_LEN];
    struct witness_follower w = {.then = NULL};
    memset(data, 'x', sizeof(data));
    start_redis(ours, GOOD_NAMES, 30, "yes");
    (void)snprintf(url, sizeof(url), "rediss://localhost:%u", port);
    const struct roomlog_redis_config config = {.url = url,
                                                .tls = {.ca_file = file("ours.pem"),
                                                        .cert_file = file("client.pem"),
                                                        .key_file = file("client.key")},
                                                .prefix = "room:",
                                                .poll_ms = 60000,
                                                .max_entries = 10000,
                                                .dedupe_ms = 60000,
                                                .connect_ms = LIMIT_MS,
                                                .command_ms = LIMIT_MS,
                                                .max_appends = 1000,
                                                .max_reads = 10};
    struct roomlog *log = roomlog_redis_create(&loop.loop, &metrics, &config);
    ck_assert_ptr_nonnull(log);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_ready, log));
    witness_follow(log, &w, ROOM);
    const struct roomlog_publish what = {.type = STR("t"), .data = {data, LARGE}};
    for (int i = 0; i < COUNT; i++) {
        appends[i].then = on_acked;
        ck_assert_int_eq(witness_append(log, &appends[i], ROOM, &what), RD_OK);
    }
    ck_assert(poll_loop_run(&loop, LIMIT_MS, heard_all, &w));
    ck_assert_uint_eq(acked, COUNT);
    struct witness_read r = {
        .read = {.from = ROOMLOG_ALL, .max_entries = 500, .max_bytes = 8 << 20}};
    ck_assert_int_eq(witness_read(log, &r, ROOM), RD_OK);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, read_all, &r));
    ck_assert_uint_eq(r.count, COUNT);
    ck_assert_uint_eq(r.entries[COUNT - 1].data.len, LARGE);
    witness_read_fini(&r);
    roomlog_unfollow(log, &w.follower);
    witness_follower_fini(&w);
    roomlog_close(log);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_tls");
    TCase *tc = tcase_create("tls");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, a_certificate_that_is_ours_and_of_that_name_is_trusted, 0,
                        COUNT_OF(TRUSTED));
    tcase_add_loop_test(tc, a_certificate_that_is_not_is_refused_with_the_reason, 0,
                        COUNT_OF(DISTRUSTED));
    tcase_add_test(tc, our_own_certificate_is_shown_where_redis_wants_one);
    tcase_add_test(tc, a_certificate_that_was_renewed_is_used_at_the_next_attempt);
    tcase_add_loop_test(tc, files_that_cannot_be_used_are_named, 0, COUNT_OF(UNUSABLE));
    tcase_add_test(tc, a_plain_port_behind_rediss_is_told);
    tcase_add_loop_test(tc, a_handshake_that_is_cut_is_begun_anew, 0, COUNT_OF(CUTS));
    tcase_add_loop_test(tc, pieces_of_any_size_make_the_same_handshake_and_answers, 0,
                        COUNT_OF(PIECES));
    tcase_add_test(tc, a_server_that_says_nothing_is_given_up);
    tcase_add_loop_test(tc, an_attempt_may_be_closed_at_any_time, 0, 8);
    tcase_add_test(tc, large_commands_and_answers_come_whole);
    tcase_add_test(tc, a_room_is_followed_written_and_read_through_tls);
    suite_add_tcase(suite, tc);
    return suite;
}
