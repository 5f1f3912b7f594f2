#include "bench/entry_scan.h"

#include "bench/entry_memo.h"
#include "bench/inbound.h"
#include "bench/payload.h"
#include "protocol/frame.h"
#include "tests/lib/rng.h"
#include "tests/lib/suite.h"

#include <stdio.h>

enum { TEXT_MAX = 2048 };

/* A copy in a block of exactly its size, so that one byte too far is caught. Owned. */
static struct str exact(const char *p, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, p, len);
    return (struct str){copy, len};
}

static bool fast(const char *p, size_t len, struct entry_scan *out_entry)
{
    struct str text = exact(p, len);
    bool ok = entry_scan_fast(text, out_entry);
    out_entry->room = ok ? (struct str){p + (out_entry->room.p - text.p), out_entry->room.len}
                         : (struct str){NULL, 0};
    free((char *)text.p);
    return ok;
}

/* The sure way alone, as inbound_read falls back to it. */
static bool sure(const char *p, size_t len, struct entry_scan *out_entry)
{
    enum { MEMBERS = 32 };
    struct json_member members[MEMBERS];
    struct str text = {p, len};
    if (json_check(text, JSON_DEPTH_MAX) != JSON_OK)
        return false;
    size_t count = json_members(text, members, MEMBERS);
    return count <= MEMBERS && str_eq(entry_scan_member(members, count, "op"), STR("\"entry\"")) &&
           entry_scan_members(members, count, out_entry);
}

static void assert_same(const struct entry_scan *a, const struct entry_scan *b)
{
    ck_assert(str_eq(a->room, b->room));
    ck_assert(stream_id_eq(a->id, b->id));
    ck_assert_int_eq(a->prev_null, b->prev_null);
    ck_assert(a->prev_null || stream_id_eq(a->prev, b->prev));
    ck_assert_int_eq(a->ours, b->ours);
    ck_assert_uint_eq(a->run, b->run);
    ck_assert_uint_eq(a->t_ns, b->t_ns);
}

/* A frame as the server's own encoder writes it, with a payload of ours. Returns its length. */
static size_t make(struct rng *rng, char text[TEXT_MAX], struct entry_scan *out_entry)
{
    char payload[400];
    size_t size = PAYLOAD_MIN + rng_below(rng, sizeof(payload) - PAYLOAD_MIN);
    *out_entry = (struct entry_scan){.room = STR("bench-0a-1"),
                                     .id = {rng_below(rng, 1u << 31), rng_below(rng, 1000)},
                                     .prev = {rng_below(rng, 1u << 31), rng_below(rng, 1000)},
                                     .prev_null = rng_below(rng, 4) == 0,
                                     .ours = true,
                                     .run = (uint32_t)rng_below(rng, 1u << 31),
                                     .t_ns = rng_below(rng, 1u << 31)};
    payload_write(payload, size, out_entry->run, out_entry->t_ns);
    struct frame_entry entry = {.id = out_entry->id,
                                .prev = out_entry->prev,
                                .prev_known = !out_entry->prev_null,
                                .type = STR("bench"),
                                .data = {payload, size}};
    if (rng_below(rng, 2) == 0)
        entry.from = STR("ann");
    if (rng_below(rng, 2) == 0)
        entry.ref = STR("r-1");
    if (rng_below(rng, 2) == 0)
        entry.key = STR("k");
    size_t len = frame_put_entry(text, TEXT_MAX, out_entry->room, &entry);
    ck_assert_uint_le(len, TEXT_MAX);
    return len;
}

START_TEST(the_servers_own_frames_are_read_the_quick_way_and_right)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        char text[TEXT_MAX];
        struct entry_scan made, quick, slow;
        size_t len = make(&rng, text, &made);
        ck_assert(fast(text, len, &quick));
        ck_assert(sure(text, len, &slow));
        assert_same(&quick, &made);
        assert_same(&slow, &made);
    }
}
END_TEST

static size_t mutate(struct rng *rng, char text[TEXT_MAX], size_t len)
{
    static const char BYTES[] = "\"\\{}[],:0x1 -\x7f\xc3\n";
    size_t at = rng_below(rng, len);
    size_t span = 1 + rng_below(rng, 8);
    switch (rng_below(rng, 5)) {
    case 0: /* one byte changed */
        text[at] = BYTES[rng_below(rng, sizeof(BYTES) - 1)];
        return len;
    case 1: /* one byte put in */
        memmove(text + at + 1, text + at, len - at);
        text[at] = BYTES[rng_below(rng, sizeof(BYTES) - 1)];
        return len + 1;
    case 2: /* some taken out */
        span = span < len - at ? span : len - at;
        memmove(text + at, text + at + span, len - at - span);
        return len - span;
    case 3: /* some repeated */
        span = span < len - at ? span : len - at;
        memmove(text + at + span, text + at, len - at);
        return len + span;
    default: /* the end cut off */
        return at;
    }
}

/* The claim that the audit rests on: whatever the quick way accepts is JSON, and the strict parser
 * reads the same entry out of it. */
START_TEST(the_quick_way_never_accepts_what_the_sure_way_reads_otherwise)
{
    struct rng rng;
    rng_init(&rng, (uint64_t)_i);
    int accepted = 0;
    for (int i = 0; i < 20000; i++) {
        char text[TEXT_MAX];
        struct entry_scan made, quick, slow;
        size_t len = make(&rng, text, &made);
        for (size_t n = 1 + rng_below(&rng, 3); n > 0 && len > 0; n--)
            len = mutate(&rng, text, len);
        if (!fast(text, len, &quick))
            continue;
        accepted++;
        ck_assert_msg(sure(text, len, &slow), "%.*s", (int)len, text);
        assert_same(&quick, &slow);
    }
    ck_assert_int_gt(accepted, 100); /* else nothing was compared */
}
END_TEST

/* Three readers of one stream, each at its own pace, with wrong guesses, frames that are too long,
 * mutated and repeated ones: the memo must say about each what the scan says. */
START_TEST(the_memo_says_what_the_scan_says)
{
    enum { FRAMES = 400, READERS = 3 };
    static char texts[FRAMES][TEXT_MAX];
    static struct entry_memo memo;
    size_t lens[FRAMES];
    size_t at[READERS] = {0};
    unsigned guess[READERS] = {0};
    struct rng rng;
    rng_init(&rng, (uint64_t)_i);
    for (size_t i = 0; i < FRAMES; i++) {
        struct entry_scan made;
        lens[i] = make(&rng, texts[i], &made);
        if (i > 0 && rng_below(&rng, 4) == 0) { /* all but equal to the one before */
            memcpy(texts[i], texts[i - 1], TEXT_MAX);
            lens[i] = mutate(&rng, texts[i], lens[i - 1]);
        }
    }
    for (int step = 0; step < 5000; step++) {
        size_t reader = rng_below(&rng, READERS);
        size_t frame = at[reader]++ % FRAMES;
        if (rng_below(&rng, 20) == 0)
            guess[reader] = (unsigned)rng_next(&rng);
        struct str text = exact(texts[frame], lens[frame]);
        struct entry_scan remembered, scanned;
        bool ok = entry_memo_scan(&memo, &guess[reader], text, &remembered);
        ck_assert_int_eq(ok, entry_scan_fast(text, &scanned));
        if (ok) {
            assert_same(&remembered, &scanned);
            ck_assert_ptr_eq(remembered.room.p, scanned.room.p);
        }
        free((char *)text.p);
    }
}
END_TEST

#define FRONT "{\"op\":\"entry\",\"room\":\"r\",\"id\":\"5-1\",\"prev\":\"5-0\",\"type\":\"t\","
#define OURS "{\"run\":\"0000abcd\",\"t\":77,\"pad\":\"xx\"}"

/* Well-formed frames that only the sure way may judge, and what it must say. */
static const struct {
    const char *text;
    uint64_t seq;
    bool prev_null;
    bool ours;
} UNUSUAL[] = {
    {FRONT "\"data\":{\"text\":\"hi\"}}", 1, false, false},
    {FRONT "\"data\":null}", 1, false, false},
    {FRONT "\"data\":{\"run\":\"0000abcd\",\"t\":77,\"pad\":\"xy\"}}", 1, false, false},
    {FRONT "\"data\":" OURS " }", 1, false, true},
    {FRONT "\"more\":[1],\"data\":" OURS "}", 1, false, true},
    {FRONT "\"data\":" OURS ",\"more\":1}", 1, false, true},
    {FRONT "\"ref\":\"a\\\"b\",\"data\":" OURS "}", 1, false, true},
    {FRONT "\"from\":\"\xc3\xa9\",\"data\":" OURS "}", 1, false, true},
    /* JSON.parse takes the last of equal names. */
    {FRONT "\"data\":" OURS ",\"id\":\"9-2\"}", 2, false, true},
    {FRONT "\"data\":" OURS ",\"prev\":null}", 1, true, true},
    {"{\"data\":" OURS ",\"type\":\"t\",\"prev\":\"5-0\",\"id\":\"5-1\",\"room\":\"r\",\"op\":"
     "\"entry\"}",
     1, false, true},
    /* The scan must not find its fields inside a string. */
    {"{\"op\":\"entry\",\"room\":\"r\",\"id\":\"5-1\",\"prev\":\"5-0\",\"type\":\"\\\",\\\"id\\\":"
     "\\\"9-9\",\"data\":" OURS "}",
     1, false, true},
};

START_TEST(an_unusual_frame_is_left_to_the_sure_way)
{
    struct entry_scan entry;
    struct inbound in;
    const char *text = UNUSUAL[_i].text;
    ck_assert(!fast(text, strlen(text), &entry));
    ck_assert(inbound_read(str_from(text), &in));
    ck_assert_int_eq(in.op, INBOUND_ENTRY);
    ck_assert_uint_eq(in.entry.id.seq, UNUSUAL[_i].seq);
    ck_assert_int_eq(in.entry.prev_null, UNUSUAL[_i].prev_null);
    ck_assert_int_eq(in.entry.ours, UNUSUAL[_i].ours);
    ck_assert_uint_eq(in.entry.run, UNUSUAL[_i].ours ? 0xabcd : 0);
}
END_TEST

#define WITH_ID(json)                                                                              \
    "{\"op\":\"entry\",\"room\":\"r\",\"id\":" json ",\"prev\":null,\"type\":\"t\",\"data\":1}"

static const char *const MALFORMED[] = {
    "",
    "{",
    "[]",
    "{}",
    "{\"op\":5}",
    FRONT "\"data\":" OURS,
    FRONT "\"data\":" OURS "}}",
    FRONT "\"data\":" OURS "} x",
    FRONT "\"data\":}",
    FRONT "\"key\":\"k\"}",
    WITH_ID("\"5-01\""),
    WITH_ID("\"5\""),
    WITH_ID("5"),
    WITH_ID("null"),
    WITH_ID("\"18446744073709551616-0\""),
    "{\"op\":\"entry\",\"room\":\"r\",\"id\":\"5-1\",\"type\":\"t\",\"data\":1}",
    "{\"op\":\"entry\",\"id\":\"5-1\",\"prev\":null,\"type\":\"t\",\"data\":1}",
    "{\"op\":\"live\",\"room\":\"r\",\"replayed\":1}",
    "{\"op\":\"live\",\"room\":\"r\",\"cursor\":null,\"replayed\":1}",
};

START_TEST(a_malformed_frame_is_a_breach)
{
    struct inbound in;
    struct str text = exact(MALFORMED[_i], strlen(MALFORMED[_i]));
    ck_assert(!inbound_read(text, &in));
    free((char *)text.p);
}
END_TEST

START_TEST(the_other_frames_say_what_a_run_asks)
{
    struct inbound in;
    ck_assert(inbound_read(STR("{\"op\":\"joined\",\"room\":\"r\",\"from\":null,\"head\":\"1-0\","
                               "\"oldest\":null,\"complete\":true,\"max_entries\":1}"),
                           &in));
    ck_assert_int_eq(in.op, INBOUND_JOINED);
    ck_assert(in.id_null && in.complete);
    ck_assert(inbound_read(
        STR("{\"op\":\"live\",\"room\":\"r\",\"cursor\":\"7-8\",\"replayed\":3}"), &in));
    ck_assert_int_eq(in.op, INBOUND_LIVE);
    ck_assert_uint_eq(in.id.seq, 8);
    ck_assert(inbound_read(
        STR("{\"op\":\"ack\",\"room\":\"r\",\"id\":\"7-9\",\"duplicate\":false}"), &in));
    ck_assert_int_eq(in.op, INBOUND_ACK);
    ck_assert(str_eq(in.room, STR("r")));
    ck_assert(inbound_read(STR("{\"op\":\"reject\",\"op_ref\":\"publish\",\"room\":\"r\",\"code\":"
                               "429,\"reason\":\"slow down\"}"),
                           &in));
    ck_assert_int_eq(in.op, INBOUND_REFUSAL);
    ck_assert(str_eq(in.reason, STR("slow down")));
    ck_assert(inbound_read(STR("{\"op\":\"news\"}"), &in));
    ck_assert_int_eq(in.op, INBOUND_OTHER);
}
END_TEST

START_TEST(a_payload_has_its_size_and_comes_back)
{
    static const uint64_t TIMES[] = {0, 9, 1234567890123456789};
    for (size_t size = PAYLOAD_MIN; size < 300; size++) {
        char text[300];
        uint32_t run;
        uint64_t t;
        payload_write(text, size, UINT32_MAX, TIMES[size % 3]);
        ck_assert_int_eq(json_check((struct str){text, size}, 2), JSON_OK);
        ck_assert(payload_read((struct str){text, size}, &run, &t));
        ck_assert_uint_eq(run, UINT32_MAX);
        ck_assert_uint_eq(t, TIMES[size % 3]);
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("entry_scan");
    TCase *tc = tcase_create("entries");
    tcase_add_test(tc, the_servers_own_frames_are_read_the_quick_way_and_right);
    tcase_add_loop_test(tc, the_quick_way_never_accepts_what_the_sure_way_reads_otherwise, 1, 5);
    tcase_add_loop_test(tc, the_memo_says_what_the_scan_says, 1, 4);
    tcase_add_loop_test(tc, an_unusual_frame_is_left_to_the_sure_way, 0,
                        (int)(sizeof(UNUSUAL) / sizeof(UNUSUAL[0])));
    tcase_add_loop_test(tc, a_malformed_frame_is_a_breach, 0,
                        (int)(sizeof(MALFORMED) / sizeof(MALFORMED[0])));
    tcase_add_test(tc, the_other_frames_say_what_a_run_asks);
    tcase_add_test(tc, a_payload_has_its_size_and_comes_back);
    suite_add_tcase(suite, tc);
    return suite;
}
