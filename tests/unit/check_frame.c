#include "protocol/frame.h"

#include "protocol/json.h"
#include "tests/lib/suite.h"
#include "tests/lib/vectors.h"

#include <stdio.h>

static cJSON *root;

static void load_ok(void)
{
    root = vectors_load("frame_ok.json");
}

static void load_bad(void)
{
    root = vectors_load("frame_bad.json");
}

static void load_out(void)
{
    root = vectors_load("frame_out.json");
}

static void unload(void)
{
    cJSON_Delete(root);
}

/* --- in ------------------------------------------------------------------------------------- */

static const char *const STARTS[] = {"all", "cursor", "last", "new"};

static void assert_str(struct str got, struct str want, const char *what, const char *text)
{
    ck_assert_msg(str_present(got) == str_present(want) && str_eq(got, want),
                  "%s is '%.*s', not '%.*s', in %s", what, (int)got.len, got.p, (int)want.len,
                  want.p, text);
}

static void assert_join(const struct frame_join *join, const cJSON *item)
{
    struct stream_id cursor = STREAM_ID_ZERO;
    if (cJSON_HasObjectItem(item, "cursor"))
        cursor = vectors_id(item, "cursor");
    ck_assert_str_eq(STARTS[join->start], vectors_str(item, "start").p);
    ck_assert(stream_id_eq(join->cursor, cursor));
    ck_assert_int_eq(join->last,
                     cJSON_HasObjectItem(item, "last") ? vectors_number(item, "last") : 0);
    ck_assert_int_eq(join->state, cJSON_IsTrue(cJSON_GetObjectItem(item, "state")));
}

static void assert_frame(const struct frame *frame, const cJSON *item)
{
    const char *text = vectors_str(item, "text").p;
    ck_assert_str_eq(frame_op_name(frame->op), vectors_str(item, "op").p);
    assert_str(frame->room, vectors_str(item, "room"), "room", text);
    switch (frame->op) {
    case FRAME_JOIN:
        assert_join(&frame->join, item);
        break;
    case FRAME_PUBLISH:
    case FRAME_SIGNAL:
        assert_str(frame->publish.type, vectors_str(item, "type"), "type", text);
        assert_str(frame->publish.data, vectors_str(item, "data"), "data", text);
        assert_str(frame->publish.ref, vectors_str(item, "ref"), "ref", text);
        assert_str(frame->publish.key, vectors_str(item, "key"), "key", text);
        break;
    case FRAME_AUTH:
        assert_str(frame->token, vectors_str(item, "token"), "token", text);
        break;
    case FRAME_PING:
        assert_str(frame->t, vectors_str(item, "t"), "t", text);
        break;
    case FRAME_LEAVE:
    case FRAME_NONE:
        break;
    }
}

START_TEST(good_frames_decode_to_their_fields)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "cases"))
    {
        struct str text = vectors_bytes(item, "text");
        struct frame frame;
        struct frame_fault fault;
        ck_assert_msg(frame_decode(text, &frame, &fault), "%s: %.*s", fault.reason, (int)text.len,
                      text.p);
        assert_frame(&frame, item);
        frame_fini(&frame);
        frame_fini(&frame); /* and again does no harm */
        vectors_free(text);
    }
}
END_TEST

START_TEST(every_op_is_among_the_good_frames)
{
    for (enum frame_op op = FRAME_JOIN; op <= FRAME_PING; op++) {
        const cJSON *item;
        int seen = 0;
        cJSON_ArrayForEach(item, vectors_array(root, "cases"))
        {
            seen += str_eq(vectors_str(item, "op"), str_from(frame_op_name(op)));
        }
        ck_assert_int_gt(seen, 0);
    }
}
END_TEST

START_TEST(bad_frames_get_their_code_and_their_exact_reason)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "cases"))
    {
        struct str text = vectors_bytes(item, "text");
        struct frame frame = {.op = FRAME_PING};
        struct frame_fault fault;
        ck_assert_msg(!frame_decode(text, &frame, &fault), "taken: %.*s", (int)text.len, text.p);
        assert_str(str_from(fault.reason), vectors_str(item, "reason"), "reason", text.p);
        ck_assert_int_eq(fault.code, vectors_number(item, "code"));
        ck_assert_str_eq(frame_op_name(fault.op), vectors_str(item, "op").p);
        struct str room = vectors_str(item, "room");
        struct str ref = vectors_str(item, "ref");
        ck_assert_str_eq(fault.room, str_present(room) ? room.p : "");
        ck_assert_str_eq(fault.ref, str_present(ref) ? ref.p : "");
        ck_assert_int_eq(frame.op, FRAME_PING); /* untouched */
        vectors_free(text);
    }
}
END_TEST

START_TEST(a_frame_cut_short_anywhere_is_no_frame)
{
    struct str whole = STR("{\"op\":\"publish\",\"room\":\"a\",\"type\":\"\\u00e9\\n\xc3\xa9\","
                           "\"data\":{\"a\":[1.5e-3,true,\"\\ud83d\\ude00\"]},\"ref\":\"r\"}");
    for (size_t len = 0; len < whole.len; len++) {
        struct str text = vectors_copy((struct str){whole.p, len});
        struct frame frame;
        struct frame_fault fault;
        ck_assert(!frame_decode(text, &frame, &fault));
        ck_assert_int_eq(fault.op, FRAME_NONE);
        ck_assert_int_eq(fault.code, CODE_BAD_JSON);
        vectors_free(text);
    }
}
END_TEST

START_TEST(data_is_the_text_that_came)
{
    struct str text = STR("{\"op\":\"publish\",\"room\":\"a\",\"type\":\"t\",\"data\": [9e99 ] }");
    struct frame frame;
    struct frame_fault fault;
    ck_assert(frame_decode(text, &frame, &fault));
    ck_assert(frame.publish.data.p > text.p && frame.publish.data.p < text.p + text.len);
    ck_assert(str_eq(frame.publish.data, STR("[9e99 ]")));
    frame_fini(&frame);
}
END_TEST

/* --- starts from a URL ---------------------------------------------------------------------- */

static const struct {
    const char *cursor, *last, *start; /* start NULL: refused */
} URL_STARTS[] = {
    {NULL, NULL, "all"},  {"0-0", NULL, "all"}, {"$", NULL, "new"},       {"5-1", NULL, "cursor"},
    {NULL, "20", "last"}, {"0-0", "1", "last"}, {"5-1", "500", "cursor"}, {"$", "5", NULL},
    {"", NULL, NULL},     {"5-", NULL, NULL},   {NULL, "", NULL},         {NULL, "0", NULL},
    {NULL, "501", NULL},  {NULL, "05", NULL},   {NULL, "+5", NULL},       {NULL, " 5", NULL},
    {NULL, "5 ", NULL},   {NULL, "-5", NULL},   {NULL, "five", NULL},     {NULL, "5.0", NULL},
    {"null", NULL, NULL}, {NULL, "null", NULL},
};

START_TEST(a_start_from_the_url_obeys_the_same_rules)
{
    const char *want = URL_STARTS[_i].start;
    struct frame_join join = {.last = 77};
    char reason[FRAME_REASON_MAX] = "";
    bool ok = frame_start_parse(str_from(URL_STARTS[_i].cursor), str_from(URL_STARTS[_i].last),
                                (struct str){NULL, 0}, &join, reason);
    ck_assert_int_eq(ok, want != NULL);
    if (ok)
        ck_assert_str_eq(STARTS[join.start], want);
    else
        ck_assert_int_eq(join.last, 77); /* untouched */
    ck_assert_int_eq(reason[0] != '\0', !ok);
}
END_TEST

static const struct {
    const char *state;
    int want; /* -1: refused */
} URL_STATES[] = {{NULL, 0}, {"1", 1},  {"0", 0},   {"true", 1},  {"false", 0}, {"yes", -1},
                  {"", -1},  {"2", -1}, {"11", -1}, {"True", -1}, {"tru", -1}};

START_TEST(a_state_from_the_url_is_a_digit_or_a_word)
{
    struct frame_join join = {.last = 77};
    char reason[FRAME_REASON_MAX] = "";
    bool ok = frame_start_parse((struct str){NULL, 0}, (struct str){NULL, 0},
                                str_from(URL_STATES[_i].state), &join, reason);
    ck_assert_int_eq(ok, URL_STATES[_i].want >= 0);
    if (ok)
        ck_assert_int_eq(join.state, URL_STATES[_i].want);
    else
        ck_assert_str_eq(reason, "state must be true or false");
}
END_TEST

START_TEST(room_names_are_1_to_128_of_their_alphabet)
{
    static const char ALPHABET[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
    char name[FRAME_ROOM_MAX + 1];
    memset(name, 'r', sizeof(name));
    ck_assert(!frame_room_name_valid((struct str){NULL, 0}));
    ck_assert(frame_room_name_valid((struct str){name, FRAME_ROOM_MAX}));
    ck_assert(!frame_room_name_valid((struct str){name, FRAME_ROOM_MAX + 1}));
    for (int c = 0; c < 256; c++) {
        name[1] = (char)c;
        bool want = c != 0 && strchr(ALPHABET, c) != NULL;
        ck_assert_int_eq(frame_room_name_valid((struct str){name, 3}), want);
    }
}
END_TEST

/* --- out ------------------------------------------------------------------------------------ */

static const struct stream_id ID_2 = {1700000000000, 2}, ID_5 = {1700000000000, 5},
                              ID_7 = {1700000000000, 7}, ID_8 = {1700000000000, 8}, ID_0_1 = {0, 1};
static const struct str LOBBY = {"lobby", 5};
static const struct str NO_STR = {NULL, 0};

static size_t put_welcome(char *dst, size_t cap)
{
    return frame_put_welcome(dst, cap, &(struct frame_welcome){STR("s-42"), 25000, 65536, 1048576});
}

static size_t put_joined_fresh(char *dst, size_t cap)
{
    return frame_put_joined(dst, cap, LOBBY,
                            &(struct frame_joined){NULL, ID_7, &ID_2, false, 10000});
}

static size_t put_joined_resumed(char *dst, size_t cap)
{
    return frame_put_joined(dst, cap, LOBBY,
                            &(struct frame_joined){&ID_5, ID_7, &ID_0_1, true, 10000});
}

static size_t put_joined_empty(char *dst, size_t cap)
{
    return frame_put_joined(dst, cap, LOBBY,
                            &(struct frame_joined){NULL, STREAM_ID_ZERO, NULL, true, 10000});
}

static size_t put_joined_unbounded(char *dst, size_t cap)
{
    return frame_put_joined(dst, cap, LOBBY,
                            &(struct frame_joined){&STREAM_ID_MAX, STREAM_ID_MAX, NULL, false, 0});
}

static size_t put_snapshot_of(char *dst, size_t cap, int first, int last,
                              const struct stream_id *id, bool more)
{
    static const struct frame_entry ENTRIES[] = {
        {.id = {1700000000000, 2},
         .type = {"move", 4},
         .from = {"ann", 3},
         .ref = {"r", 1},
         .key = {"card:7", 6},
         .data = {"{\"x\":1}", 7}},
        {.id = {1700000000000, 5}, .key = {"topic", 5}, .data = {"\"q\" \xc3\xa9", 6}},
    };
    char entries[512];
    size_t len = 0;
    for (int i = first; i <= last; i++) {
        if (len != 0)
            entries[len++] = ',';
        len += frame_put_snapshot_entry(entries + len, sizeof(entries) - len, &ENTRIES[i]);
    }
    return frame_put_snapshot(dst, cap, LOBBY, id, (struct str){entries, len}, more);
}

static size_t put_snapshot(char *dst, size_t cap)
{
    return put_snapshot_of(dst, cap, 0, 1, &ID_5, false);
}

static size_t put_snapshot_more(char *dst, size_t cap)
{
    return put_snapshot_of(dst, cap, 0, 0, &ID_5, true);
}

static size_t put_snapshot_without_id(char *dst, size_t cap)
{
    return put_snapshot_of(dst, cap, 1, 1, NULL, false);
}

static size_t put_snapshot_empty(char *dst, size_t cap)
{
    return put_snapshot_of(dst, cap, 1, 0, NULL, false);
}

static size_t put_live(char *dst, size_t cap)
{
    return frame_put_live(dst, cap, LOBBY, ID_7, 120);
}

static size_t put_live_empty(char *dst, size_t cap)
{
    return frame_put_live(dst, cap, LOBBY, STREAM_ID_ZERO, 0);
}

static size_t put_resync_snapshot(char *dst, size_t cap)
{
    return frame_put_resync(dst, cap, LOBBY, FRAME_RESYNC_TRIMMED, &ID_5);
}

static size_t put_ack(char *dst, size_t cap)
{
    return frame_put_ack(dst, cap, LOBBY, STR("3f2c-1"), ID_8, false);
}

static size_t put_ack_duplicate(char *dst, size_t cap)
{
    return frame_put_ack(dst, cap, LOBBY, STR("\"q\" \xc3\xa9"), ID_8, true);
}

static size_t put_ack_without_ref(char *dst, size_t cap)
{
    return frame_put_ack(dst, cap, LOBBY, NO_STR, ID_8, false);
}

static size_t put_reject(char *dst, size_t cap, enum frame_op op, enum code_error code,
                         const char *reason)
{
    return frame_put_reject(dst, cap,
                            &(struct frame_reject){op, NO_STR, LOBBY, code, str_from(reason), -1});
}

static size_t put_reject_join(char *dst, size_t cap)
{
    return put_reject(dst, cap, FRAME_JOIN, CODE_BAD_FIELD,
                      "last must be an integer from 1 to 500");
}

static size_t put_reject_leave(char *dst, size_t cap)
{
    return put_reject(dst, cap, FRAME_LEAVE, CODE_NOT_JOINED, "not joined");
}

static size_t put_reject_signal(char *dst, size_t cap)
{
    return put_reject(dst, cap, FRAME_SIGNAL, CODE_NOT_JOINED, "not joined");
}

static size_t put_reject_publish(char *dst, size_t cap)
{
    return frame_put_reject(dst, cap,
                            &(struct frame_reject){FRAME_PUBLISH, STR("3f2c-1"), LOBBY,
                                                   CODE_UNAVAILABLE, STR("the log is away"), 1500});
}

static size_t put_reject_auth(char *dst, size_t cap)
{
    return frame_put_reject(
        dst, cap,
        &(struct frame_reject){FRAME_AUTH, NO_STR, NO_STR, CODE_UNAUTHORIZED, STR("expired"), 0});
}

static size_t put_error(char *dst, size_t cap)
{
    return frame_put_error(dst, cap, CODE_UNKNOWN_OP, STR("unknown op"));
}

static size_t put_signal(char *dst, size_t cap)
{
    return frame_put_signal(
        dst, cap, LOBBY, NO_STR,
        &(struct frame_publish){STR("typing"), STR("{\"on\":true}"), NO_STR, NO_STR});
}

static size_t put_signal_from(char *dst, size_t cap)
{
    return frame_put_signal(dst, cap, LOBBY, STR("ann"),
                            &(struct frame_publish){STR("typing"), STR("null"), NO_STR, NO_STR});
}

static size_t put_left(char *dst, size_t cap)
{
    return frame_put_left(dst, cap, LOBBY);
}

static size_t put_pong(char *dst, size_t cap)
{
    return frame_put_pong(dst, cap, STR("1700000000123.25"));
}

static size_t put_pong_text(char *dst, size_t cap)
{
    return frame_put_pong(dst, cap, STR("\"x\\ny\""));
}

static size_t put_pong_without_t(char *dst, size_t cap)
{
    return frame_put_pong(dst, cap, NO_STR);
}

static size_t put_bye(char *dst, size_t cap)
{
    return frame_put_bye(dst, cap, STR("restart"), 1234);
}

#define RESYNC(name, reason)                                                                       \
    static size_t put_resync_##name(char *dst, size_t cap)                                         \
    {                                                                                              \
        return frame_put_resync(dst, cap, LOBBY, reason, NULL);                                    \
    }
RESYNC(trimmed, FRAME_RESYNC_TRIMMED)
RESYNC(reset, FRAME_RESYNC_RESET)
RESYNC(ahead, FRAME_RESYNC_AHEAD)
RESYNC(diverged, FRAME_RESYNC_DIVERGED)
RESYNC(hole, FRAME_RESYNC_HOLE)
RESYNC(gap, FRAME_RESYNC_GAP)

#define WRITER(name)                                                                               \
    {                                                                                              \
#name, put_##name                                                                          \
    }
static const struct {
    const char *name;
    size_t (*put)(char *dst, size_t cap);
} WRITERS[] = {
    WRITER(welcome),       WRITER(joined_fresh),        WRITER(joined_resumed),
    WRITER(joined_empty),  WRITER(joined_unbounded),    WRITER(snapshot),
    WRITER(snapshot_more), WRITER(snapshot_without_id), WRITER(snapshot_empty),
    WRITER(live),          WRITER(live_empty),          WRITER(resync_trimmed),
    WRITER(resync_reset),  WRITER(resync_ahead),        WRITER(resync_diverged),
    WRITER(resync_hole),   WRITER(resync_gap),          WRITER(resync_snapshot),
    WRITER(ack),           WRITER(ack_duplicate),       WRITER(ack_without_ref),
    WRITER(reject_join),   WRITER(reject_leave),        WRITER(reject_publish),
    WRITER(reject_signal), WRITER(reject_auth),         WRITER(error),
    WRITER(signal),        WRITER(signal_from),         WRITER(left),
    WRITER(pong),          WRITER(pong_text),           WRITER(pong_without_t),
    WRITER(bye),
};

enum { WRITER_COUNT = sizeof(WRITERS) / sizeof(WRITERS[0]) };

START_TEST(server_frames_are_written_as_the_vectors_say)
{
    const cJSON *frames = vectors_array(root, "frames");
    const cJSON *item = cJSON_GetArrayItem(frames, _i);
    struct str want = vectors_str(item, "text");
    char dst[512];

    ck_assert_int_eq(cJSON_GetArraySize(frames), WRITER_COUNT);
    ck_assert_str_eq(vectors_str(item, "name").p, WRITERS[_i].name);
    size_t len = WRITERS[_i].put(dst, sizeof(dst));
    ck_assert_uint_le(len, sizeof(dst));
    assert_str((struct str){dst, len}, want, "the frame", WRITERS[_i].name);
}
END_TEST

START_TEST(a_small_block_is_filled_and_the_length_needed_returned)
{
    char whole[512];
    size_t need = WRITERS[_i].put(whole, sizeof(whole));
    for (size_t cap = 0; cap <= need; cap++) {
        char *dst = cap > 0 ? malloc(cap) : NULL;
        ck_assert_uint_eq(WRITERS[_i].put(dst, cap), need);
        if (cap > 0)
            ck_assert_mem_eq(dst, whole, cap);
        free(dst);
    }
}
END_TEST

/* The entry of a vector; its strings are blocks of exactly their size. */
static struct frame_entry read_entry(const cJSON *item)
{
    struct frame_entry entry = {.id = vectors_id(item, "id")};
    entry.prev_known = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(item, "prev"));
    if (entry.prev_known)
        entry.prev = vectors_id(item, "prev");
    entry.type = vectors_bytes(item, "type");
    entry.data = vectors_bytes(item, "data");
    entry.from = vectors_bytes(item, "from");
    entry.ref = vectors_bytes(item, "ref");
    entry.key = vectors_bytes(item, "key");
    return entry;
}

static void free_entry(struct frame_entry *entry)
{
    vectors_free(entry->type);
    vectors_free(entry->data);
    vectors_free(entry->from);
    vectors_free(entry->ref);
    vectors_free(entry->key);
}

START_TEST(entries_are_written_as_the_vectors_say)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, vectors_array(root, "entries"))
    {
        const cJSON *fields = cJSON_GetObjectItemCaseSensitive(item, "entry");
        struct str want = vectors_str(item, "text");
        struct str room = vectors_str(fields, "room");
        struct frame_entry entry = read_entry(fields);
        char *dst = malloc(want.len);
        ck_assert_uint_eq(frame_put_entry(NULL, 0, room, &entry), want.len);
        ck_assert_uint_eq(frame_put_entry(dst, want.len, room, &entry), want.len);
        assert_str((struct str){dst, want.len}, want, "the frame", "entries");
        for (size_t cap = 0; cap < want.len && want.len < 200; cap++) {
            char *part = malloc(cap + (cap == 0));
            ck_assert_uint_eq(frame_put_entry(part, cap, room, &entry), want.len);
            ck_assert_mem_eq(part, dst, cap);
            free(part);
        }
        free(dst);
        free_entry(&entry);
    }
}
END_TEST

START_TEST(what_a_client_published_comes_back_byte_for_byte)
{
    /* Through decode, and through encode as an entry: data is never looked into. */
    struct str text = STR("{\"op\":\"publish\",\"room\":\"a\",\"type\":\"t\",\"data\":"
                          "{\"big\":9007199254740993,\"pi\":3.14159265358979323846264338327950,"
                          "\"z\":-0.0,\"s\":\"\\u00e9\\/\\u0000\\ud800\"}}");
    struct frame frame;
    struct frame_fault fault;
    char dst[512];
    ck_assert(frame_decode(text, &frame, &fault));
    struct frame_entry entry = {.id = ID_7, .type = frame.publish.type, .data = frame.publish.data};
    size_t len = frame_put_entry(dst, sizeof(dst), frame.room, &entry);
    ck_assert_uint_le(len, sizeof(dst));
    ck_assert_mem_eq(dst + len - 1 - frame.publish.data.len, frame.publish.data.p,
                     frame.publish.data.len);
    frame_fini(&frame);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("frame");
    TCase *tc = tcase_create("good");
    tcase_add_checked_fixture(tc, load_ok, unload);
    tcase_add_test(tc, good_frames_decode_to_their_fields);
    tcase_add_test(tc, every_op_is_among_the_good_frames);
    tcase_add_test(tc, data_is_the_text_that_came);
    suite_add_tcase(suite, tc);

    tc = tcase_create("bad");
    tcase_add_checked_fixture(tc, load_bad, unload);
    tcase_add_test(tc, bad_frames_get_their_code_and_their_exact_reason);
    tcase_add_test(tc, a_frame_cut_short_anywhere_is_no_frame);
    suite_add_tcase(suite, tc);

    tc = tcase_create("parts");
    tcase_add_loop_test(tc, a_start_from_the_url_obeys_the_same_rules, 0,
                        sizeof(URL_STARTS) / sizeof(URL_STARTS[0]));
    tcase_add_loop_test(tc, a_state_from_the_url_is_a_digit_or_a_word, 0,
                        sizeof(URL_STATES) / sizeof(URL_STATES[0]));
    tcase_add_test(tc, room_names_are_1_to_128_of_their_alphabet);
    suite_add_tcase(suite, tc);

    tc = tcase_create("out");
    tcase_add_checked_fixture(tc, load_out, unload);
    tcase_add_loop_test(tc, server_frames_are_written_as_the_vectors_say, 0, WRITER_COUNT);
    tcase_add_loop_test(tc, a_small_block_is_filled_and_the_length_needed_returned, 0,
                        WRITER_COUNT);
    tcase_add_test(tc, entries_are_written_as_the_vectors_say);
    tcase_add_test(tc, what_a_client_published_comes_back_byte_for_byte);
    suite_add_tcase(suite, tc);
    return suite;
}
