#include "base/packet.h"

#include "tests/lib/suite.h"

#include <stdint.h>

static struct packet_account account;

static void make(void)
{
    account = (struct packet_account){0, 0};
}

static void nothing_left(void)
{
    ck_assert_uint_eq(account.bytes, 0);
    ck_assert_uint_eq(account.count, 0);
}

/* Payload length, and the header that RFC 6455 section 5.2 wants for it. */
static const struct {
    size_t payload;
    struct str header;
} HEADERS[] = {
    {0, {"\x81\x00", 2}},
    {125, {"\x81\x7d", 2}},
    {126, {"\x81\x7e\x00\x7e", 4}},
    {65535, {"\x81\x7e\xff\xff", 4}},
    {65536, {"\x81\x7f\0\0\0\0\0\x01\0\0", 10}},
    {16909060, {"\x81\x7f\0\0\0\0\x01\x02\x03\x04", 10}},
};

START_TEST(a_text_frame_has_the_shortest_header_and_then_its_payload)
{
    size_t len = HEADERS[_i].payload;
    struct str header = HEADERS[_i].header;
    char *payload = malloc(len + 1);
    memset(payload, 'x', len);
    struct packet *p = packet_text(&account, (struct str){payload, len});

    ck_assert_uint_eq(packet_len(p), header.len + len);
    ck_assert_mem_eq(p->bytes, header.p, header.len);
    ck_assert(len == 0 || memcmp(p->bytes + header.len, payload, len) == 0);
    packet_unref(p);
    free(payload);
}
END_TEST

START_TEST(an_entrys_packet_knows_its_place_in_the_chain)
{
    struct stream_id prev = {5, 1};
    struct packet *p = packet_entry(&account, STR("{}"), (struct stream_id){5, 2}, &prev);
    ck_assert(stream_id_eq(p->id, (struct stream_id){5, 2}));
    ck_assert(p->prev_known);
    ck_assert(stream_id_eq(p->prev, prev));
    packet_unref(p);

    p = packet_entry(&account, STR("{}"), (struct stream_id){5, 2}, NULL);
    ck_assert(!p->prev_known);
    ck_assert(stream_id_is_zero(p->prev));
    packet_unref(p);

    p = packet_text(&account, STR("{}"));
    ck_assert(stream_id_is_zero(p->id));
    packet_unref(p);
}
END_TEST

START_TEST(a_close_frame_carries_its_code_and_reason)
{
    struct packet *p = packet_close(&account, CLOSE_SLOW, STR("slow consumer"));
    ck_assert_uint_eq(packet_len(p), 2 + 2 + 13);
    ck_assert_mem_eq(p->bytes, "\x88\x0f\x0f\xa0slow consumer", 17);
    packet_unref(p);
}
END_TEST

START_TEST(the_longest_close_reason_still_fits_a_control_frame)
{
    char reason[PACKET_CLOSE_REASON_MAX];
    memset(reason, 'r', sizeof(reason));
    struct packet *p = packet_close(&account, CLOSE_SLOW, (struct str){reason, sizeof(reason)});
    ck_assert_uint_eq(packet_len(p), 2 + 125);
    ck_assert_int_eq(p->bytes[1], 125);
    packet_unref(p);
}
END_TEST

START_TEST(a_ping_is_two_bytes)
{
    struct packet *p = packet_ping(&account);
    ck_assert_uint_eq(packet_len(p), 2);
    ck_assert_mem_eq(p->bytes, "\x89\x00", 2);
    packet_unref(p);
}
END_TEST

START_TEST(the_account_counts_a_packet_once_until_its_last_reference_goes)
{
    struct packet *p = packet_text(&account, STR("hello"));
    struct packet *q = packet_ping(&account);
    size_t bytes = account.bytes;
    ck_assert_uint_eq(account.count, 2);
    ck_assert_uint_ge(bytes, 2 * sizeof(struct packet) + 7 + 2);

    ck_assert_ptr_eq(packet_ref(p), p);
    ck_assert_uint_eq(account.bytes, bytes);
    packet_unref(p);
    ck_assert_uint_eq(account.bytes, bytes);
    packet_unref(p);
    ck_assert_uint_eq(account.count, 1);
    ck_assert_uint_eq(account.bytes, sizeof(struct packet) + 2);
    packet_unref(q);
    packet_unref(NULL);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("packet");
    TCase *tc = tcase_create("packet");
    tcase_add_checked_fixture(tc, make, nothing_left);
    tcase_add_loop_test(tc, a_text_frame_has_the_shortest_header_and_then_its_payload, 0,
                        sizeof(HEADERS) / sizeof(HEADERS[0]));
    tcase_add_test(tc, an_entrys_packet_knows_its_place_in_the_chain);
    tcase_add_test(tc, a_close_frame_carries_its_code_and_reason);
    tcase_add_test(tc, the_longest_close_reason_still_fits_a_control_frame);
    tcase_add_test(tc, a_ping_is_two_bytes);
    tcase_add_test(tc, the_account_counts_a_packet_once_until_its_last_reference_goes);
    suite_add_tcase(suite, tc);
    return suite;
}
