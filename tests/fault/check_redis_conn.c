/* One connection to a real Redis: what is an answer and what a message, commands that go out
 * together, answers that are too large, and what Redis says before it hangs up.
 */
#include "roomlog/redis_conn.h"

#include "roomlog/redis_reply.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_MS = 8000, CHANNELS = 300, ROUNDS = 3, HUGE_ANSWER = 300 << 20 };

static struct redis_server server;
static struct poll_loop loop;
static struct metrics metrics;
static struct redis_url url;
static struct redis_finder_fixed finder;
static struct redis_conn *conn;
static unsigned downs, closed;
static char reason[200];
static size_t messages;

/* --- fixture -------------------------------------------------------------------------------- */

static void on_up(void *arg)
{
    (void)arg;
}

static void on_down(void *arg, const char *why)
{
    (void)arg;
    downs++;
    (void)snprintf(reason, sizeof(reason), "%s", why);
}

static void on_push(void *arg, const struct redis_reply *reply)
{
    (void)arg;
    ck_assert(redis_reply_push(reply));
    messages++;
}

static void on_closed(void *arg)
{
    (void)arg;
    closed++;
}

static const struct redis_conn_ops asking = {.up = on_up, .down = on_down, .closed = on_closed};
static const struct redis_conn_ops subscribing = {
    .up = on_up, .down = on_down, .push = on_push, .closed = on_closed};

static void setup(void)
{
    redis_server_start(&server, NULL);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    ck_assert(redis_url_parse(server.url, &url, reason, sizeof(reason)));
    redis_finder_fixed_init(&finder, &url.places[0]);
    downs = 0;
    closed = 0;
    messages = 0;
}

static void teardown(void)
{
    redis_conn_close(conn);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    ck_assert_uint_eq(closed, 1);
    poll_loop_fini(&loop);
    redis_url_fini(&url);
    redis_server_end(&server);
}

static bool is_up(void *arg)
{
    (void)arg;
    return redis_conn_is_up(conn);
}

static bool is_down(void *arg)
{
    (void)arg;
    return downs != 0;
}

static void begin(const struct redis_conn_ops *ops)
{
    const struct redis_conn_config config = {.url = &url,
                                             .finder = &finder.finder,
                                             .name = "roomd-test",
                                             .connect_ms = LIMIT_MS,
                                             .command_ms = LIMIT_MS};
    conn = redis_conn_open(&loop.loop, &metrics, &config, ops, NULL);
}

static void open_conn(const struct redis_conn_ops *ops)
{
    begin(ops);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_up, NULL));
}

/* --- questions ------------------------------------------------------------------------------ */

struct question {
    struct redis_command command;
    unsigned answers;
    enum rd_err err; /* of the answer; RD_EUNKNOWN: there was none */
    char text[32];   /* the first one in it */
    long long number;
};

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct question *q = RD_CONTAINER(command, struct question, command);
    struct redis_reply_parts parts;
    struct redis_reply first;
    struct str text = {"", 0};
    q->answers++;
    q->err = RD_EUNKNOWN;
    if (reply == NULL)
        return;
    q->err = redis_reply_err(reply);
    (void)redis_reply_integer(reply, &q->number);
    if (redis_reply_array(reply, &parts) && redis_reply_part(&parts, &first))
        reply = &first;
    (void)redis_reply_text(reply, &text);
    (void)snprintf(q->text, sizeof(q->text), "%.*s", (int)text.len, text.p);
}

static void ask(struct question *q, const char *name, const char *word)
{
    const struct str words[] = {str_from(name), str_from(word)};
    *q = (struct question){.command.done = on_answer};
    ck_assert(redis_conn_send(conn, &q->command, &(struct redis_words){words, 2}, 1));
}

static bool is_answered(void *arg)
{
    return ((const struct question *)arg)->answers != 0;
}

static void wait_answer(struct question *q)
{
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_answered, q));
    ck_assert_uint_eq(q->answers, 1);
}

START_TEST(commands_that_go_together_are_finished_with_the_last_answer)
{
    struct question q = {.command.done = on_answer};
    struct question next;
    const struct str set[] = {STR("SET"), STR("k"), STR("41")};
    const struct str wrong[] = {STR("LPUSH"), STR("k"), STR("x")};
    const struct str incr[] = {STR("INCR"), STR("k")};
    const struct redis_words all[] = {{set, 3}, {wrong, 3}, {incr, 2}};
    open_conn(&asking);
    ck_assert(redis_conn_send(conn, &q.command, all, 3));
    ask(&next, "ECHO", "next");
    wait_answer(&next);
    ck_assert_str_eq(next.text, "next");
    ck_assert_uint_eq(q.answers, 1);
    ck_assert_int_eq(q.err, RD_OK);
    ck_assert_int_eq(q.number, 42);
}
END_TEST

/* --- messages ------------------------------------------------------------------------------- */

static bool heard(void *arg)
{
    return messages >= *(const size_t *)arg;
}

/* While channels are being subscribed to, messages come in on those that are already. */
START_TEST(messages_between_questions_and_answers_are_messages)
{
    static struct question questions[CHANNELS];
    char name[16];
    size_t sent = 0;
    open_conn(&subscribing);
    for (int round = 0; round < ROUNDS; round++) {
        bool subscribe = round != 1;
        for (int i = 0; i < CHANNELS; i++) {
            (void)snprintf(name, sizeof(name), "c%d", i);
            ask(&questions[i], subscribe ? "SUBSCRIBE" : "UNSUBSCRIBE", name);
            /* To all that Redis knows of by now. */
            const char *words[] = {"PUBLISH", name, "hello"};
            for (int k = 0; k <= i && i % 10 == 0; k += 7) {
                (void)snprintf(name, sizeof(name), "c%d", k);
                redisReply *reply = redis_server_ask(&server, 3, words, NULL);
                sent += (size_t)reply->integer;
                freeReplyObject(reply);
            }
            poll_loop_pass(&loop, 0);
            if (i % 3 == 0)
                (void)poll_loop_run(&loop, 1, is_answered, &questions[i]);
        }
        wait_answer(&questions[CHANNELS - 1]);
        for (int i = 0; i < CHANNELS; i++) {
            ck_assert_uint_eq(questions[i].answers, 1);
            ck_assert_str_eq(questions[i].text, subscribe ? "subscribe" : "unsubscribe");
        }
    }
    ck_assert_uint_gt(sent, 100);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, heard, &sent));
    poll_loop_pass(&loop, 20);
    ck_assert_uint_eq(messages, sent);
    ck_assert_uint_eq(downs, 0);
}
END_TEST

START_TEST(a_message_to_who_is_no_subscriber_ends_the_connection)
{
    struct question q;
    open_conn(&asking);
    ask(&q, "SUBSCRIBE", "c");
    wait_answer(&q);
    redis_server_do(&server, "PUBLISH c hello");
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_down, NULL));
    ck_assert_str_eq(reason, "an answer came that nobody had asked for");
}
END_TEST

/* --- too large ------------------------------------------------------------------------------ */

START_TEST(an_answer_that_is_too_large_is_an_error_and_the_connection_stays)
{
    struct question large;
    struct question next;
    open_conn(&asking);
    redis_server_do(&server, "SETRANGE k %d x", HUGE_ANSWER);
    ask(&large, "GET", "k");
    ask(&next, "ECHO", "next");
    wait_answer(&next);
    ck_assert_uint_eq(large.answers, 1);
    ck_assert_int_eq(large.err, RD_ETOOBIG);
    ck_assert_str_eq(next.text, "next");
    ck_assert_uint_eq(metrics.v[M_LOG_OVERSIZE], 1);
    ck_assert_uint_eq(downs, 0);
}
END_TEST

/* --- ends ----------------------------------------------------------------------------------- */

START_TEST(what_redis_says_before_it_hangs_up_is_the_reason)
{
    redis_server_do(&server, "CONFIG SET maxclients 1");
    begin(&asking);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_down, NULL));
    ck_assert_str_eq(reason, "ERR max number of clients reached");
    redis_server_do(&server, "CONFIG SET maxclients 100");
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_up, NULL));
}
END_TEST

START_TEST(what_was_under_way_is_finished_without_an_answer)
{
    struct question held;
    struct question behind;
    open_conn(&asking);
    redis_server_do(&server, "CLIENT PAUSE 100000 ALL");
    ask(&held, "ECHO", "1");
    ask(&behind, "ECHO", "2");
    redis_conn_drop(conn, "enough");
    ck_assert_uint_eq(held.answers, 0); /* later */
    wait_answer(&behind);
    ck_assert_int_eq(held.err, RD_EUNKNOWN);
    ck_assert_int_eq(behind.err, RD_EUNKNOWN);
    ck_assert_str_eq(reason, "enough");
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_conn");
    TCase *tc = tcase_create("conn");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, commands_that_go_together_are_finished_with_the_last_answer);
    tcase_add_test(tc, messages_between_questions_and_answers_are_messages);
    tcase_add_test(tc, a_message_to_who_is_no_subscriber_ends_the_connection);
    tcase_add_test(tc, an_answer_that_is_too_large_is_an_error_and_the_connection_stays);
    tcase_add_test(tc, what_redis_says_before_it_hangs_up_is_the_reason);
    tcase_add_test(tc, what_was_under_way_is_finished_without_an_answer);
    suite_add_tcase(suite, tc);
    return suite;
}
