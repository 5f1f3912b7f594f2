/* One call to the log goes wrong: who notices, and is all else untouched?
 *
 * The whole middle of the server (sessions, rooms, replays) plays a short script over a log in the
 * process, three clients in two rooms. The script makes CALLS calls to the log, always the same.
 * Each test lets one of them fail in one way, and holds what every client saw against the same
 * script without a fault.
 */
#include "session/session.h"

#include "room/registry.h"
#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_conn.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/faulty_roomlog.h"
#include "tests/lib/suite.h"

#include <cjson/cJSON.h>
#include <stdio.h>

enum {
    LINES_MAX = 100,
    LINE_MAX_LEN = 120,
    APPLIED_MAX = 40,
    BEFORE = 6,       /* entries of the lobby before anybody comes */
    PAGE_ENTRIES = 4, /* so a replay of the lobby takes two pages */
    STEP_MS = 1000,   /* longer than a replay waits before it asks again */
    TICK_MS = 100,
    START_LIMIT_MS = 5000
};

enum who { ANN, BOB, CAROL, CLIENTS };

enum call_kind { JOIN_PAGE, NEXT_PAGE, APPEND };

/* The script's calls, in their order. */
static const struct {
    enum call_kind kind;
    enum who who;
    const char *ref; /* of an append */
} CALL[] = {
    {JOIN_PAGE, BOB, NULL}, {NEXT_PAGE, BOB, NULL}, {JOIN_PAGE, CAROL, NULL},
    {JOIN_PAGE, ANN, NULL}, {NEXT_PAGE, ANN, NULL}, {APPEND, ANN, "a1"},
    {APPEND, BOB, "b1"},    {APPEND, CAROL, "c1"},  {APPEND, BOB, "b2"},
    {JOIN_PAGE, ANN, NULL},
};
enum { CALLS = sizeof(CALL) / sizeof(CALL[0]) };

static const char *const ROOM_OF[CLIENTS] = {"lobby", "lobby", "kitchen"};

/* --- clients -------------------------------------------------------------------------------- */

/* Follows the client's rule of PROTOCOL.md, and fails the test at a gap. */
struct client {
    struct fake_conn conn;
    const char *room;
    bool joining; /* sent, and not answered yet */
    bool in;
    bool live;
    bool has_cursor;
    struct stream_id cursor;
    struct stream_id applied[APPLIED_MAX]; /* since the last fresh start */
    size_t applied_count;
    unsigned acks, duplicates;
    unsigned rejects[2]; /* of joins, of publishes */
    int last_code;
    bool last_retry;
    /* What it was sent, as far as it must not depend on anybody else's fault. */
    char lines[LINES_MAX][LINE_MAX_LEN];
    size_t line_count;
};

static const char *text_of(const cJSON *frame, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(frame, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static struct stream_id id_of(const cJSON *frame, const char *name)
{
    struct stream_id id = STREAM_ID_ZERO;
    ck_assert(stream_id_parse(str_from(text_of(frame, name)), &id));
    return id;
}

static void on_entry(struct client *c, const cJSON *frame)
{
    struct stream_id id = id_of(frame, "id");
    if (c->joining)
        return;
    ck_assert_msg(c->in, "an entry of a room that it isn't in");
    if (c->has_cursor && stream_id_cmp(id, c->cursor) <= 0)
        return;
    if (c->has_cursor)
        ck_assert_msg(stream_id_eq(id_of(frame, "prev"), c->cursor), "a gap");
    c->has_cursor = true;
    c->cursor = id;
    ck_assert_uint_lt(c->applied_count, APPLIED_MAX);
    c->applied[c->applied_count++] = id;
}

static void on_joined(struct client *c, const cJSON *frame)
{
    c->joining = false;
    c->in = true;
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(frame, "from"))) {
        c->has_cursor = false;
        c->applied_count = 0;
        return;
    }
    ck_assert(c->has_cursor);
    ck_assert(stream_id_eq(id_of(frame, "from"), c->cursor));
}

static void on_reject(struct client *c, const cJSON *frame)
{
    bool publish = strcmp(text_of(frame, "op_ref"), "publish") == 0;
    if (!publish) {
        ck_assert_str_eq(text_of(frame, "op_ref"), "join");
        ck_assert_str_eq(text_of(frame, "room"), c->room);
        c->joining = false;
        c->in = false;
    }
    c->rejects[publish]++;
    c->last_code = cJSON_GetObjectItemCaseSensitive(frame, "code")->valueint;
    c->last_retry = cJSON_HasObjectItem(frame, "retry_after_ms");
}

static void on_text(void *arg, struct str text)
{
    struct client *c = arg;
    cJSON *frame = cJSON_ParseWithLength(text.p, text.len);
    ck_assert_ptr_nonnull(frame);
    const char *op = text_of(frame, "op");
    ck_assert_uint_lt(c->line_count, LINES_MAX);
    /* Not prev, and not counts or heads: those tell of what others did not get done. */
    (void)snprintf(c->lines[c->line_count++], LINE_MAX_LEN, "%s %s %s %s", op,
                   text_of(frame, "room"), text_of(frame, "id"), text_of(frame, "ref"));

    if (strcmp(op, "entry") == 0) {
        on_entry(c, frame);
    } else if (strcmp(op, "joined") == 0) {
        on_joined(c, frame);
    } else if (strcmp(op, "live") == 0) {
        c->live = true;
        if (!c->has_cursor)
            c->cursor = id_of(frame, "cursor");
        c->has_cursor = true;
    } else if (strcmp(op, "ack") == 0) {
        c->acks++;
        c->duplicates += cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(frame, "duplicate"));
    } else if (strcmp(op, "reject") == 0) {
        on_reject(c, frame);
    } else {
        ck_assert_msg(strcmp(op, "welcome") == 0 || strcmp(op, "left") == 0, "unexpected: %s", op);
    }
    cJSON_Delete(frame);
}

/* --- the house ------------------------------------------------------------------------------ */

struct house {
    struct fake_loop fake;
    struct metrics metrics;
    struct roomlog *inner;
    struct roomlog *log; /* the faulty one */
    struct registry registry;
    struct session_host host;
    struct client clients[CLIENTS];
};

static struct house house;
static struct client baseline[CLIENTS];

static void build(void)
{
    memset(&house, 0, sizeof(house));
    fake_loop_init(&house.fake, 5);
    struct loop *loop = &house.fake.loop;
    house.inner = roomlog_mem_create(loop, &house.metrics,
                                     &(struct roomlog_mem_limits){
                                         .max_entries = 1000,
                                         .max_bytes = 1 << 20,
                                         .max_rooms = 10,
                                         .max_refs = 100,
                                         .dedupe_ms = 300000,
                                         .max_in_flight = 100,
                                     });
    house.log = faulty_roomlog_create(loop, house.inner);
    registry_init(&house.registry, loop, house.log, &house.metrics,
                  &(struct registry_limits){
                      .max_rooms = 10,
                      .linger_ms = 60000,
                      .replay = {.page_entries = PAGE_ENTRIES,
                                 .page_bytes = 1 << 20,
                                 .in_flight = 4,
                                 .start_limit_ms = START_LIMIT_MS},
                  });
    session_host_init(&house.host, loop, house.log, &house.registry, &house.registry.packets,
                      &house.metrics,
                      &(struct session_limits){
                          .high_water = 1 << 20,
                          .low_water = 1 << 18,
                          .pending_bytes = 1 << 18,
                          .max_rooms = 10,
                          .max_publishes = 10,
                          .max_frame_bytes = 65536,
                          .packet_budget = 1 << 26,
                          .max_errors = 16,
                          .heartbeat_ms = 3600000,
                          .close_ms = 5000,
                      });
    for (size_t i = 0; i < CLIENTS; i++) {
        house.clients[i].room = ROOM_OF[i];
        fake_conn_open(&house.clients[i].conn, &house.host, NULL, on_text, &house.clients[i]);
    }
    /* Ann comes back: so no read of hers is one of Bob's, which they would share. */
    house.clients[ANN].has_cursor = true;
    house.clients[ANN].cursor = (struct stream_id){1, 0};
    house.clients[ANN].applied[0] = house.clients[ANN].cursor;
    house.clients[ANN].applied_count = 1;
    for (uint64_t i = 1; i <= BEFORE; i++)
        ck_assert(roomlog_mem_add(house.inner, STR("lobby"), (struct stream_id){i, 0},
                                  &(struct roomlog_publish){.type = STR("t"), .data = STR("0")}));
}

/* Nothing may be left: packets, members, requests, timers. The floors assert it. */
static void take_down(void)
{
    for (size_t i = 0; i < CLIENTS; i++)
        fake_conn_close(&house.clients[i].conn);
    fake_loop_turn(&house.fake);
    session_host_fini(&house.host);
    registry_fini(&house.registry);
    roomlog_close(house.log);
    fake_loop_turn(&house.fake);
    fake_loop_fini(&house.fake);
    ck_assert_uint_eq(house.metrics.v[M_MEMBERS], 0);
    ck_assert_uint_eq(house.metrics.v[M_REPLAYING], 0);
    ck_assert_uint_eq(house.metrics.v[M_CONNECTIONS], 0);
}

/* Time enough for everything that isn't silent. */
static void step(void)
{
    for (int ms = 0; ms < STEP_MS; ms += TICK_MS) {
        fake_loop_advance(&house.fake, TICK_MS);
        for (size_t i = 0; i < CLIENTS; i++)
            (void)fake_conn_read(&house.clients[i].conn, SIZE_MAX);
    }
}

static void join(enum who who)
{
    struct client *c = &house.clients[who];
    char id[STREAM_ID_TEXT_MAX + 1];
    id[stream_id_format(c->cursor, id)] = '\0';
    c->joining = true;
    c->live = false;
    if (c->has_cursor)
        fake_conn_send(&c->conn, "{\"op\":\"join\",\"room\":\"%s\",\"cursor\":\"%s\"}", c->room,
                       id);
    else
        fake_conn_send(&c->conn, "{\"op\":\"join\",\"room\":\"%s\"}", c->room);
    step();
}

static void leave(enum who who)
{
    struct client *c = &house.clients[who];
    if (c->in || c->joining) /* else its join was rejected */
        fake_conn_send(&c->conn, "{\"op\":\"leave\",\"room\":\"%s\"}", c->room);
    c->in = false;
    c->joining = false;
    step();
}

static void publish(enum who who, const char *ref)
{
    struct client *c = &house.clients[who];
    fake_conn_send(&c->conn,
                   "{\"op\":\"publish\",\"room\":\"%s\",\"type\":\"t\",\"data\":1,\"ref\":\"%s\"}",
                   c->room, ref);
    step();
}

static void play(void)
{
    join(BOB);
    join(CAROL);
    join(ANN);
    publish(ANN, "a1");
    publish(BOB, "b1");
    publish(CAROL, "c1");
    leave(ANN);
    publish(BOB, "b2");
    join(ANN);
}

/* The script without a fault: what everybody sees then. */
static void play_baseline(void)
{
    build();
    play();
    memcpy(baseline, house.clients, sizeof(baseline));
    ck_assert_uint_eq(faulty_roomlog_calls(house.log), CALLS);
    take_down();
}

/* --- what must hold ------------------------------------------------------------------------- */

/* All of who's lines, but those about the entry of that ref (NULL: none), equal the baseline's. */
static void assert_untouched(enum who who, const char *lost_ref)
{
    const struct client *was = &baseline[who], *is = &house.clients[who];
    char suffix[16];
    (void)snprintf(suffix, sizeof(suffix), " %s", lost_ref == NULL ? "no such" : lost_ref);
    size_t at = 0;
    for (size_t i = 0; i < was->line_count; i++) {
        const char *end = strstr(was->lines[i], suffix);
        if (end != NULL && end[strlen(suffix)] == '\0')
            continue;
        ck_assert_uint_lt(at, is->line_count);
        ck_assert_str_eq(is->lines[at++], was->lines[i]);
    }
    ck_assert_uint_eq(at, is->line_count);
}

struct whole {
    struct roomlog_read read;
    const struct client *client;
    bool done;
};

static void compare(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct whole *w = RD_CONTAINER(read, struct whole, read);
    w->done = true;
    ck_assert_int_eq(err, RD_OK);
    ck_assert_uint_eq(page->count, w->client->applied_count);
    for (size_t i = 0; i < page->count; i++)
        ck_assert(stream_id_eq(page->entries[i].id, w->client->applied[i]));
}

/* It is in, live, and has applied the whole log, each entry once and in order. */
static void assert_caught_up(enum who who)
{
    const struct client *c = &house.clients[who];
    struct whole w = {
        .read = {.from = ROOMLOG_ALL, .max_entries = 1000, .max_bytes = SIZE_MAX, .done = compare},
        .client = c};
    ck_assert(c->in && c->live && !c->joining);
    ck_assert_int_eq(roomlog_read(house.inner, str_from(c->room), &w.read), RD_OK);
    fake_loop_turn(&house.fake);
    ck_assert(w.done);
}

/* What a client does that gets no answer, or a reject that asks for another try. */
static void try_again(const struct client *struck, size_t call)
{
    enum who who = CALL[call].who;
    if (CALL[call].kind == APPEND) {
        publish(who, CALL[call].ref);
    } else if (!struck->live) {
        leave(who);
        join(who);
    }
}

/* --- the tests ------------------------------------------------------------------------------ */

static const enum rd_err ERR[FAULTY_ROOMLOG_FAULTS] = {
    [FAULTY_ROOMLOG_REFUSED] = RD_EUNAVAIL,
    [FAULTY_ROOMLOG_ERROR] = RD_ETIMEDOUT,
    [FAULTY_ROOMLOG_LOST] = RD_EUNKNOWN,
    [FAULTY_ROOMLOG_SILENT] = RD_EUNAVAIL, /* not used */
};

static void play_with(size_t call, enum faulty_roomlog_fault fault, enum rd_err err)
{
    play_baseline();
    build();
    faulty_roomlog_set(house.log, (unsigned)call + 1, fault, err);
    play();
    ck_assert(faulty_roomlog_struck(house.log));
}

/* Straight after the script: what has the one who asked been told? */
static void assert_told(const struct client *struck, size_t call, enum faulty_roomlog_fault fault)
{
    bool answered = fault == FAULTY_ROOMLOG_REFUSED || fault == FAULTY_ROOMLOG_ERROR;
    unsigned want_join = 0, want_publish = 0;
    switch (CALL[call].kind) {
    case APPEND:
        want_publish = answered; /* an unknown outcome is neither acked nor rejected */
        break;
    case JOIN_PAGE:
        want_join = fault != FAULTY_ROOMLOG_SILENT;
        break;
    case NEXT_PAGE: /* asked for again, without a word */
        break;
    }
    ck_assert_uint_eq(struck->rejects[0], want_join);
    ck_assert_uint_eq(struck->rejects[1], want_publish);
    if (want_join + want_publish != 0 && answered) {
        ck_assert_int_eq(struck->last_code, CODE_UNAVAILABLE);
        ck_assert(struck->last_retry);
    }
    if (CALL[call].kind == APPEND)
        ck_assert_uint_eq(struck->acks, baseline[CALL[call].who].acks - 1);
    ck_assert_uint_eq(struck->duplicates, 0);
}

/* _i walks every (call, kind of fault) pair. */
START_TEST(one_fault_touches_one_call)
{
    size_t call = (size_t)_i % CALLS;
    enum faulty_roomlog_fault fault = (enum faulty_roomlog_fault)((size_t)_i / CALLS);
    play_with(call, fault, ERR[fault]);

    const struct client *struck = &house.clients[CALL[call].who];
    const char *lost_ref =
        CALL[call].kind == APPEND && fault != FAULTY_ROOMLOG_LOST ? CALL[call].ref : NULL;
    assert_told(struck, call, fault);
    for (enum who who = 0; who < CLIENTS; who++)
        if (who != CALL[call].who)
            assert_untouched(who, lost_ref);

    unsigned acks = struck->acks;
    try_again(struck, call);
    if (CALL[call].kind == APPEND) {
        ck_assert_uint_eq(struck->acks, acks + 1);
        ck_assert_uint_eq(struck->duplicates, fault == FAULTY_ROOMLOG_LOST);
    }
    publish(ANN, "a9");
    publish(BOB, "b9");
    publish(CAROL, "c9");
    for (enum who who = 0; who < CLIENTS; who++) {
        assert_caught_up(who);
        ck_assert_uint_eq(house.clients[who].acks, baseline[who].acks + 1);
    }
    take_down();
}
END_TEST

START_TEST(a_house_can_be_taken_down_around_a_call_that_is_never_answered)
{
    play_with((size_t)_i, FAULTY_ROOMLOG_SILENT, RD_EUNAVAIL);
    take_down();
}
END_TEST

START_TEST(a_busy_log_delays_a_read_and_nobody_sees_it)
{
    if (CALL[_i].kind == APPEND) {
        play_with((size_t)_i, FAULTY_ROOMLOG_REFUSED, RD_EBUSY);
        ck_assert_int_eq(house.clients[CALL[_i].who].last_code, CODE_TOO_MANY);
        ck_assert(house.clients[CALL[_i].who].last_retry);
    } else {
        play_with((size_t)_i, FAULTY_ROOMLOG_REFUSED, RD_EBUSY);
        for (enum who who = 0; who < CLIENTS; who++)
            assert_untouched(who, NULL);
        ck_assert_uint_eq(faulty_roomlog_calls(house.log), CALLS + 1);
    }
    take_down();
}
END_TEST

/* The log's error, and how the one who published is told. */
static const struct {
    enum rd_err err;
    int code;
    bool retry;
} PUBLISH_ERRORS[] = {
    {RD_ETOOBIG, CODE_TOO_BIG, false},      {RD_EBUSY, CODE_TOO_MANY, true},
    {RD_EUNAVAIL, CODE_UNAVAILABLE, true},  {RD_ETIMEDOUT, CODE_UNAVAILABLE, true},
    {RD_EFULL, CODE_LOG_FULL, true},        {RD_EREADONLY, CODE_UNAVAILABLE, true},
    {RD_EWRONGTYPE, CODE_LOG_ERROR, false}, {RD_EDENIED, CODE_UNAVAILABLE, true},
    {RD_ELOG, CODE_LOG_ERROR, false},
};

START_TEST(a_failed_publish_is_rejected_with_what_the_log_said)
{
    build();
    join(ANN);
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_ERROR, PUBLISH_ERRORS[_i].err);
    publish(ANN, "r");
    ck_assert_uint_eq(house.clients[ANN].rejects[1], 1);
    ck_assert_int_eq(house.clients[ANN].last_code, PUBLISH_ERRORS[_i].code);
    ck_assert(house.clients[ANN].last_retry == PUBLISH_ERRORS[_i].retry);
    ck_assert_uint_eq(house.metrics.v[M_REJECTS], 1);
    assert_caught_up(ANN); /* and it is not in the log */
    ck_assert_uint_eq(house.clients[ANN].applied_count, BEFORE);
    take_down();
}
END_TEST

START_TEST(a_feed_that_never_starts_refuses_its_room_in_time_and_no_other)
{
    build();
    join(BOB);
    faulty_roomlog_hold_follows(house.log, true);
    join(CAROL); /* the first in the kitchen */
    ck_assert(house.clients[CAROL].joining);
    join(ANN); /* the lobby's feed runs */
    assert_caught_up(ANN);
    for (int ms = 0; ms < START_LIMIT_MS; ms += STEP_MS)
        step();
    ck_assert_uint_eq(house.clients[CAROL].rejects[0], 1);
    ck_assert_int_eq(house.clients[CAROL].last_code, CODE_UNAVAILABLE);
    ck_assert(house.clients[CAROL].last_retry);

    faulty_roomlog_hold_follows(house.log, false);
    join(CAROL);
    publish(CAROL, "c1");
    assert_caught_up(CAROL);
    assert_caught_up(BOB);
    take_down();
}
END_TEST

START_TEST(while_the_log_is_away_joins_are_refused_and_members_stay)
{
    build();
    join(BOB);
    faulty_roomlog_set_ready(house.log, false);
    join(ANN);
    ck_assert_uint_eq(house.clients[ANN].rejects[0], 1);
    ck_assert_int_eq(house.clients[ANN].last_code, CODE_UNAVAILABLE);
    ck_assert(house.clients[BOB].in);

    faulty_roomlog_set_ready(house.log, true);
    join(ANN);
    publish(ANN, "a1");
    assert_caught_up(ANN);
    assert_caught_up(BOB);
    take_down();
}
END_TEST

START_TEST(who_shares_a_read_shares_its_fate_and_nobody_else)
{
    build();
    house.clients[ANN].has_cursor = false;
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_ERROR, RD_ETIMEDOUT);
    house.clients[ANN].joining = house.clients[BOB].joining = true;
    fake_conn_send(&house.clients[ANN].conn, "{\"op\":\"join\",\"room\":\"lobby\"}");
    fake_conn_send(&house.clients[BOB].conn, "{\"op\":\"join\",\"room\":\"lobby\"}");
    join(CAROL);
    ck_assert_uint_eq(house.metrics.v[M_PAGES_SHARED], 1);
    ck_assert_uint_eq(house.clients[ANN].rejects[0], 1);
    ck_assert_uint_eq(house.clients[BOB].rejects[0], 1);
    assert_caught_up(CAROL);
    join(ANN);
    join(BOB);
    assert_caught_up(ANN);
    assert_caught_up(BOB);
    take_down();
}
END_TEST

/* One of two who share a read that is never answered may go, and then the other. */
START_TEST(a_shared_read_is_given_up_with_the_last_who_waits_for_it)
{
    build();
    house.clients[ANN].has_cursor = false;
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_SILENT, RD_EUNAVAIL);
    house.clients[ANN].joining = true;
    fake_conn_send(&house.clients[ANN].conn, "{\"op\":\"join\",\"room\":\"lobby\"}");
    join(BOB);
    ck_assert(house.clients[ANN].joining && house.clients[BOB].joining);
    leave(BOB);
    ck_assert(house.clients[ANN].joining);
    ck_assert_uint_eq(house.registry.replay.fetches.in_flight, 1);
    leave(ANN);
    ck_assert_uint_eq(house.registry.replay.fetches.in_flight, 0);
    join(ANN);
    assert_caught_up(ANN);
    take_down();
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("log_faults");
    TCase *tc = tcase_create("log_faults");
    tcase_add_loop_test(tc, one_fault_touches_one_call, 0, CALLS * FAULTY_ROOMLOG_FAULTS);
    tcase_add_loop_test(tc, a_house_can_be_taken_down_around_a_call_that_is_never_answered, 0,
                        CALLS);
    tcase_add_loop_test(tc, a_busy_log_delays_a_read_and_nobody_sees_it, 0, CALLS);
    tcase_add_loop_test(tc, a_failed_publish_is_rejected_with_what_the_log_said, 0,
                        sizeof(PUBLISH_ERRORS) / sizeof(PUBLISH_ERRORS[0]));
    tcase_add_test(tc, a_feed_that_never_starts_refuses_its_room_in_time_and_no_other);
    tcase_add_test(tc, while_the_log_is_away_joins_are_refused_and_members_stay);
    tcase_add_test(tc, who_shares_a_read_shares_its_fate_and_nobody_else);
    tcase_add_test(tc, a_shared_read_is_given_up_with_the_last_who_waits_for_it);
    suite_add_tcase(suite, tc);
    return suite;
}
