/* Publishes on their way to a real Redis: cut off after every byte, made to wait, refused, sent
 * elsewhere, held until they are durable. What is in the log is what was promised, once.
 */
#include "roomlog/redis_appends.h"

#include "base/xalloc.h"
#include "roomlog/redis_url.h"
#include "tests/contract/witness.h"
#include "tests/lib/cut_proxy.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/redis_server.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LIMIT_MS = 10000,
    LANES = 12, /* each with its proxy: four descriptors of the 64 that the loop takes */
    TEXT_MAX = 128,
    MANY = 40
};

#define ROOM STR("room:lobby")

/* One way to Redis: a redis_appends behind a proxy. */
struct lane {
    struct cut_proxy proxy;
    struct redis_finder_fixed finder;
    struct redis_url url;
    struct redis_appends *appends;
    unsigned ups, downs, closed;
    char reason[TEXT_MAX];
};

static struct redis_server server;
static struct poll_loop loop;
static struct metrics metrics;
static struct redis_appends_config config;
static struct lane lanes[LANES];
static struct lane *const lane = &lanes[0];

/* --- fixture -------------------------------------------------------------------------------- */

static void on_up(void *arg)
{
    ((struct lane *)arg)->ups++;
}

static void on_down(void *arg, const char *reason)
{
    struct lane *l = arg;
    l->downs++;
    (void)snprintf(l->reason, sizeof(l->reason), "%s", reason);
}

static void on_closed(void *arg)
{
    ((struct lane *)arg)->closed++;
}

static struct redis_appends_ops ops = {.up = on_up, .down = on_down, .closed = on_closed};

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    redis_server_start(&server, NULL);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    memset(lanes, 0, sizeof(lanes));
    config = (struct redis_appends_config){
        .script = {.max_entries = 10000, .dedupe_ms = 60000, .state = {100, 100000}},
        .connect_ms = 2000,
        .command_ms = 3000,
        .wait_ms = 5000,
        .max_in_flight = 1000,
    };
}

static void lane_path(const struct lane *l, char path[TEXT_MAX])
{
    (void)snprintf(path, TEXT_MAX, "%s/p%zu.sock", server.dir, (size_t)(l - lanes));
}

static void let_in(struct lane *l)
{
    char path[TEXT_MAX];
    lane_path(l, path);
    cut_proxy_start(&l->proxy, &loop.loop, path, server.socket);
}

static void lane_open(struct lane *l)
{
    char path[TEXT_MAX], text[2 * TEXT_MAX], reason[TEXT_MAX];
    lane_path(l, path);
    (void)snprintf(text, sizeof(text), "unix://%s", path);
    ck_assert(redis_url_parse(text, &l->url, reason, sizeof(reason)));
    redis_finder_fixed_init(&l->finder, &l->url.places[0]);
    struct redis_appends_config c = config;
    c.url = &l->url;
    c.finder = &l->finder.finder;
    l->appends = redis_appends_open(&loop.loop, &metrics, &c, &ops, l);
}

static bool has_closed(void *arg)
{
    return ((struct lane *)arg)->closed != 0;
}

/* Anew, as the pauses of a connection grow that is lost again and again. */
static void lane_reopen(struct lane *l)
{
    l->closed = 0;
    redis_appends_close(l->appends);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, has_closed, l));
    redis_url_fini(&l->url);
    lane_open(l);
}

static void lane_close(struct lane *l)
{
    if (l->appends == NULL)
        return;
    redis_appends_close(l->appends);
    l->appends = NULL;
}

static void teardown(void)
{
    for (size_t i = 0; i < LANES; i++) {
        lane_close(&lanes[i]);
        cut_proxy_stop(&lanes[i].proxy);
    }
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    for (size_t i = 0; i < LANES; i++)
        redis_url_fini(&lanes[i].url);
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_WAITING], 0);
    poll_loop_fini(&loop);
    redis_server_end(&server);
}

/* --- waiting -------------------------------------------------------------------------------- */

static bool is_up(void *arg)
{
    return redis_appends_up(((struct lane *)arg)->appends);
}

static void wait_up(struct lane *l)
{
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_up, l));
}

static bool is_down(void *arg)
{
    return !redis_appends_up(((struct lane *)arg)->appends);
}

static void open_lane(void)
{
    let_in(lane);
    lane_open(lane);
    wait_up(lane);
}

/* One append and what came of it. */
struct asked {
    struct roomlog_append append;
    unsigned answers;
    unsigned order; /* which answer of all it was */
    enum rd_err err;
    struct stream_id id;
    bool duplicate;
};

static unsigned answers;

static void on_appended(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                        bool duplicate)
{
    struct asked *a = RD_CONTAINER(append, struct asked, append);
    ck_assert_uint_eq(a->answers++, 0);
    a->order = answers++;
    a->err = err;
    a->id = id;
    a->duplicate = duplicate;
}

static enum rd_err ask(struct lane *l, struct asked *a, struct str room,
                       struct roomlog_publish what)
{
    *a = (struct asked){.append = {.done = on_appended}};
    return redis_appends_add(l->appends, room, &what, &a->append);
}

static bool answered(void *arg)
{
    return ((const struct asked *)arg)->answers != 0;
}

static void wait_answer(struct asked *a)
{
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, a));
}

static struct asked publish(struct roomlog_publish what)
{
    struct asked a;
    ck_assert_int_eq(ask(lane, &a, ROOM, what), RD_OK);
    wait_answer(&a);
    return a;
}

static struct roomlog_publish plain(const char *data)
{
    return (struct roomlog_publish){.type = STR("message"), .data = str_from(data)};
}

static struct roomlog_publish with_ref(const char *ref)
{
    return (struct roomlog_publish){
        .type = STR("message"), .data = STR("1"), .from = STR("ann"), .ref = str_from(ref)};
}

static long long number(const char *command, const char *key)
{
    const char *words[] = {command, key};
    redisReply *reply = redis_server_ask(&server, key == NULL ? 1 : 2, words, NULL);
    long long n = reply->integer;
    freeReplyObject(reply);
    return n;
}

/* --- a connection that dies in every possible moment ---------------------------------------- */

enum { DUE_FORMS = 4 };

/* Plain; a ref; a ref and a key; all of it, announced. */
static struct roomlog_publish form_of(int form)
{
    struct roomlog_publish what = plain("{\"text\":\"hello\"}");
    if (form >= 1) {
        what.from = STR("ann");
        what.ref = STR("ref-1");
    }
    if (form >= 2)
        what.key = STR("card:7");
    return what;
}

struct moment {
    struct lane *lane;
    struct asked first, again;
    char room[32];
    enum cut_proxy_way way;
    size_t bytes;
};

static struct str room_of(const struct moment *m)
{
    return str_from(m->room);
}

/* How many bytes one append takes, and its answer. */
static void measure(int form, size_t out_bytes[CUT_PROXY_WAYS])
{
    struct asked a;
    size_t before[CUT_PROXY_WAYS];
    memcpy(before, lane->proxy.passed, sizeof(before));
    ck_assert_int_eq(ask(lane, &a, STR("room:r0-00000"), form_of(form)), RD_OK);
    wait_answer(&a);
    ck_assert_int_eq(a.err, RD_OK);
    for (int way = 0; way < CUT_PROXY_WAYS; way++)
        out_bytes[way] = lane->proxy.passed[way] - before[way];
}

static void assert_once(const struct moment *m, int form)
{
    char key[64];
    long long length = number("XLEN", m->room);
    if (form == 0) {
        /* Nothing tells a plain one from another: unknown means unknown. */
        ck_assert_int_le(length, 1);
        ck_assert_int_eq(length, m->first.err == RD_OK ? 1 : length);
        return;
    }
    ck_assert_msg(length == 1, "way %d after %zu bytes: %lld entries", (int)m->way, m->bytes,
                  length);
    if (m->first.err == RD_OK)
        ck_assert(stream_id_eq(m->first.id, m->again.id));
    if (form < 2)
        return;
    (void)snprintf(key, sizeof(key), "{%s}:state", m->room);
    ck_assert_int_eq(number("HLEN", key), 3);
}

/* Up to LANES moments at a time, each on a lane of its own. */
static void try_moments(struct moment *moments, size_t count, int form)
{
    for (size_t i = 0; i < count; i++) {
        wait_up(moments[i].lane);
        cut_proxy_after(&moments[i].lane->proxy, moments[i].way, moments[i].bytes);
        ck_assert_int_eq(
            ask(moments[i].lane, &moments[i].first, room_of(&moments[i]), form_of(form)), RD_OK);
    }
    for (size_t i = 0; i < count; i++) {
        wait_answer(&moments[i].first);
        ck_assert(moments[i].first.err == RD_OK || moments[i].first.err == RD_EUNKNOWN);
        if (form == 0)
            continue;
        ck_assert_int_eq(
            ask(moments[i].lane, &moments[i].again, room_of(&moments[i]), form_of(form)), RD_OK);
    }
    for (size_t i = 0; i < count && form != 0; i++) {
        struct moment *m = &moments[i];
        wait_answer(&m->again);
        /* It may have been sent before the end of the connection was heard of. */
        if (m->again.err == RD_EUNKNOWN) {
            ck_assert_int_eq(ask(m->lane, &m->again, room_of(m), form_of(form)), RD_OK);
            wait_answer(&m->again);
        }
        ck_assert_int_eq(m->again.err, RD_OK);
    }
    for (size_t i = 0; i < count; i++) {
        assert_once(&moments[i], form);
        lane_reopen(moments[i].lane);
    }
}

START_TEST(a_publish_whose_connection_died_at_any_byte_is_in_the_log_once)
{
    static struct moment moments[LANES];
    size_t bytes[CUT_PROXY_WAYS];
    size_t count = 0, rooms = 0;
    config.script.announce = _i == 3;
    for (size_t i = 0; i < LANES; i++) {
        let_in(&lanes[i]);
        lane_open(&lanes[i]);
        wait_up(&lanes[i]);
    }
    measure(_i, bytes);
    for (int way = 0; way < CUT_PROXY_WAYS; way++)
        for (size_t after = 0; after <= bytes[way]; after++) {
            struct moment *m = &moments[count];
            *m = (struct moment){.lane = &lanes[count], .way = way, .bytes = after};
            (void)snprintf(m->room, sizeof(m->room), "room:r1-%05zu", rooms++);
            if (++count < LANES)
                continue;
            try_moments(moments, count, _i);
            count = 0;
        }
    try_moments(moments, count, _i);
    ck_assert_uint_ge(rooms, 150);
}
END_TEST

/* --- waiting for Redis ---------------------------------------------------------------------- */

static void take_away(void)
{
    cut_proxy_stop(&lane->proxy);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_down, lane));
}

START_TEST(while_redis_is_away_publishes_wait_in_order_and_go_first)
{
    static struct asked a[MANY];
    open_lane();
    take_away();
    for (size_t i = 0; i < MANY / 2; i++)
        ck_assert_int_eq(ask(lane, &a[i], ROOM, i % 2 == 0 ? plain("1") : with_ref("r")), RD_OK);
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_WAITING], MANY / 2);
    poll_loop_pass(&loop, 20);
    ck_assert_uint_eq(a[0].answers, 0);
    let_in(lane);
    wait_up(lane);
    for (size_t i = MANY / 2; i < MANY; i++)
        ck_assert_int_eq(ask(lane, &a[i], ROOM, plain("2")), RD_OK);
    wait_answer(&a[MANY - 1]);
    struct stream_id last = STREAM_ID_ZERO;
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(a[i].err, RD_OK);
        if (a[i].duplicate)
            continue;
        ck_assert_int_gt(stream_id_cmp(a[i].id, last), 0);
        last = a[i].id;
    }
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_EXPIRED], 0);
}
END_TEST

START_TEST(a_publish_waits_for_the_very_first_connection_too)
{
    struct asked a;
    lane_open(lane);
    ck_assert_int_eq(ask(lane, &a, ROOM, with_ref("x")), RD_OK);
    poll_loop_pass(&loop, 20);
    let_in(lane);
    wait_answer(&a);
    ck_assert_int_eq(a.err, RD_OK);
}
END_TEST

START_TEST(what_has_waited_too_long_is_refused_and_not_in_the_log)
{
    struct asked a, b;
    config.wait_ms = 100;
    open_lane();
    take_away();
    uint64_t began = loop.now_ms;
    ck_assert_int_eq(ask(lane, &a, ROOM, with_ref("x")), RD_OK);
    poll_loop_pass(&loop, 50);
    ck_assert_int_eq(ask(lane, &b, ROOM, with_ref("y")), RD_OK);
    wait_answer(&a);
    ck_assert_int_eq(a.err, RD_EUNAVAIL);
    ck_assert_uint_ge(loop.now_ms - began, 100);
    wait_answer(&b);
    ck_assert_int_eq(b.err, RD_EUNAVAIL);
    ck_assert_uint_gt(b.order, a.order);
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_EXPIRED], 2);
    let_in(lane);
    wait_up(lane);
    a = publish(with_ref("x"));
    ck_assert_int_eq(a.err, RD_OK);
    ck_assert(!a.duplicate);
    ck_assert_int_eq(number("XLEN", "room:lobby"), 1);
}
END_TEST

START_TEST(without_a_wait_it_is_refused_at_once)
{
    struct asked a;
    config.wait_ms = 0;
    open_lane();
    take_away();
    ck_assert_int_eq(ask(lane, &a, ROOM, plain("1")), RD_EUNAVAIL);
}
END_TEST

START_TEST(no_more_wait_than_may_be_under_way)
{
    static struct asked a[MANY + 1];
    config.max_in_flight = MANY;
    open_lane();
    take_away();
    for (size_t i = 0; i < MANY; i++)
        ck_assert_int_eq(ask(lane, &a[i], ROOM, plain("1")), RD_OK);
    ck_assert_int_eq(ask(lane, &a[MANY], ROOM, plain("1")), RD_EBUSY);
    ck_assert_uint_eq(metrics.v[M_LOG_BUSY], 1);
    let_in(lane);
    wait_answer(&a[MANY - 1]);
    ck_assert_int_eq(number("XLEN", "room:lobby"), MANY);
    ck_assert_int_eq(publish(plain("1")).err, RD_OK);
}
END_TEST

START_TEST(what_waits_may_be_cancelled_and_the_rest_closed)
{
    struct asked a, b;
    open_lane();
    take_away();
    ck_assert_int_eq(ask(lane, &a, ROOM, plain("1")), RD_OK);
    ck_assert_int_eq(ask(lane, &b, ROOM, with_ref("x")), RD_OK);
    redis_appends_cancel(&a.append);
    redis_appends_cancel(&b.append);
    ck_assert_ptr_null(a.append.impl);
    lane_close(lane);
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    ck_assert_uint_eq(a.answers + b.answers, 0);
}
END_TEST

/* --- order ---------------------------------------------------------------------------------- */

static void assert_in_order(const struct asked *a, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(a[i].err, RD_OK);
        if (i != 0)
            ck_assert_int_gt(stream_id_cmp(a[i].id, a[i - 1].id), 0);
    }
}

/* Sends them while Redis has forgotten the script; each third has a ref, each fifth a key. */
START_TEST(a_forgotten_script_changes_nobodys_place)
{
    static struct asked a[MANY];
    static char refs[MANY][16];
    open_lane();
    for (int round = 0; round < 3; round++) {
        redis_server_do(&server, "SCRIPT FLUSH");
        for (size_t i = 0; i < MANY; i++) {
            struct roomlog_publish what = plain("1");
            (void)snprintf(refs[i], sizeof(refs[i]), "%d-%zu", round, i);
            if (i % 3 == 0)
                what.ref = str_from(refs[i]);
            if (i % 5 == 0)
                what.key = str_from(refs[i]);
            ck_assert_int_eq(ask(lane, &a[i], ROOM, what), RD_OK);
            if (i % 10 == 9)
                poll_loop_pass(&loop, 1);
        }
        for (size_t i = 0; i < MANY; i++)
            wait_answer(&a[i]);
        assert_in_order(a, MANY);
    }
    ck_assert_int_eq(number("XLEN", "room:lobby"), 3 * MANY);
    ck_assert_uint_eq(lane->downs, 0);
}
END_TEST

static unsigned no_masters;

static void on_no_master(struct redis_finder *finder, const struct redis_place *place)
{
    (void)finder;
    (void)place;
    no_masters++;
}

/* As with Sentinel: a master is asked for, and here it is the same one again a little later. */
START_TEST(a_master_that_is_none_any_more_is_left_and_what_it_refused_is_kept)
{
    static struct asked a[MANY];
    no_masters = 0;
    open_lane();
    lane->finder.finder.no_master = on_no_master;
    redis_server_do(&server, "REPLICAOF 127.0.0.1 1");
    for (size_t i = 0; i < MANY; i++)
        ck_assert_int_eq(ask(lane, &a[i], ROOM, i % 2 == 0 ? plain("1") : with_ref("x")), RD_OK);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_down, lane));
    for (size_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(a[i].answers, 0);
    redis_server_do(&server, "REPLICAOF NO ONE");
    for (size_t i = 0; i < MANY; i++)
        wait_answer(&a[i]);
    for (size_t i = 0; i < MANY; i++)
        ck_assert_int_eq(a[i].err, RD_OK);
    ck_assert_int_eq(number("XLEN", "room:lobby"), MANY / 2 + 1);
}
END_TEST

START_TEST(without_another_master_to_go_to_it_is_refused)
{
    open_lane();
    redis_server_do(&server, "REPLICAOF 127.0.0.1 1");
    ck_assert_int_eq(publish(plain("1")).err, RD_EREADONLY);
    ck_assert_int_eq(publish(with_ref("x")).err, RD_EREADONLY);
    ck_assert(redis_appends_up(lane->appends));
}
END_TEST

/* --- elsewhere ------------------------------------------------------------------------------ */

static struct redis_redirect redirect;
static struct lane *other; /* where requests are sent on; NULL: nowhere */
static unsigned redirects;

static struct redis_appends *on_redirect(void *arg, const struct redis_redirect *where)
{
    ck_assert_ptr_eq(arg, lane);
    redirect = *where;
    redirects++;
    return other == NULL ? NULL : other->appends;
}

static void open_two(struct lane *to)
{
    redirects = 0;
    other = to;
    ops.redirect = on_redirect;
    open_lane();
    let_in(&lanes[1]);
    lane_open(&lanes[1]);
    wait_up(&lanes[1]);
}

static const struct {
    const char *text;
    enum redis_redirect_kind kind;
} REDIRECTS[] = {
    {"-MOVED 12182 127.0.0.1:7001\r\n", REDIS_REDIRECT_MOVED},
    {"-ASK 12182 127.0.0.1:7001\r\n", REDIS_REDIRECT_ASK},
    {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", REDIS_REDIRECT_TRYAGAIN}};

/* ASKING is an error to a Redis that is in no cluster, and dropped: what counts is behind it. */
START_TEST(what_belongs_elsewhere_is_sent_there)
{
    struct asked a;
    open_two(&lanes[1]);
    cut_proxy_answer(&lane->proxy, REDIRECTS[_i].text, 1);
    ck_assert_int_eq(ask(lane, &a, ROOM, with_ref("x")), RD_OK);
    size_t passed = lanes[1].proxy.passed[CUT_PROXY_REQUEST];
    wait_answer(&a);
    ck_assert_int_eq(a.err, RD_OK);
    ck_assert_int_eq(redirect.kind, REDIRECTS[_i].kind);
    ck_assert_uint_gt(lanes[1].proxy.passed[CUT_PROXY_REQUEST], passed);
    ck_assert_int_eq(number("XLEN", "room:lobby"), 1);
}
END_TEST

/* It waits there like what was sent there. */
START_TEST(what_belongs_to_a_redis_that_is_away_waits_for_it)
{
    struct asked a, b;
    open_two(&lanes[1]);
    cut_proxy_stop(&lanes[1].proxy);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_down, &lanes[1]));
    cut_proxy_answer(&lane->proxy, REDIRECTS[0].text, 2);
    ck_assert_int_eq(ask(lane, &a, ROOM, with_ref("x")), RD_OK);
    poll_loop_pass(&loop, 20);
    ck_assert_int_eq(ask(lane, &b, ROOM, with_ref("y")), RD_OK);
    poll_loop_pass(&loop, 20);
    ck_assert_uint_eq(redirects, 2);
    ck_assert_uint_eq(a.answers + b.answers, 0);
    ck_assert(redis_appends_idle(lane->appends));
    ck_assert(!redis_appends_idle(lanes[1].appends));
    redis_appends_cancel(&a.append);
    let_in(&lanes[1]);
    wait_answer(&b);
    ck_assert_int_eq(b.err, RD_OK);
    ck_assert_uint_eq(a.answers, 0);
    ck_assert_int_eq(number("XLEN", "room:lobby"), 2);
}
END_TEST

START_TEST(what_belongs_nowhere_is_refused_for_now)
{
    open_two(NULL);
    cut_proxy_answer(&lane->proxy, REDIRECTS[_i].text, 1);
    ck_assert_int_eq(publish(with_ref("x")).err, RD_EUNAVAIL);
}
END_TEST

START_TEST(nodes_that_do_not_agree_are_not_asked_for_ever)
{
    open_two(lane);
    cut_proxy_answer(&lane->proxy, REDIRECTS[0].text, 1000);
    ck_assert_int_eq(publish(with_ref("x")).err, RD_EUNAVAIL);
    ck_assert_uint_eq(redirects, REDIS_REDIRECTS_MAX + 1);
}
END_TEST

/* --- durability ----------------------------------------------------------------------------- */

static struct redis_server replica;

static void with_replica(void)
{
    char port[16];
    const char *as_master[] = {"--port", port, "--bind", "127.0.0.1", NULL};
    const char *as_replica[] = {"--replicaof", "127.0.0.1", port, NULL};
    (void)snprintf(port, sizeof(port), "%u", redis_server_free_port());
    setup();
    redis_server_stop(&server, false);
    redis_server_again(&server, as_master);
    redis_server_do(&server, "CONFIG SET repl-diskless-sync-delay 0");
    redis_server_start(&replica, as_replica);
    config.durable = (struct redis_durable){REDIS_DURABLE_REPLICA, 1, 1000};
    /* Until it is one. */
    const char *wait[] = {"WAIT", "1", "10000"};
    redis_server_do(&server, "SET warm 1");
    redisReply *reply = redis_server_ask(&server, 3, wait, NULL);
    ck_assert_int_eq(reply->integer, 1);
    freeReplyObject(reply);
}

static void without_replica(void)
{
    redis_server_end(&replica);
    teardown();
}

/* As a client does. */
static struct asked publish_until_known(struct roomlog_publish what)
{
    struct asked a;
    unsigned tries = 0;
    do {
        ck_assert_uint_lt(tries++, 20);
        a = publish(what);
    } while (a.err == RD_EUNKNOWN);
    ck_assert_int_eq(a.err, RD_OK);
    return a;
}

START_TEST(what_a_replica_has_is_acknowledged)
{
    static struct asked a[MANY];
    open_lane();
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(ask(lane, &a[i], ROOM, plain("1")), RD_OK);
        if (i % 7 == 6)
            poll_loop_pass(&loop, 1);
    }
    for (size_t i = 0; i < MANY; i++) {
        wait_answer(&a[i]);
        if (i != 0)
            ck_assert_uint_gt(a[i].order, a[i - 1].order);
    }
    assert_in_order(a, MANY);
    const char *len[] = {"XLEN", "room:lobby"};
    redisReply *reply = redis_server_ask(&replica, 2, len, NULL);
    ck_assert_int_eq(reply->integer, MANY);
    freeReplyObject(reply);
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_NOT_DURABLE], 0);
}
END_TEST

START_TEST(what_no_replica_has_is_of_unknown_fate_until_one_has)
{
    open_lane();
    ck_assert_int_eq(publish(with_ref("w")).err, RD_OK);
    (void)kill(replica.pid, SIGSTOP);
    struct asked first = publish(with_ref("x"));
    struct asked again = publish(with_ref("x")); /* a duplicate is no proof either */
    (void)kill(replica.pid, SIGCONT);
    ck_assert_int_eq(first.err, RD_EUNKNOWN);
    ck_assert_int_eq(again.err, RD_EUNKNOWN);
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_NOT_DURABLE], 2);
    again = publish_until_known(with_ref("x"));
    ck_assert(again.duplicate);
    ck_assert_int_eq(number("XLEN", "room:lobby"), 2);
}
END_TEST

/* One WAIT for all that came while the one before was under way. */
START_TEST(what_comes_meanwhile_is_one_batch)
{
    static struct asked a[MANY];
    open_lane();
    (void)kill(replica.pid, SIGSTOP);
    uint64_t began = loop.now_ms;
    for (size_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(ask(lane, &a[i], ROOM, plain("1")), RD_OK);
        poll_loop_pass(&loop, 2);
    }
    for (size_t i = 0; i < MANY; i++) {
        wait_answer(&a[i]);
        ck_assert_int_eq(a[i].err, RD_EUNKNOWN);
    }
    (void)kill(replica.pid, SIGCONT);
    ck_assert_uint_lt(loop.now_ms - began, 5 * 1000);
    ck_assert_int_eq(number("XLEN", "room:lobby"), MANY);
}
END_TEST

START_TEST(a_connection_that_dies_before_durability_is_known_says_so)
{
    struct asked a;
    open_lane();
    (void)kill(replica.pid, SIGSTOP);
    ck_assert_int_eq(ask(lane, &a, ROOM, with_ref("x")), RD_OK);
    poll_loop_pass(&loop, 50);
    ck_assert_int_eq(number("XLEN", "room:lobby"), 1);
    cut_proxy_cut(&lane->proxy);
    wait_answer(&a);
    ck_assert_int_eq(a.err, RD_EUNKNOWN);
    (void)kill(replica.pid, SIGCONT);
    a = publish_until_known(with_ref("x"));
    ck_assert(a.duplicate);
}
END_TEST

/* WAITAOF is of Redis 7.2, and needs the append-only file. */
START_TEST(disk_is_promised_only_where_redis_can)
{
    struct asked a;
    config.durable = (struct redis_durable){REDIS_DURABLE_DISK, 0, 2000};
    config.wait_ms = 300;
    let_in(lane);
    lane_open(lane);
    ck_assert_int_eq(ask(lane, &a, ROOM, with_ref("x")), RD_OK);
    wait_answer(&a);
    ck_assert_int_eq(a.err, RD_EUNAVAIL);
    ck_assert(!redis_appends_up(lane->appends));
    ck_assert_ptr_nonnull(strstr(lane->reason, "needs Redis 7.2 or newer with appendonly yes"));
    ck_assert_int_eq(number("XLEN", "room:lobby"), 0);

    const char *words[] = {"COMMAND", "INFO", "WAITAOF"};
    redisReply *reply = redis_server_ask(&server, 3, words, NULL);
    bool able = reply->elements == 1 && reply->element[0]->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    if (!able)
        return;
    redis_server_do(&server, "CONFIG SET appendonly yes");
    wait_up(lane);
    ck_assert_int_eq(publish(with_ref("x")).err, RD_OK);
    ck_assert_int_eq(publish(plain("1")).err, RD_OK);
    redis_server_do(&server, "CONFIG SET appendonly no");
}
END_TEST

/* --- what Redis may do to rooms ------------------------------------------------------------- */

START_TEST(a_redis_that_may_evict_is_refused_where_that_is_demanded)
{
    redis_server_do(&server, "CONFIG SET maxmemory-policy allkeys-lru");
    redis_server_do(&server, "CONFIG SET maxmemory 1gb");
    open_lane(); /* a warning, and no more */
    lane_close(lane);
    config.require_noeviction = true;
    let_in(&lanes[1]);
    lane_open(&lanes[1]);
    poll_loop_pass(&loop, 200);
    ck_assert(!redis_appends_up(lanes[1].appends));
    ck_assert_str_eq(lanes[1].reason, "redis may evict rooms: maxmemory-policy is allkeys-lru");
    redis_server_do(&server, "CONFIG SET maxmemory-policy noeviction");
    wait_up(&lanes[1]);
}
END_TEST

START_TEST(who_may_not_ask_for_the_policy_goes_without)
{
    redis_server_do(&server, "ACL SETUSER default -info");
    open_lane();
    ck_assert_int_eq(publish(with_ref("x")).err, RD_OK);
    config.require_noeviction = true;
    let_in(&lanes[1]);
    lane_open(&lanes[1]);
    poll_loop_pass(&loop, 100);
    ck_assert(!redis_appends_up(lanes[1].appends));
    ck_assert_ptr_nonnull(strstr(lanes[1].reason, "does not say whether it may evict"));
}
END_TEST

/* --- the script's parts --------------------------------------------------------------------- */

START_TEST(what_redis_refuses_leaves_neither_claim_nor_state)
{
    static const char *const REFUSE[] = {"CONFIG SET maxmemory 1", "SET room:lobby x",
                                         "SET {room:lobby}:state x",
                                         "CONFIG SET min-replicas-to-write 1"};
    static const char *const ALLOW[] = {"CONFIG SET maxmemory 0", "DEL room:lobby",
                                        "DEL {room:lobby}:state",
                                        "CONFIG SET min-replicas-to-write 0"};
    struct roomlog_publish what = form_of(2);
    open_lane();
    redis_server_do(&server, REFUSE[_i]);
    ck_assert_int_ne(publish(what).err, RD_OK);
    redis_server_do(&server, ALLOW[_i]);
    ck_assert_int_eq(number("DBSIZE", NULL), 0);
    struct asked again = publish(what);
    ck_assert_int_eq(again.err, RD_OK);
    ck_assert(!again.duplicate);
    ck_assert_int_eq(number("HLEN", "{room:lobby}:state"), 3);
}
END_TEST

/* The user may append, and nothing else. The entry is there, and that is the answer. */
START_TEST(where_only_the_append_is_allowed_it_is_acknowledged)
{
    open_lane();
    redis_server_do(&server, "ACL SETUSER default -set -hset");
    struct asked a = publish(form_of(2));
    ck_assert_int_eq(a.err, RD_OK);
    ck_assert_int_eq(number("XLEN", "room:lobby"), 1);
}
END_TEST

START_TEST(an_entry_is_announced_with_the_one_before_it)
{
    config.script.announce = true;
    open_lane();
    redisContext *c = redisConnectUnix(server.socket);
    freeReplyObject(redisCommand(c, "SUBSCRIBE room:lobby"));
    char last[STREAM_ID_TEXT_MAX + 1] = "0-0";
    for (int i = 0; i < 3; i++) {
        struct roomlog_publish what = form_of(2);
        what.data = i == 2 ? STR("null") : what.data;
        what.ref = (struct str){NULL, 0};
        struct asked a = publish(what);
        char id[STREAM_ID_TEXT_MAX + 1] = "", want[256];
        (void)stream_id_format(a.id, id);
        (void)snprintf(want, sizeof(want), "%s %s 7:message,%zu:%s,3:ann,-,6:card:7,", id, last,
                       what.data.len, what.data.p);
        void *reply = NULL;
        ck_assert_int_eq(redisGetReply(c, &reply), REDIS_OK);
        ck_assert_str_eq(((redisReply *)reply)->element[2]->str, want);
        freeReplyObject(reply);
        memcpy(last, id, sizeof(last));
    }
    redisFree(c);
}
END_TEST

/* --- the suite ------------------------------------------------------------------------------ */

static void add_case(Suite *suite, const char *name, SFun start, SFun stop, TCase **out)
{
    *out = tcase_create(name);
    tcase_add_checked_fixture(*out, start, stop);
    tcase_set_timeout(*out, 60);
    suite_add_tcase(suite, *out);
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_appends");
    TCase *tc;

    add_case(suite, "cut", setup, teardown, &tc);
    tcase_add_loop_test(tc, a_publish_whose_connection_died_at_any_byte_is_in_the_log_once, 0,
                        DUE_FORMS);

    add_case(suite, "waiting", setup, teardown, &tc);
    tcase_add_test(tc, while_redis_is_away_publishes_wait_in_order_and_go_first);
    tcase_add_test(tc, a_publish_waits_for_the_very_first_connection_too);
    tcase_add_test(tc, what_has_waited_too_long_is_refused_and_not_in_the_log);
    tcase_add_test(tc, without_a_wait_it_is_refused_at_once);
    tcase_add_test(tc, no_more_wait_than_may_be_under_way);
    tcase_add_test(tc, what_waits_may_be_cancelled_and_the_rest_closed);

    add_case(suite, "order", setup, teardown, &tc);
    tcase_add_test(tc, a_forgotten_script_changes_nobodys_place);
    tcase_add_test(tc, a_master_that_is_none_any_more_is_left_and_what_it_refused_is_kept);
    tcase_add_test(tc, without_another_master_to_go_to_it_is_refused);

    add_case(suite, "elsewhere", setup, teardown, &tc);
    tcase_add_loop_test(tc, what_belongs_elsewhere_is_sent_there, 0, 3);
    tcase_add_test(tc, what_belongs_to_a_redis_that_is_away_waits_for_it);
    tcase_add_loop_test(tc, what_belongs_nowhere_is_refused_for_now, 0, 3);
    tcase_add_test(tc, nodes_that_do_not_agree_are_not_asked_for_ever);

    add_case(suite, "replica", with_replica, without_replica, &tc);
    tcase_add_test(tc, what_a_replica_has_is_acknowledged);
    tcase_add_test(tc, what_no_replica_has_is_of_unknown_fate_until_one_has);
    tcase_add_test(tc, what_comes_meanwhile_is_one_batch);
    tcase_add_test(tc, a_connection_that_dies_before_durability_is_known_says_so);

    add_case(suite, "redis", setup, teardown, &tc);
    tcase_add_test(tc, disk_is_promised_only_where_redis_can);
    tcase_add_test(tc, a_redis_that_may_evict_is_refused_where_that_is_demanded);
    tcase_add_test(tc, who_may_not_ask_for_the_policy_goes_without);
    tcase_add_loop_test(tc, what_redis_refuses_leaves_neither_claim_nor_state, 0, 4);
    tcase_add_test(tc, where_only_the_append_is_allowed_it_is_acknowledged);
    tcase_add_test(tc, an_entry_is_announced_with_the_one_before_it);
    return suite;
}
