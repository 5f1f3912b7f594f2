#include "session/session.h"

#include "base/xalloc.h"
#include "protocol/frame.h"
#include "tests/lib/house.h"
#include "tests/lib/suite.h"

#include <stdio.h>

enum {
    VISITORS = 4,
    PAGE = 10,
    RETRY_MS = 1000, /* as in session.c */
    RETRY_LONG_MS = 5000,
    DRAIN_SLICE = 256
};

/* An entry of red with a number of two digits, as house_fill makes them, and its length on the
 * wire. */
#define ENTRY(n, before)                                                                           \
    "{\"op\":\"entry\",\"room\":\"red\",\"id\":\"1-" n "\",\"prev\":\"" before                     \
    "\",\"type\":\"t\",\"data\":{\"n\":" n "}}\n"
enum { ENTRY_LEN = sizeof(ENTRY("11", "1-10")) - sizeof("\n") + 2 };

#define JOINED                                                                                     \
    "{\"op\":\"joined\",\"room\":\"red\",\"from\":null,\"head\":\"0-0\",\"oldest\":null,"          \
    "\"complete\":true,\"max_entries\":100000}\n"
#define LIVE "{\"op\":\"live\",\"room\":\"red\",\"cursor\":\"0-0\",\"replayed\":0}\n"
#define JOINED_EMPTY JOINED LIVE

static struct house house;
static struct house_visitor visitors[VISITORS];
static struct house_visitor *const ann = &visitors[0];
static struct house_visitor *const bob = &visitors[1];

static void make_with(const struct house_limits *limits)
{
    house_build(&house, limits);
    for (int i = 0; i < VISITORS; i++)
        house_visitor_open(&house, &visitors[i], NULL);
}

static void make(void)
{
    struct house_limits limits = house_limits();
    make_with(&limits);
}

static void take_down(void)
{
    for (int i = 0; i < VISITORS; i++)
        house_visitor_close(&visitors[i]);
    house_take_down(&house);
    ck_assert_uint_eq(house.registry.packets.bytes, 0);
}

/* For a test with limits of its own, in place of the fixture's house. */
static void make_again(const struct house_limits *limits)
{
    take_down();
    make_with(limits);
}

static const char *hear(struct house_visitor *visitor)
{
    return house_visitor_read(&house, visitor);
}

#define ck_heard(visitor, text) ck_assert_str_eq(hear(visitor), text)
#define send(visitor, ...) fake_conn_send(&(visitor)->conn, __VA_ARGS__)

static void turn(void)
{
    fake_loop_turn(&house.loop);
}

static void join(struct house_visitor *visitor, const char *room)
{
    send(visitor, "{\"op\":\"join\",\"room\":\"%s\"}", room);
}

static void publish(struct house_visitor *visitor, const char *ref)
{
    send(visitor, "{\"op\":\"publish\",\"room\":\"red\",\"type\":\"t\",\"data\":1,\"ref\":\"%s\"}",
         ref);
}

static void signal_red(struct house_visitor *visitor)
{
    send(visitor, "{\"op\":\"signal\",\"room\":\"red\",\"type\":\"t\"}");
}

#define SIGNAL "{\"op\":\"signal\",\"room\":\"red\",\"type\":\"t\",\"data\":null}\n"

/* A frame of our own of len bytes on the wire, len from 25 to 125. */
static void ask_pong(struct house_visitor *visitor, int len)
{
    send(visitor, "{\"op\":\"ping\",\"t\":\"%0*d\"}",
         len - (int)sizeof("..{'op':'pong','t':''}") + 1, 0);
}

static bool closing(const struct house_visitor *visitor)
{
    return session_closing(visitor->conn.session);
}

/* Nothing but this close frame comes any more, and nothing is kept for the session beside it. */
static void ck_closed(struct house_visitor *visitor, unsigned code)
{
    ck_assert(closing(visitor));
    ck_heard(visitor, "");
    ck_assert_uint_eq(visitor->conn.close_code, code);
    ck_assert_uint_eq(session_next_len(visitor->conn.session), 0);
}

/* The number behind "retry_after_ms": in a frame, -1 where there is none. */
static long retry_after(const char *frame)
{
    const char *at = strstr(frame, "\"retry_after_ms\":");
    return at == NULL ? -1 : strtol(at + sizeof("\"retry_after_ms\":") - 1, NULL, 10);
}

/* --- coming in ------------------------------------------------------------------------------ */

static void keep_text(void *arg, struct str text)
{
    struct buf *buf = arg;
    ck_assert_int_eq(buf_append(buf, text.p, text.len), RD_OK);
}

START_TEST(welcome_is_the_first_frame_and_names_the_limits)
{
    static const char BEFORE[] = "{\"op\":\"welcome\",\"session\":\"";
    static const char AFTER[] = "\",\"heartbeat_ms\":25000,\"max_frame_bytes\":65536,"
                                "\"high_water_bytes\":1048576}";
    struct fake_conn conn;
    struct buf text;
    buf_init(&text, 1024);
    fake_conn_open(&conn, &house.host, NULL, keep_text, &text);
    ck_assert(conn.wants_write);
    (void)fake_conn_read(&conn, 1);
    ck_assert_uint_eq(text.len, sizeof(BEFORE) + sizeof(AFTER) - 2 + 16);
    ck_assert_mem_eq(text.p, BEFORE, sizeof(BEFORE) - 1);
    ck_assert_mem_eq(text.p + sizeof(BEFORE) - 1 + 16, AFTER, sizeof(AFTER) - 1);
    ck_assert_uint_eq(house.metrics.v[M_CONNECTIONS], VISITORS + 1);
    ck_assert_uint_eq(house.metrics.v[M_CONNECTIONS_TOTAL], VISITORS + 1);
    fake_conn_close(&conn);
    buf_fini(&text);
}
END_TEST

static const struct {
    struct session_hello hello;
    const char *heard;
} HELLOS[] = {
    {{.room = {"red", 3}}, JOINED_EMPTY},
    {{.room = {"red", 3}, .cursor = {"0-0", 3}, .last = {"5", 1}}, JOINED_EMPTY},
    {{.room = {"red", 3}, .state = {"1", 1}},
     JOINED "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":null,\"entries\":[]}\n" LIVE},
    {{.room = {"red", 3}, .state = {"yes", 3}},
     "{\"op\":\"reject\",\"op_ref\":\"join\","
     "\"room\":\"red\",\"code\":422,\"reason\":\"state must be true or false\"}\n"},
    {{.cursor = {"x", 1}}, ""},
    {{.room = {"r d", 3}},
     "{\"op\":\"reject\",\"op_ref\":\"join\",\"code\":422,\"reason\":\"" FRAME_ROOM_RULE "\"}\n"},
    {{.room = {"red", 3}, .cursor = {"5", 1}},
     "{\"op\":\"reject\",\"op_ref\":\"join\","
     "\"room\":\"red\",\"code\":422,\"reason\":"},
    {{.room = {"red", 3}, .last = {"501", 3}},
     "{\"op\":\"reject\",\"op_ref\":\"join\","
     "\"room\":\"red\",\"code\":422,\"reason\":"},
};

START_TEST(the_room_of_the_url_is_joined_as_if_the_client_had_asked)
{
    const char *wanted = HELLOS[_i].heard;
    house_visitor_close(ann);
    house_visitor_open(&house, ann, &HELLOS[_i].hello);
    const char *heard = hear(ann);
    ck_assert_uint_eq(strncmp(heard, wanted, strlen(wanted)), 0);
    ck_assert(strlen(wanted) != 0 || strlen(heard) == 0);
    ck_assert(!closing(ann));
}
END_TEST

/* --- rooms ---------------------------------------------------------------------------------- */

START_TEST(a_join_is_answered_and_live_entries_follow)
{
    join(ann, "red");
    ck_heard(ann, JOINED_EMPTY);
    house_fill(&house, "red", 11, 12);
    ck_heard(ann, ENTRY("11", "0-0") ENTRY("12", "1-11"));
    ck_assert_uint_eq(house.metrics.v[M_DELIVERIES], 2);
}
END_TEST

START_TEST(a_cursor_resumes_where_it_was)
{
    house_fill(&house, "red", 10, 12);
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"1-10\"}");
    ck_heard(ann, "{\"op\":\"joined\",\"room\":\"red\",\"from\":\"1-10\",\"head\":\"1-12\","
                  "\"oldest\":\"1-10\",\"complete\":true,\"max_entries\":100000}\n" //
             ENTRY("11", "1-10") ENTRY("12", "1-11")                                //
             "{\"op\":\"live\",\"room\":\"red\",\"cursor\":\"1-12\",\"replayed\":2}\n");
}
END_TEST

START_TEST(last_and_new_say_where_a_fresh_start_begins)
{
    house_fill(&house, "red", 10, 12);
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"last\":1}");
    const char *heard = hear(ann);
    ck_assert_ptr_nonnull(strstr(heard, ENTRY("12", "1-11")));
    ck_assert_ptr_null(strstr(heard, "1-10\",\"prev"));
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"$\"}");
    ck_assert_ptr_null(strstr(hear(ann), "\"op\":\"entry\""));
}
END_TEST

/* The log of red has 1-1, 1-3, 1-4, 1-5 and 1-6; of it were cut, deleted, or neither: */
static const struct {
    const char *room;
    const char *cursor;
    size_t keep;
    unsigned deleted;
    const char *reason;
} RESYNCS[] = {
    {"red", "1-1", 2, 0, "trimmed"}, {"blue", "1-1", 10, 0, "reset"},
    {"red", "1-9", 10, 0, "ahead"},  {"red", "1-2", 10, 0, "diverged"},
    {"red", "1-2", 10, 4, "hole"},
};

START_TEST(a_cursor_that_can_not_be_honoured_is_told_why)
{
    char wanted[128];
    house_fill(&house, "red", 1, 1);
    house_fill(&house, "red", 3, 6);
    roomlog_mem_trim(house.mem, STR("red"), RESYNCS[_i].keep);
    if (RESYNCS[_i].deleted != 0)
        ck_assert(
            roomlog_mem_delete(house.mem, STR("red"), (struct stream_id){1, RESYNCS[_i].deleted}));
    send(ann, "{\"op\":\"join\",\"room\":\"%s\",\"cursor\":\"%s\"}", RESYNCS[_i].room,
         RESYNCS[_i].cursor);
    (void)snprintf(wanted, sizeof(wanted),
                   "{\"op\":\"resync\",\"room\":\"%s\",\"reason\":\"%s\",\"from\":null}\n",
                   RESYNCS[_i].room, RESYNCS[_i].reason);
    ck_assert_uint_eq(strncmp(hear(ann), wanted, strlen(wanted)), 0);
}
END_TEST

START_TEST(joining_twice_is_a_rejoin)
{
    house_fill(&house, "red", 10, 11);
    join(ann, "red");
    join(ann, "red");
    const char *heard = hear(ann);
    const char *first = strstr(heard, "\"op\":\"joined\"");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "\"op\":\"joined\""));
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"1-11\"}");
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"from\":\"1-11\""));
    ck_assert_uint_eq(house.metrics.v[M_MEMBERS], 1);
}
END_TEST

START_TEST(whoever_left_is_told_and_hears_nothing_more)
{
    join(ann, "red");
    (void)hear(ann);
    send(ann, "{\"op\":\"leave\",\"room\":\"red\"}");
    ck_heard(ann, "{\"op\":\"left\",\"room\":\"red\"}\n");
    house_fill(&house, "red", 11, 11);
    ck_heard(ann, "");
    send(ann, "{\"op\":\"leave\",\"room\":\"red\"}");
    ck_heard(ann, "{\"op\":\"reject\",\"op_ref\":\"leave\",\"room\":\"red\",\"code\":409,"
                  "\"reason\":\"not in this room\"}\n");
}
END_TEST

START_TEST(leaving_before_the_answer_takes_the_answer_back)
{
    join(ann, "red");
    send(ann, "{\"op\":\"leave\",\"room\":\"red\"}");
    ck_heard(ann, "{\"op\":\"left\",\"room\":\"red\"}\n");
}
END_TEST

START_TEST(a_session_may_be_in_max_rooms_and_no_more)
{
    struct house_limits limits = house_limits();
    limits.session.max_rooms = 2;
    make_again(&limits);
    join(ann, "red");
    join(ann, "blue");
    (void)hear(ann);
    join(ann, "green");
    ck_heard(ann, "{\"op\":\"reject\",\"op_ref\":\"join\",\"room\":\"green\",\"code\":429,"
                  "\"reason\":\"too many rooms on this socket\"}\n");
    join(ann, "red"); /* where it is already */
    ck_heard(ann, JOINED_EMPTY);
    send(ann, "{\"op\":\"leave\",\"room\":\"blue\"}");
    join(ann, "green");
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"op\":\"live\",\"room\":\"green\""));
}
END_TEST

START_TEST(where_too_many_rooms_are_open_a_join_is_rejected)
{
    struct house_limits limits = house_limits();
    limits.registry.max_rooms = 1;
    make_again(&limits);
    join(bob, "blue");
    join(ann, "red");
    ck_heard(ann, "{\"op\":\"reject\",\"op_ref\":\"join\",\"room\":\"red\",\"code\":429,"
                  "\"reason\":\"too many rooms are open\"}\n");
    send(bob, "{\"op\":\"leave\",\"room\":\"blue\"}");
    join(ann, "red"); /* blue is empty, and makes way */
    ck_heard(ann, JOINED_EMPTY);
}
END_TEST

START_TEST(while_the_log_is_away_a_join_is_rejected_at_once)
{
    faulty_roomlog_set_ready(house.log, false);
    join(ann, "red");
    const char *heard = hear(ann);
    ck_assert_ptr_nonnull(
        strstr(heard, "{\"op\":\"reject\",\"op_ref\":\"join\",\"room\":\"red\",\"code\":503,"));
    ck_assert_int_ge(retry_after(heard), RETRY_MS);
    faulty_roomlog_set_ready(house.log, true);
    join(ann, "red");
    ck_heard(ann, JOINED_EMPTY);
}
END_TEST

START_TEST(a_room_that_is_lost_in_mid_life_is_told_and_left)
{
    join(ann, "red");
    house_fill(&house, "red", 1, 1);
    (void)hear(ann);
    roomlog_mem_reset(house.mem, STR("red"));
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_ERROR, RD_EWRONGTYPE);
    ck_heard(ann, "{\"op\":\"reject\",\"op_ref\":\"join\",\"room\":\"red\",\"code\":500,"
                  "\"reason\":\"the room's key holds something else\"}\n");
    send(ann, "{\"op\":\"leave\",\"room\":\"red\"}");
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"code\":409"));
    join(ann, "red");
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"op\":\"live\""));
}
END_TEST

/* --- publishing ----------------------------------------------------------------------------- */

START_TEST(a_publish_is_acked_with_its_id_and_reaches_the_room)
{
    join(bob, "red");
    (void)hear(bob);
    publish(ann, "r1");
    ck_heard(ann, "{\"op\":\"ack\",\"room\":\"red\",\"ref\":\"r1\",\"id\":\"1700000000000-0\","
                  "\"duplicate\":false}\n");
    ck_heard(bob, "{\"op\":\"entry\",\"room\":\"red\",\"id\":\"1700000000000-0\",\"prev\":\"0-0\","
                  "\"type\":\"t\",\"ref\":\"r1\",\"data\":1}\n");
    ck_assert_uint_eq(house.metrics.v[M_PUBLISHED], 1);
}
END_TEST

START_TEST(the_same_ref_again_is_acked_with_the_first_id)
{
    publish(ann, "r1");
    (void)hear(ann);
    publish(ann, "r1");
    ck_heard(ann, "{\"op\":\"ack\",\"room\":\"red\",\"ref\":\"r1\",\"id\":\"1700000000000-0\","
                  "\"duplicate\":true}\n");
    ck_assert_uint_eq(house.metrics.v[M_PUBLISHED], 1);
    ck_assert_uint_eq(house.metrics.v[M_PUBLISH_DUPLICATES], 1);
}
END_TEST

START_TEST(a_publish_without_a_ref_is_acked_without_one)
{
    send(ann, "{\"op\":\"publish\",\"room\":\"red\",\"type\":\"t\",\"data\":1}");
    ck_heard(ann, "{\"op\":\"ack\",\"room\":\"red\",\"id\":\"1700000000000-0\","
                  "\"duplicate\":false}\n");
}
END_TEST

/* What each error of the log looks like to a client. 0: it hears nothing. */
static const struct {
    unsigned code;
    long retry_ms; /* at least; -1: none */
} REJECTS[RD_ERR_COUNT] = {
    [RD_EINVAL] = {500, -1},
    [RD_ETOOBIG] = {413, -1},
    [RD_EBUSY] = {429, RETRY_MS},
    [RD_EUNAVAIL] = {503, RETRY_MS},
    [RD_EUNKNOWN] = {0, -1},
    [RD_ETIMEDOUT] = {503, RETRY_MS},
    [RD_EFULL] = {507, RETRY_LONG_MS},
    [RD_ESTATEFULL] = {507, RETRY_LONG_MS},
    [RD_EREADONLY] = {503, RETRY_MS},
    [RD_ELOADING] = {503, RETRY_MS},
    [RD_EBLOCKED] = {503, RETRY_MS},
    [RD_EUNSAVED] = {503, RETRY_MS},
    [RD_EREPLICAS] = {503, RETRY_MS},
    [RD_ENOIDS] = {500, -1},
    [RD_EWRONGTYPE] = {500, -1},
    [RD_EDENIED] = {503, RETRY_LONG_MS},
    [RD_ELOG] = {500, -1},
    [RD_ESYS] = {500, -1},
};

static void ck_rejected(const char *heard, const char *op, const char *ref, enum rd_err err)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof(wanted),
                   "{\"op\":\"reject\",\"op_ref\":\"%s\",%s\"room\":\"red\",\"code\":%u,"
                   "\"reason\":\"%s\"",
                   op, ref, REJECTS[err].code, rd_err_text(err));
    long retry_ms = REJECTS[err].retry_ms;
    ck_assert_uint_eq(strncmp(heard, wanted, strlen(wanted)), 0);
    ck_assert_ptr_eq(strchr(heard, '\n') + 1, strchr(heard, '\0'));
    if (retry_ms < 0)
        ck_assert_int_eq(retry_after(heard), -1);
    else /* and up to half as much again */
        ck_assert(retry_after(heard) >= retry_ms && retry_after(heard) < retry_ms + retry_ms / 2);
    ck_assert_uint_eq(house.metrics.v[M_REJECTS], 1);
}

START_TEST(a_publish_that_did_not_happen_is_rejected_and_one_of_unknown_fate_is_not_answered)
{
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_ERROR, (enum rd_err)_i);
    publish(ann, "r1");
    const char *heard = hear(ann);
    if (_i == RD_EUNKNOWN)
        ck_assert_str_eq(heard, "");
    else
        ck_rejected(heard, "publish", "\"ref\":\"r1\",", (enum rd_err)_i);
    publish(ann, "r1"); /* and the same may be tried again */
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"op\":\"ack\",\"room\":\"red\",\"ref\":\"r1\""));
    ck_assert(!closing(ann));
}
END_TEST

START_TEST(a_publish_that_the_log_does_not_take_is_rejected_likewise)
{
    if (_i == RD_EUNKNOWN)
        return; /* what wasn't taken is known not to be in the log */
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_REFUSED, (enum rd_err)_i);
    publish(ann, "r1");
    ck_rejected(hear(ann), "publish", "\"ref\":\"r1\",", (enum rd_err)_i);
}
END_TEST

START_TEST(a_join_that_the_log_can_not_answer_is_rejected_likewise)
{
    if (_i == RD_EUNKNOWN)
        return; /* is no answer to a read */
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_ERROR, (enum rd_err)_i);
    join(ann, "red");
    ck_rejected(hear(ann), "join", "", (enum rd_err)_i);
    join(ann, "red");
    ck_heard(ann, JOINED_EMPTY);
}
END_TEST

START_TEST(one_that_was_lost_but_done_is_a_duplicate_when_it_is_sent_again)
{
    faulty_roomlog_set(house.log, 1, FAULTY_ROOMLOG_LOST, RD_EUNKNOWN);
    publish(ann, "r1");
    ck_heard(ann, "");
    publish(ann, "r1");
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"ref\":\"r1\",\"id\":\"1700000000000-0\","
                                            "\"duplicate\":true"));
}
END_TEST

START_TEST(max_publishes_may_be_under_way_and_one_more_is_rejected)
{
    struct house_limits limits = house_limits();
    limits.session.max_publishes = 3;
    make_again(&limits);
    for (int i = 0; i < 4; i++)
        publish(ann, i == 3 ? "late" : i == 2 ? "c" : i == 1 ? "b" : "a");
    publish(bob, "d"); /* has its own */
    const char *heard = hear(ann);
    const char *reject = strstr(heard, "{\"op\":\"reject\",\"op_ref\":\"publish\",\"ref\":\"late\","
                                       "\"room\":\"red\",\"code\":429,");
    ck_assert_ptr_nonnull(reject);
    ck_assert_int_ge(retry_after(reject), RETRY_MS);
    for (const char *ref = "abc"; *ref != '\0'; ref++) {
        char wanted[32];
        (void)snprintf(wanted, sizeof(wanted), "\"ref\":\"%c\",\"id\"", *ref);
        ck_assert_ptr_nonnull(strstr(heard, wanted));
    }
    ck_assert_ptr_nonnull(strstr(hear(bob), "\"op\":\"ack\""));
    publish(ann, "late");
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"op\":\"ack\""));
}
END_TEST

START_TEST(whoever_is_gone_is_not_answered)
{
    publish(ann, "r1");
    house_visitor_close(ann);
    turn();
    publish(bob, "r1");
    ck_assert_ptr_nonnull(strstr(hear(bob), "\"duplicate\":true")); /* but it was done */
}
END_TEST

/* --- other frames --------------------------------------------------------------------------- */

START_TEST(a_signal_goes_to_the_others_in_the_room)
{
    join(ann, "red");
    join(bob, "red");
    (void)hear(ann);
    (void)hear(bob);
    signal_red(ann);
    ck_heard(ann, "");
    ck_heard(bob, SIGNAL);
    ck_heard(&visitors[2], "");
    ck_assert_uint_eq(house.metrics.v[M_SIGNALS], 1);
    signal_red(&visitors[2]);
    ck_heard(&visitors[2], "{\"op\":\"reject\",\"op_ref\":\"signal\",\"room\":\"red\","
                           "\"code\":409,\"reason\":\"not in this room\"}\n");
    ck_heard(bob, "");
}
END_TEST

/* Frames and what each is answered with. */
static const struct {
    const char *frame;
    const char *answer;
} ANSWERS[] = {
    {"{\"op\":\"ping\"}", "{\"op\":\"pong\"}\n"},
    {"{\"op\":\"ping\",\"t\":1.50}", "{\"op\":\"pong\",\"t\":1.50}\n"},
    {"{\"op\":\"auth\",\"token\":\"x\"}", "{\"op\":\"reject\",\"op_ref\":\"auth\",\"code\":401,"
                                          "\"reason\":\"this server has no authentication\"}\n"},
    {"{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"x\"}",
     "{\"op\":\"reject\",\"op_ref\":\"join\",\"room\":\"red\",\"code\":422,"},
    {"{\"op\":\"publish\",\"room\":\"red\",\"ref\":\"r\",\"data\":1}",
     "{\"op\":\"reject\",\"op_ref\":\"publish\",\"ref\":\"r\",\"room\":\"red\",\"code\":422,"},
    {"{\"op\":\"leave\",\"room\":\"r d\"}",
     "{\"op\":\"reject\",\"op_ref\":\"leave\",\"code\":422,"},
    {"{\"op\":\"ping\",\"t\":[]}", "{\"op\":\"error\",\"code\":422,"},
    {"{\"op\":\"dance\"}", "{\"op\":\"error\",\"code\":404,"},
    {"{\"op\":1}", "{\"op\":\"error\",\"code\":"},
    {"hello", "{\"op\":\"error\",\"code\":400,"},
    {"", "{\"op\":\"error\",\"code\":400,"},
};

START_TEST(every_frame_is_answered_and_the_socket_lives)
{
    send(ann, "%s", ANSWERS[_i].frame);
    const char *heard = hear(ann);
    ck_assert_uint_eq(strncmp(heard, ANSWERS[_i].answer, strlen(ANSWERS[_i].answer)), 0);
    ck_assert_ptr_eq(strchr(heard, '\n') + 1, strchr(heard, '\0')); /* with one frame */
    ck_assert(!closing(ann));
    ck_assert_uint_eq(house.metrics.v[M_FRAMES_IN], 1);
}
END_TEST

START_TEST(a_pong_has_a_ceiling)
{
    static char text[8192];
    memset(text, '1', sizeof(text));
    memcpy(text, "{\"op\":\"ping\",\"t\":", 17);
    text[sizeof(text) - 1] = '}';
    session_receive(ann->conn.session, (struct str){text, sizeof(text)});
    ck_heard(ann, "{\"op\":\"error\",\"code\":413,\"reason\":\"t is too long\"}\n");
}
END_TEST

START_TEST(max_errors_are_answered_and_one_more_closes)
{
    struct house_limits limits = house_limits();
    limits.session.max_errors = 3;
    make_again(&limits);
    for (int i = 0; i < 3; i++)
        send(ann, "x");
    publish(ann, "r"); /* what is rejected or done doesn't count */
    send(ann, "{\"op\":\"leave\",\"room\":\"red\"}");
    (void)hear(ann);
    ck_assert_uint_eq(house.metrics.v[M_ERRORS], 3);
    ck_assert(!closing(ann));
    send(ann, "x");
    ck_closed(ann, CLOSE_BAD_FRAME);
    ck_assert_uint_eq(house.metrics.v[M_BAD_FRAME_CLOSED], 1);
}
END_TEST

START_TEST(invalid_utf8_closes)
{
    session_receive(ann->conn.session, STR("{\"op\":\"ping\",\"t\":\"\xff\"}"));
    ck_closed(ann, CLOSE_BAD_UTF8);
    ck_assert_uint_eq(house.metrics.v[M_BAD_FRAME_CLOSED], 1);
}
END_TEST

static const enum code_close FAILS[] = {CLOSE_TOO_BIG, CLOSE_BAD_FRAME, CLOSE_PROTOCOL_ERROR};

START_TEST(what_the_connection_saw_closes_once_and_is_counted)
{
    session_fail(ann->conn.session, FAILS[_i]);
    session_fail(ann->conn.session, CLOSE_BAD_UTF8);
    ck_closed(ann, FAILS[_i]);
    ck_assert_uint_eq(house.metrics.v[M_BAD_FRAME_CLOSED], 1);
}
END_TEST

/* --- backpressure --------------------------------------------------------------------------- */

/* Ann and bob are live in red at 1-10, and the mark is five entries. */
static void make_slow(void)
{
    struct house_limits limits = house_limits();
    limits.session.high_water = 5 * ENTRY_LEN;
    limits.session.low_water = 2 * ENTRY_LEN;
    make_with(&limits);
    house_fill(&house, "red", 10, 10);
    join(ann, "red");
    join(bob, "red");
    (void)hear(ann);
    (void)hear(bob);
    ck_assert_uint_eq(house.registry.packets.count, 0);
}

static void fill_and_turn(unsigned first, unsigned last)
{
    house_fill(&house, "red", first, last);
    turn();
}

START_TEST(at_the_mark_one_more_entry_fits_and_above_it_the_socket_is_closed)
{
    fill_and_turn(11, 15); /* at the mark */
    fill_and_turn(16, 16);
    ck_assert(!closing(ann));
    ck_assert_uint_eq(house.registry.packets.count, 6);
    ck_heard(bob, ENTRY("11", "1-10") ENTRY("12", "1-11") ENTRY("13", "1-12") ENTRY("14", "1-13")
                      ENTRY("15", "1-14") ENTRY("16", "1-15"));
    fill_and_turn(17, 17);
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 1);
    ck_heard(bob, ENTRY("17", "1-16")); /* who is not touched */
    ck_assert(!closing(bob));

    /* The queue is dropped and its memory given back: what is left is the close frame. */
    ck_assert_uint_eq(house.registry.packets.count, 1);
    ck_assert(ann->conn.wants_write);
    ck_closed(ann, CLOSE_SLOW);
    ck_assert_uint_eq(house.registry.packets.bytes, 0);
    ck_assert_uint_eq(house.metrics.v[M_MEMBERS], 1);
}
END_TEST

START_TEST(a_socket_that_does_not_take_its_close_frame_is_cut)
{
    fill_and_turn(11, 17);
    ck_assert(closing(ann));
    fake_loop_advance(&house.loop, house.host.limits.close_ms - 1);
    ck_assert(!ann->conn.aborted);
    fake_loop_advance(&house.loop, 1);
    ck_assert(ann->conn.aborted);
    ck_assert_uint_eq(house.metrics.v[M_FORCED], 2); /* bob reads as little */
    house_visitor_close(ann);
    turn();
    ck_assert_uint_eq(house.registry.packets.count, 1); /* of bob */
}
END_TEST

START_TEST(room_comes_back_as_the_socket_takes_packets)
{
    for (unsigned n = 11; n < 99; n++) {
        fill_and_turn(n, n);
        if (n % 3 == 0)
            (void)fake_conn_read(&ann->conn, 3 * ENTRY_LEN);
    }
    ck_assert(!closing(ann));
    ck_assert(closing(bob));
}
END_TEST

START_TEST(what_the_connection_holds_does_not_count_against_the_mark)
{
    session_wrote(ann->conn.session, 1000 * ENTRY_LEN); /* one huge entry, say */
    fill_and_turn(11, 16);
    ck_assert(!closing(ann));
    fill_and_turn(17, 17);
    ck_closed(ann, CLOSE_SLOW);
}
END_TEST

START_TEST(what_is_pending_counts_against_the_mark)
{
    session_wrote(ann->conn.session, 2 * ENTRY_LEN); /* so that the replay waits */
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"1-10\"}");
    fill_and_turn(11, 15);
    send(ann, "{\"op\":\"ping\"}"); /* at the mark */
    ck_assert(!closing(ann));
    send(ann, "{\"op\":\"ping\"}");
    ck_assert(closing(ann));
    turn(); /* the room is left a turn later, and the pending list with it */
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 1);
    ck_closed(ann, CLOSE_SLOW);
}
END_TEST

/* The queue hasn't stood for as long as it takes to say that its reader is slow. */
START_TEST(a_burst_above_the_mark_is_left_to_the_log_and_closes_nobody)
{
    house.host.limits.patience_ms = 250;
    fill_and_turn(11, 40);
    ck_assert(!closing(ann));
    ck_assert_uint_eq(house.metrics.v[M_BURSTS], 2); /* ann's and bob's */
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 0);
    for (unsigned n = 11; n <= 40; n++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "\"id\":\"1-%u\"", n);
        const char *heard = hear(ann); /* one packet at a time */
        while (heard[0] == '\0') {
            turn();
            heard = hear(ann);
        }
        for (; n <= 40 && strstr(heard, id) != NULL; n++)
            (void)snprintf(id, sizeof(id), "\"id\":\"1-%u\"", n + 1);
        n--;
    }
    fill_and_turn(41, 41);
    ck_heard(ann, ENTRY("41", "1-40"));
}
END_TEST

START_TEST(who_does_not_read_after_a_burst_is_closed_once_it_has_stood)
{
    house.host.limits.patience_ms = 250;
    fill_and_turn(11, 40);
    (void)fake_conn_read(&bob->conn, SIZE_MAX);
    fake_loop_advance(&house.loop, 249);
    ck_assert(!closing(ann));
    fake_loop_advance(&house.loop, 1);
    ck_closed(ann, CLOSE_SLOW);
    ck_assert(!closing(bob));
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 1);
}
END_TEST

START_TEST(a_queue_that_has_stood_is_a_slow_readers)
{
    house.host.limits.patience_ms = 250;
    fill_and_turn(11, 16);
    fake_loop_advance(&house.loop, 249);
    ck_assert(!closing(ann));
    fake_loop_advance(&house.loop, 1);
    fill_and_turn(17, 17);
    ck_closed(ann, CLOSE_SLOW);
}
END_TEST

START_TEST(any_frame_above_the_mark_closes)
{
    for (int i = 0; i < 5; i++)
        ask_pong(ann, ENTRY_LEN);
    ask_pong(ann, ENTRY_LEN);
    ck_assert(!closing(ann));
    ask_pong(ann, ENTRY_LEN);
    ck_closed(ann, CLOSE_SLOW);
}
END_TEST

START_TEST(signals_are_shed_above_half_of_low_water)
{
    session_wrote(ann->conn.session, ENTRY_LEN);
    signal_red(bob);
    ck_heard(ann, SIGNAL);
    session_wrote(ann->conn.session, ENTRY_LEN + 1);
    signal_red(bob);
    ck_heard(ann, "");
    ck_assert_uint_eq(house.metrics.v[M_SIGNALS_SHED], 1);
    ck_assert(!closing(ann));
    session_wrote(ann->conn.session, 0);
    signal_red(bob);
    ck_heard(ann, SIGNAL);
}
END_TEST

START_TEST(a_replay_waits_until_what_is_queued_and_held_is_below_low_water)
{
    session_wrote(ann->conn.session, 2 * ENTRY_LEN);
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"1-10\"}");
    turn();
    ck_assert_uint_eq(session_next_len(ann->conn.session), 0);
    session_wrote(ann->conn.session, 2 * ENTRY_LEN - 1);
    turn();
    ck_assert_ptr_nonnull(strstr(hear(ann), "\"op\":\"live\""));
}
END_TEST

/* The packets that live are all in one queue here. */
static size_t queued(void)
{
    const struct packet_account *packets = &house.registry.packets;
    return packets->bytes - packets->count * sizeof(struct packet);
}

START_TEST(a_replay_never_closes_its_client_however_long_it_is_and_slow_its_socket)
{
    enum { MANY = 3000, LONGEST = 100 };
    struct house_limits limits = house_limits();
    limits.session.high_water = 2000;
    limits.session.low_water = 500;
    limits.session.pending_bytes = 1000;
    limits.registry.replay.page_entries = PAGE;
    make_again(&limits);
    house_fill(&house, "red", 1, MANY);
    join(ann, "red");
    unsigned last = MANY;
    size_t most = 0;
    for (size_t read = 1; read != 0 || !house.metrics.v[M_JOINS];) {
        turn();
        most = queued() > most ? queued() : most;
        read = fake_conn_read(&ann->conn, 1);
        if (ann->frames % 20 == 0 && last < MANY + 200)
            house_fill(&house, "red", last + 1, last + 1), last++; /* and the room goes on */
    }
    ck_assert(!closing(ann));
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 0);
    ck_assert_uint_eq(house.metrics.v[M_DELIVERIES], last);
    ck_assert_uint_gt(last, MANY + 100);
    ck_assert_uint_gt(house.metrics.v[M_PENDING_SPILLS], 0);
    ck_assert_uint_eq(ann->frames, 1 + last + 2); /* welcome, joined, entries, live */
    ck_assert_uint_ge(most, limits.session.low_water);
    /* A page, or what was pending at the end, on top of what was below low water. */
    ck_assert_uint_lt(most,
                      limits.session.low_water + PAGE * LONGEST + limits.session.pending_bytes);
    const char *heard = house_visitor_heard(ann);
    for (unsigned n = 1; n <= last; n++) {
        char wanted[64];
        (void)snprintf(wanted, sizeof(wanted), "\"id\":\"1-%u\",\"prev\":\"%u-%u\"", n, n > 1,
                       n - 1);
        heard = strstr(heard, wanted); /* in order */
        ck_assert_ptr_nonnull(heard);
    }
}
END_TEST

START_TEST(a_replay_queues_no_more_than_low_water_and_one_page)
{
    struct house_limits limits = house_limits();
    limits.session.low_water = 500;
    limits.registry.replay.page_entries = PAGE;
    make_again(&limits);
    house_fill(&house, "red", 10, 99);
    send(ann, "{\"op\":\"join\",\"room\":\"red\",\"cursor\":\"1-10\"}");
    size_t most = 0;
    do {
        turn();
        most = queued() > most ? queued() : most;
    } while (fake_conn_read(&ann->conn, 1) != 0);
    ck_assert_ptr_nonnull(strstr(house_visitor_heard(ann), "\"cursor\":\"1-99\",\"replayed\":89"));
    ck_assert_uint_gt(most, PAGE * ENTRY_LEN);
    ck_assert_uint_lt(most, limits.session.low_water + PAGE * ENTRY_LEN);
}
END_TEST

START_TEST(the_pending_lists_of_all_rooms_of_a_session_share_one_budget)
{
    struct house_limits limits = house_limits();
    limits.session.pending_bytes = 3 * ENTRY_LEN;
    make_again(&limits);
    house_fill(&house, "red", 10, 10);
    house_fill(&house, "blu", 10, 10);
    session_wrote(ann->conn.session, limits.session.low_water); /* so that both replays wait */
    join(ann, "red");
    join(ann, "blu");
    turn();
    fill_and_turn(11, 12);
    house_fill(&house, "blu", 11, 11);
    turn();
    ck_assert_uint_eq(house.metrics.v[M_PENDING_SPILLS], 0);
    house_fill(&house, "blu", 12, 12);
    turn();
    ck_assert_uint_eq(house.metrics.v[M_PENDING_SPILLS], 1);
    ck_assert_uint_eq(house.registry.packets.count, 2); /* of red */
    session_wrote(ann->conn.session, 0);
    const char *heard = hear(ann);
    ck_assert_ptr_nonnull(strstr(heard, "\"op\":\"live\",\"room\":\"red\",\"cursor\":\"1-12\""));
    ck_assert_ptr_nonnull(strstr(heard, "\"op\":\"live\",\"room\":\"blu\",\"cursor\":\"1-12\""));
    ck_assert_uint_eq(house.metrics.v[M_DELIVERIES], 6);
}
END_TEST

/* --- the node's budget of packets ----------------------------------------------------------- */

static size_t real_len(size_t len)
{
    return sizeof(struct packet) + len;
}

START_TEST(above_the_packet_budget_the_longest_queue_is_evicted)
{
    struct house_limits limits = house_limits();
    limits.session.packet_budget = 6 * real_len(100);
    make_again(&limits);
    ask_pong(ann, 100);
    for (int i = 0; i < 3; i++)
        ask_pong(bob, 100);
    ask_pong(&visitors[2], 100);
    ask_pong(&visitors[2], 100);
    turn(); /* at the budget */
    ck_assert_uint_eq(house.registry.packets.bytes, limits.session.packet_budget);
    ck_assert_uint_eq(house.metrics.v[M_BUDGET_CLOSED], 0);
    ask_pong(ann, 100);
    turn();
    ck_assert_uint_eq(house.metrics.v[M_BUDGET_CLOSED], 1);
    ck_closed(bob, CLOSE_SLOW);
    ck_assert(!closing(ann) && !closing(&visitors[2]));
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 0);
}
END_TEST

START_TEST(above_the_packet_budget_rings_go_before_clients_do)
{
    struct house_limits limits = house_limits();
    limits.registry.ring =
        (struct ring_limits){.max_entries = 10, .max_bytes = 1 << 16, .total_bytes = 1 << 16};
    make_again(&limits);
    join(ann, "red");
    (void)hear(ann);
    fill_and_turn(10, 13);
    (void)hear(ann);
    ck_assert_uint_eq(house.registry.packets.count, 4); /* the ring's alone */
    house.host.limits.packet_budget = 3 * real_len(ENTRY_LEN);
    fill_and_turn(14, 14);
    ck_assert_uint_eq(house.registry.packets.count, 1);
    ck_assert_uint_eq(house.metrics.v[M_RING_EVICTIONS], 1);
    ck_assert_uint_eq(house.metrics.v[M_BUDGET_CLOSED], 0);
}
END_TEST

START_TEST(queues_are_evicted_until_the_packets_fit_the_budget)
{
    enum { MANY = 50 };
    struct house_limits limits = house_limits();
    limits.session.packet_budget = 1 << 20;
    make_again(&limits);
    struct house_visitor *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (int i = 0; i < MANY; i++) {
        house_visitor_open(&house, &crowd[i], NULL);
        for (int j = 0; j < 10; j++)
            ask_pong(&crowd[i], 100);
    }
    turn();
    ck_assert_uint_eq(house.metrics.v[M_BUDGET_CLOSED], 0);
    /* A small budget, as if all had been larger. More than a slice has to go for it. */
    house.host.limits.packet_budget = house.registry.packets.bytes / 4;
    ask_pong(&crowd[0], 100);
    turn();
    ck_assert_uint_le(house.registry.packets.bytes, house.host.limits.packet_budget);
    ck_assert_uint_gt(house.metrics.v[M_BUDGET_CLOSED], MANY / 2);
    ck_assert_uint_lt(house.metrics.v[M_BUDGET_CLOSED], MANY);
    for (int i = 0; i < MANY; i++)
        house_visitor_close(&crowd[i]);
    free(crowd);
}
END_TEST

START_TEST(a_packet_that_many_wait_for_costs_the_budget_once)
{
    house_fill(&house, "red", 10, 10);
    for (int i = 0; i < VISITORS; i++) {
        join(&visitors[i], "red");
        (void)hear(&visitors[i]);
    }
    house.host.limits.packet_budget = 3 * real_len(ENTRY_LEN);
    fill_and_turn(11, 13);
    ck_assert_uint_eq(house.registry.packets.bytes, house.host.limits.packet_budget);
    ck_assert_uint_eq(house.metrics.v[M_BUDGET_CLOSED], 0);
    fill_and_turn(14, 14); /* all are as long, and all must go to free one */
    ck_assert_uint_eq(house.metrics.v[M_BUDGET_CLOSED], VISITORS);
}
END_TEST

/* --- heartbeat ------------------------------------------------------------------------------ */

START_TEST(the_server_pings_within_a_tenth_of_the_heartbeat)
{
    uint64_t ms = house.host.limits.heartbeat_ms;
    fake_loop_advance(&house.loop, ms - ms / 10 - 1);
    ck_heard(ann, "");
    ck_assert_uint_eq(ann->conn.pings, 0);
    fake_loop_advance(&house.loop, ms / 10 + 1);
    (void)hear(ann);
    ck_assert_uint_eq(ann->conn.pings, 1);
}
END_TEST

START_TEST(a_socket_that_missed_two_pings_is_cut)
{
    uint64_t ms = house.host.limits.heartbeat_ms;
    for (unsigned i = 1; i <= 2; i++) {
        fake_loop_advance(&house.loop, ms);
        (void)fake_conn_read(&ann->conn, SIZE_MAX);
        session_alive(bob->conn.session);
    }
    ck_assert_uint_eq(ann->conn.pings, 2);
    ck_assert(!ann->conn.aborted);
    fake_loop_advance(&house.loop, ms);
    ck_assert(ann->conn.aborted);
    ck_assert(!bob->conn.aborted);
    ck_assert_uint_eq(house.metrics.v[M_PING_TIMEOUTS], VISITORS - 1);
}
END_TEST

START_TEST(a_ping_that_waits_behind_what_the_client_takes_is_not_missed)
{
    uint64_t ms = house.host.limits.heartbeat_ms;
    for (int i = 0; i < 20; i++)
        send(ann, "{\"op\":\"ping\"}");
    for (int i = 0; i < 10; i++) {
        fake_loop_advance(&house.loop, ms);
        (void)fake_conn_read(&ann->conn, 1); /* one of what lies before the ping */
    }
    ck_assert(!ann->conn.aborted);
    ck_assert_uint_eq(ann->conn.pings, 0);
    for (int i = 0; i < 3; i++)
        fake_loop_advance(&house.loop, ms); /* it takes nothing more */
    ck_assert(ann->conn.aborted);
}
END_TEST

/* _i: whether a pong came, or a message. */
START_TEST(any_sign_of_life_begins_the_count_anew)
{
    for (int i = 0; i < 10; i++) {
        fake_loop_advance(&house.loop, house.host.limits.heartbeat_ms);
        (void)fake_conn_read(&ann->conn, SIZE_MAX);
        if (i % 2 == 1 && _i == 0)
            session_alive(ann->conn.session);
        else if (i % 2 == 1)
            send(ann, "{\"op\":\"ping\"}");
    }
    ck_assert(!ann->conn.aborted);
    ck_assert_uint_gt(ann->conn.pings, 8);
}
END_TEST

START_TEST(a_session_that_closes_is_not_pinged)
{
    session_fail(ann->conn.session, CLOSE_BAD_FRAME);
    ck_closed(ann, CLOSE_BAD_FRAME);
    fake_loop_advance(&house.loop, 4 * house.host.limits.heartbeat_ms);
    ck_assert_uint_eq(session_next_len(ann->conn.session), 0);
    ck_assert_uint_eq(house.metrics.v[M_FORCED], 1);
}
END_TEST

/* --- closing -------------------------------------------------------------------------------- */

START_TEST(what_comes_in_while_closing_is_ignored)
{
    join(bob, "red");
    (void)hear(bob);
    join(ann, "red");
    session_fail(ann->conn.session, CLOSE_BAD_FRAME);
    join(ann, "blue");
    publish(ann, "r1");
    signal_red(ann);
    session_receive(ann->conn.session, STR("\xff"));
    session_wrote(ann->conn.session, 0);
    ck_closed(ann, CLOSE_BAD_FRAME);
    ck_heard(bob, "");
    ck_assert_uint_eq(house.metrics.v[M_MEMBERS], 1);
    ck_assert_uint_eq(house.metrics.v[M_PUBLISHED], 0);
}
END_TEST

START_TEST(what_was_asked_before_the_close_is_done_but_not_answered)
{
    publish(ann, "r1");
    session_fail(ann->conn.session, CLOSE_BAD_FRAME);
    ck_closed(ann, CLOSE_BAD_FRAME);
    publish(bob, "r1");
    ck_assert_ptr_nonnull(strstr(hear(bob), "\"duplicate\":true"));
}
END_TEST

START_TEST(a_connection_that_is_gone_takes_its_members_publishes_and_packets_along)
{
    join(ann, "red");
    join(ann, "blue");
    turn();
    house_fill(&house, "red", 10, 12);
    turn();
    publish(ann, "r1");
    house_visitor_close(ann);
    ck_assert_uint_eq(house.metrics.v[M_MEMBERS], 0);
    ck_assert_uint_eq(house.registry.packets.count, 0);
    ck_assert_uint_eq(house.metrics.v[M_CONNECTIONS], VISITORS - 1);
    ck_assert_uint_eq(house.host.count, VISITORS - 1);
}
END_TEST

START_TEST(a_connection_may_be_gone_in_the_turn_it_was_told_to_close)
{
    join(ann, "red");
    turn();
    session_fail(ann->conn.session, CLOSE_BAD_FRAME);
    house_visitor_close(ann);
    turn();
    ck_assert_uint_eq(house.metrics.v[M_MEMBERS], 0);
}
END_TEST

START_TEST(what_goes_out_is_counted)
{
    uint64_t frames = house.metrics.v[M_FRAMES_OUT];
    uint64_t bytes = house.metrics.v[M_BYTES_OUT];
    ask_pong(ann, 100);
    ask_pong(ann, 50);
    ck_assert_uint_eq(session_next_len(ann->conn.session), 100);
    (void)hear(ann);
    ck_assert_uint_eq(house.metrics.v[M_FRAMES_OUT] - frames, 2);
    ck_assert_uint_eq(house.metrics.v[M_BYTES_OUT] - bytes, 150);
}
END_TEST

/* --- drain ---------------------------------------------------------------------------------- */

START_TEST(a_drain_says_bye_and_closes_each_with_a_wait_of_its_own)
{
    enum { SPREAD_MS = 10000 };
    long waits[VISITORS];
    bool differ = false;
    ask_pong(ann, 100); /* is dropped: the client asks again elsewhere */
    session_host_drain(&house.host, SPREAD_MS);
    for (int i = 0; i < VISITORS; i++) {
        static const char BYE[] = "{\"op\":\"bye\",\"reason\":\"restart\",\"retry_after_ms\":";
        const char *heard = hear(&visitors[i]);
        ck_assert_uint_eq(strncmp(heard, BYE, sizeof(BYE) - 1), 0);
        ck_assert_uint_eq(visitors[i].conn.close_code, CLOSE_RESTART);
        waits[i] = retry_after(heard);
        ck_assert(waits[i] >= 0 && waits[i] <= SPREAD_MS);
        differ |= waits[i] != waits[0];
    }
    ck_assert(differ);
    ck_assert_uint_eq(house.metrics.v[M_BAD_FRAME_CLOSED], 0);
    ck_assert_uint_eq(house.metrics.v[M_SLOW_CLOSED], 0);
}
END_TEST

START_TEST(with_no_spread_all_may_come_back_at_once)
{
    session_host_drain(&house.host, 0);
    ck_heard(ann, "{\"op\":\"bye\",\"reason\":\"restart\",\"retry_after_ms\":0}\n");
}
END_TEST

START_TEST(a_drain_goes_in_slices)
{
    enum { MANY = 2 * DRAIN_SLICE };
    struct house_visitor *crowd = xalloc_array(NULL, MANY, sizeof(*crowd));
    for (int i = 0; i < MANY; i++)
        house_visitor_open(&house, &crowd[i], NULL);
    session_host_drain(&house.host, 1000);
    for (unsigned before = 0; before < MANY + VISITORS;) {
        unsigned told = 0;
        ck_assert(fake_loop_step(&house.loop));
        for (int i = 0; i < MANY; i++)
            told += closing(&crowd[i]);
        for (int i = 0; i < VISITORS; i++)
            told += closing(&visitors[i]);
        ck_assert(told > before && told - before <= DRAIN_SLICE);
        before = told;
    }
    for (int i = 0; i < MANY; i++)
        house_visitor_close(&crowd[i]);
    free(crowd);
}
END_TEST

START_TEST(whoever_comes_while_draining_is_welcomed_and_sent_away)
{
    const struct session_hello hello = {.room = STR("red")};
    session_host_drain(&house.host, 0);
    turn();
    house_visitor_close(ann);
    house_visitor_open(&house, ann, &hello); /* reads welcome */
    ck_heard(ann, "{\"op\":\"bye\",\"reason\":\"restart\",\"retry_after_ms\":0}\n");
    ck_assert_uint_eq(ann->conn.close_code, CLOSE_RESTART);
    ck_assert_uint_eq(house.metrics.v[M_ROOMS], 0);
}
END_TEST

START_TEST(a_session_that_closes_already_is_left_alone_by_a_drain)
{
    session_fail(ann->conn.session, CLOSE_BAD_FRAME);
    session_host_drain(&house.host, 0);
    session_host_drain(&house.host, 0);
    ck_closed(ann, CLOSE_BAD_FRAME);
    ck_heard(bob, "{\"op\":\"bye\",\"reason\":\"restart\",\"retry_after_ms\":0}\n");
}
END_TEST

START_TEST(a_drained_socket_that_does_not_go_is_cut)
{
    session_host_drain(&house.host, 0);
    fake_loop_advance(&house.loop, house.host.limits.close_ms);
    ck_assert(ann->conn.aborted);
    ck_assert_uint_eq(house.metrics.v[M_FORCED], VISITORS);
}
END_TEST

static TCase *case_make(Suite *suite, const char *name, SFun setup)
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, setup, take_down);
    suite_add_tcase(suite, tc);
    return tc;
}

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void add_rooms(Suite *suite)
{
    TCase *tc = case_make(suite, "coming in", make);
    tcase_add_test(tc, welcome_is_the_first_frame_and_names_the_limits);
    tcase_add_loop_test(tc, the_room_of_the_url_is_joined_as_if_the_client_had_asked, 0,
                        COUNT(HELLOS));

    tc = case_make(suite, "rooms", make);
    tcase_add_test(tc, a_join_is_answered_and_live_entries_follow);
    tcase_add_test(tc, a_cursor_resumes_where_it_was);
    tcase_add_test(tc, last_and_new_say_where_a_fresh_start_begins);
    tcase_add_loop_test(tc, a_cursor_that_can_not_be_honoured_is_told_why, 0, COUNT(RESYNCS));
    tcase_add_test(tc, joining_twice_is_a_rejoin);
    tcase_add_test(tc, whoever_left_is_told_and_hears_nothing_more);
    tcase_add_test(tc, leaving_before_the_answer_takes_the_answer_back);
    tcase_add_test(tc, a_session_may_be_in_max_rooms_and_no_more);
    tcase_add_test(tc, where_too_many_rooms_are_open_a_join_is_rejected);
    tcase_add_test(tc, while_the_log_is_away_a_join_is_rejected_at_once);
    tcase_add_test(tc, a_room_that_is_lost_in_mid_life_is_told_and_left);
}

static void add_frames(Suite *suite)
{
    TCase *tc = case_make(suite, "publishing", make);
    tcase_add_test(tc, a_publish_is_acked_with_its_id_and_reaches_the_room);
    tcase_add_test(tc, the_same_ref_again_is_acked_with_the_first_id);
    tcase_add_test(tc, a_publish_without_a_ref_is_acked_without_one);
    tcase_add_loop_test(
        tc, a_publish_that_did_not_happen_is_rejected_and_one_of_unknown_fate_is_not_answered,
        RD_OK + 1, RD_ERR_COUNT);
    tcase_add_loop_test(tc, a_publish_that_the_log_does_not_take_is_rejected_likewise, RD_OK + 1,
                        RD_ERR_COUNT);
    tcase_add_loop_test(tc, a_join_that_the_log_can_not_answer_is_rejected_likewise, RD_OK + 1,
                        RD_ERR_COUNT);
    tcase_add_test(tc, one_that_was_lost_but_done_is_a_duplicate_when_it_is_sent_again);
    tcase_add_test(tc, max_publishes_may_be_under_way_and_one_more_is_rejected);
    tcase_add_test(tc, whoever_is_gone_is_not_answered);

    tc = case_make(suite, "other frames", make);
    tcase_add_test(tc, a_signal_goes_to_the_others_in_the_room);
    tcase_add_loop_test(tc, every_frame_is_answered_and_the_socket_lives, 0, COUNT(ANSWERS));
    tcase_add_test(tc, a_pong_has_a_ceiling);
    tcase_add_test(tc, max_errors_are_answered_and_one_more_closes);
    tcase_add_test(tc, invalid_utf8_closes);
    tcase_add_loop_test(tc, what_the_connection_saw_closes_once_and_is_counted, 0, COUNT(FAILS));
}

static void add_backpressure(Suite *suite)
{
    TCase *tc = case_make(suite, "backpressure", make_slow);
    tcase_add_test(tc, at_the_mark_one_more_entry_fits_and_above_it_the_socket_is_closed);
    tcase_add_test(tc, a_socket_that_does_not_take_its_close_frame_is_cut);
    tcase_add_test(tc, room_comes_back_as_the_socket_takes_packets);
    tcase_add_test(tc, what_the_connection_holds_does_not_count_against_the_mark);
    tcase_add_test(tc, what_is_pending_counts_against_the_mark);
    tcase_add_test(tc, any_frame_above_the_mark_closes);
    tcase_add_test(tc, a_burst_above_the_mark_is_left_to_the_log_and_closes_nobody);
    tcase_add_test(tc, who_does_not_read_after_a_burst_is_closed_once_it_has_stood);
    tcase_add_test(tc, a_queue_that_has_stood_is_a_slow_readers);
    tcase_add_test(tc, signals_are_shed_above_half_of_low_water);
    tcase_add_test(tc, a_replay_waits_until_what_is_queued_and_held_is_below_low_water);
    tcase_add_test(tc, a_replay_never_closes_its_client_however_long_it_is_and_slow_its_socket);
    tcase_add_test(tc, a_replay_queues_no_more_than_low_water_and_one_page);
    tcase_add_test(tc, the_pending_lists_of_all_rooms_of_a_session_share_one_budget);

    tc = case_make(suite, "packet budget", make);
    tcase_add_test(tc, above_the_packet_budget_the_longest_queue_is_evicted);
    tcase_add_test(tc, above_the_packet_budget_rings_go_before_clients_do);
    tcase_add_test(tc, queues_are_evicted_until_the_packets_fit_the_budget);
    tcase_add_test(tc, a_packet_that_many_wait_for_costs_the_budget_once);
}

static void add_time(Suite *suite)
{
    TCase *tc = case_make(suite, "heartbeat", make);
    tcase_add_test(tc, the_server_pings_within_a_tenth_of_the_heartbeat);
    tcase_add_test(tc, a_socket_that_missed_two_pings_is_cut);
    tcase_add_test(tc, a_ping_that_waits_behind_what_the_client_takes_is_not_missed);
    tcase_add_loop_test(tc, any_sign_of_life_begins_the_count_anew, 0, 2);
    tcase_add_test(tc, a_session_that_closes_is_not_pinged);

    tc = case_make(suite, "closing", make);
    tcase_add_test(tc, what_comes_in_while_closing_is_ignored);
    tcase_add_test(tc, what_was_asked_before_the_close_is_done_but_not_answered);
    tcase_add_test(tc, a_connection_that_is_gone_takes_its_members_publishes_and_packets_along);
    tcase_add_test(tc, a_connection_may_be_gone_in_the_turn_it_was_told_to_close);
    tcase_add_test(tc, what_goes_out_is_counted);

    tc = case_make(suite, "drain", make);
    tcase_add_test(tc, a_drain_says_bye_and_closes_each_with_a_wait_of_its_own);
    tcase_add_test(tc, with_no_spread_all_may_come_back_at_once);
    tcase_add_test(tc, a_drain_goes_in_slices);
    tcase_add_test(tc, whoever_comes_while_draining_is_welcomed_and_sent_away);
    tcase_add_test(tc, a_session_that_closes_already_is_left_alone_by_a_drain);
    tcase_add_test(tc, a_drained_socket_that_does_not_go_is_cut);
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("session");
    add_rooms(suite);
    add_frames(suite);
    add_backpressure(suite);
    add_time(suite);
    return suite;
}
