#include "room/entry_packet.h"

#include "tests/lib/suite.h"

#include <stdio.h>

static struct packet_account account;

static void take_down(void)
{
    ck_assert_uint_eq(account.count, 0);
    ck_assert_uint_eq(account.bytes, 0);
}

static struct roomlog_entry entry_of(struct str data)
{
    return (struct roomlog_entry){
        .id = {5, 2}, .prev = {5, 1}, .prev_known = true, .type = STR("chat"), .data = data};
}

/* What follows the WebSocket header, which is 2, 4 or 10 bytes long (RFC 6455 section 5.2). */
static struct str payload_of(const struct packet *p)
{
    unsigned len = (unsigned char)p->bytes[1];
    size_t header = len < 126 ? 2 : len == 126 ? 4 : 10;
    return (struct str){p->bytes + header, packet_len(p) - header};
}

START_TEST(an_entry_becomes_its_frame_and_knows_its_place)
{
    struct roomlog_entry entry = entry_of(STR("{\"n\":1}"));
    entry.from = STR("ann");
    entry.ref = STR("r1");
    entry.key = STR("k");
    struct packet *p = entry_packet_create(&account, STR("red"), &entry);
    struct str payload = payload_of(p);
    static const char WANTED[] =
        "{\"op\":\"entry\",\"room\":\"red\",\"id\":\"5-2\",\"prev\":\"5-1\",\"type\":\"chat\","
        "\"from\":\"ann\",\"ref\":\"r1\",\"key\":\"k\",\"data\":{\"n\":1}}";

    ck_assert_uint_eq((unsigned char)p->bytes[0], 0x81);
    ck_assert_uint_eq(payload.len, sizeof(WANTED) - 1);
    ck_assert_mem_eq(payload.p, WANTED, payload.len);
    ck_assert(stream_id_eq(p->id, entry.id));
    ck_assert(p->prev_known && stream_id_eq(p->prev, entry.prev));
    ck_assert_uint_eq(account.count, 1);
    packet_unref(p);
}
END_TEST

START_TEST(where_the_entry_before_is_not_known_prev_is_null)
{
    struct roomlog_entry entry = entry_of(STR("1"));
    entry.prev_known = false;
    struct packet *p = entry_packet_create(&account, STR("red"), &entry);
    struct str payload = payload_of(p);
    static const char WANTED[] = "{\"op\":\"entry\",\"room\":\"red\",\"id\":\"5-2\",\"prev\":null,"
                                 "\"type\":\"chat\",\"data\":1}";

    ck_assert_uint_eq(payload.len, sizeof(WANTED) - 1);
    ck_assert_mem_eq(payload.p, WANTED, payload.len);
    ck_assert(!p->prev_known);
    packet_unref(p);
}
END_TEST

/* Data of _i bytes: from below the block that is tried first (4096 bytes for the whole frame) to
 * above it, and each length around the seam. */
START_TEST(entries_of_any_length_are_whole)
{
    size_t len = (size_t)_i;
    char *data = malloc(len);
    memset(data, 'x', len);
    data[0] = data[len - 1] = '"';
    struct roomlog_entry entry = entry_of((struct str){data, len});
    struct packet *p = entry_packet_create(&account, STR("red"), &entry);
    struct str payload = payload_of(p);
    static const char BEFORE[] = "{\"op\":\"entry\",\"room\":\"red\",\"id\":\"5-2\",\"prev\":"
                                 "\"5-1\",\"type\":\"chat\",\"data\":";
    size_t before = sizeof(BEFORE) - 1;

    ck_assert_uint_eq(payload.len, before + len + 1);
    ck_assert_mem_eq(payload.p, BEFORE, before);
    ck_assert_mem_eq(payload.p + before, data, len);
    ck_assert_int_eq(payload.p[payload.len - 1], '}');
    packet_unref(p);
    free(data);
}
END_TEST

START_TEST(a_large_entry_is_whole)
{
    size_t len = 1 << 20;
    char *data = malloc(len);
    memset(data, '7', len);
    struct roomlog_entry entry = entry_of((struct str){data, len});
    struct packet *p = entry_packet_create(&account, STR("red"), &entry);
    struct str payload = payload_of(p);
    ck_assert_uint_gt(payload.len, len);
    ck_assert_mem_eq(payload.p + payload.len - 1 - len, data, len);
    packet_unref(p);
    free(data);
}
END_TEST

/* Any program may put anything into the log. */
START_TEST(what_is_too_large_to_send_is_left_out_and_said)
{
    size_t len = ENTRY_PACKET_DATA_MAX + 1;
    char *large = malloc(len);
    ck_assert_ptr_nonnull(large);
    memset(large, 1, len); /* each byte would become six */
    struct roomlog_entry entry = {.id = {2, 0},
                                  .prev = {1, 0},
                                  .prev_known = true,
                                  .type = {large, ENTRY_PACKET_NAME_MAX + 1},
                                  .data = {large, len},
                                  .key = STR("k")};
    struct packet *p = entry_packet_create(&account, STR("red"), &entry);
    char expected[256];
    (void)snprintf(expected, sizeof(expected),
                   "{\"op\":\"entry\",\"room\":\"red\",\"id\":\"2-0\",\"prev\":\"1-0\","
                   "\"type\":\"message\",\"key\":\"k\",\"omitted\":%zu,\"data\":null}",
                   len + ENTRY_PACKET_NAME_MAX + 1);
    ck_assert_uint_eq(payload_of(p).len, strlen(expected));
    ck_assert_mem_eq(payload_of(p).p, expected, strlen(expected));
    packet_unref(p);

    entry.type = STR("t");
    entry.data.len--; /* at the limit it is whole: 6 bytes each, two quotes */
    p = entry_packet_create(&account, STR("red"), &entry);
    ck_assert_uint_gt(packet_len(p), 6 * (size_t)ENTRY_PACKET_DATA_MAX);
    packet_unref(p);
    free(large);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("entry_packet");
    TCase *tc = tcase_create("entry_packet");
    tcase_add_checked_fixture(tc, NULL, take_down);
    tcase_add_test(tc, an_entry_becomes_its_frame_and_knows_its_place);
    tcase_add_test(tc, where_the_entry_before_is_not_known_prev_is_null);
    tcase_add_loop_test(tc, entries_of_any_length_are_whole, 4000, 4032);
    tcase_add_test(tc, a_large_entry_is_whole);
    tcase_add_test(tc, what_is_too_large_to_send_is_left_out_and_said);
    suite_add_tcase(suite, tc);
    return suite;
}
