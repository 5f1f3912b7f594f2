#include "bench/ws_frame.h"

#include "bench/ws_handshake.h"
#include "tests/lib/suite.h"

static const uint8_t MASK[4] = {0x37, 0xfa, 0x21, 0x3d};

/* Every width of the length, at its edges. */
static const size_t LENGTHS[] = {0, 1, 125, 126, 127, 65535, 65536, 1 << 20};

START_TEST(a_header_comes_back_as_written)
{
    for (int masked = 0; masked < 2; masked++) {
        uint8_t bytes[WS_FRAME_HEAD_MAX];
        struct ws_frame_head head;
        size_t len = ws_frame_write_head(bytes, WS_FRAME_TEXT, LENGTHS[_i], masked ? MASK : NULL);
        ck_assert_int_eq(ws_frame_read_head(bytes, len, &head), WS_FRAME_OK);
        ck_assert_uint_eq(head.payload_len, LENGTHS[_i]);
        ck_assert_uint_eq(head.head_len, len);
        ck_assert_int_eq(head.masked, masked);
        ck_assert(head.fin);
        for (size_t cut = 0; cut < len; cut++)
            ck_assert_int_eq(ws_frame_read_head(bytes, cut, &head), WS_FRAME_MORE);
    }
}
END_TEST

static const struct {
    uint8_t bytes[10];
    size_t len;
} BAD[] = {
    {{0xc1, 0x00}, 2},                                                  /* a reserved bit */
    {{0x83, 0x00}, 2},                                                  /* an unknown opcode */
    {{0x09, 0x00}, 2},                                                  /* a fragmented ping */
    {{0x88, 0x7e, 0x00, 0x7e}, 4},                                      /* a close of 126 bytes */
    {{0x81, 0x7e, 0x00, 0x7d}, 4},                                      /* 125 in the long form */
    {{0x81, 0x7f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff}, 10}, /* 65535 in the longest */
    {{0x81, 0x7f, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, 10}, /* 2^63 */
};

START_TEST(a_bad_header_is_refused)
{
    struct ws_frame_head head;
    ck_assert_int_eq(ws_frame_read_head(BAD[_i].bytes, BAD[_i].len, &head), WS_FRAME_BAD);
}
END_TEST

/* The example of RFC 6455, section 5.7. */
START_TEST(masking_is_the_standards)
{
    uint8_t text[] = "Hello";
    static const uint8_t MASKED[] = {0x7f, 0x9f, 0x4d, 0x51, 0x58};
    ws_frame_mask(text, 5, MASK);
    ck_assert_mem_eq(text, MASKED, 5);
}
END_TEST

START_TEST(masking_by_words_is_masking_by_bytes)
{
    uint8_t quick[40];
    uint8_t slow[40];
    for (size_t len = 0; len <= sizeof(quick); len++) {
        for (size_t i = 0; i < len; i++) {
            quick[i] = (uint8_t)(i * 31 + len);
            slow[i] = quick[i] ^ MASK[i & 3];
        }
        ws_frame_mask(quick, len, MASK);
        ck_assert_mem_eq(quick, slow, len);
    }
}
END_TEST

/* The example of RFC 6455, section 1.3. */
START_TEST(the_accept_key_is_the_standards)
{
    char accept[WS_HANDSHAKE_ACCEPT_LEN + 1];
    ws_handshake_accept(STR("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    ck_assert_str_eq(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
END_TEST

START_TEST(the_key_is_base64_of_the_nonce)
{
    char key[WS_HANDSHAKE_KEY_LEN + 1];
    ws_handshake_key((const uint8_t *)"the sample nonce", key);
    ck_assert_str_eq(key, "dGhlIHNhbXBsZSBub25jZQ==");
}
END_TEST

START_TEST(a_header_is_found_whatever_its_case_and_blanks)
{
    struct str head = STR("HTTP/1.1 101 X\r\nupgrade: websocket\r\nSEC-A:\t v w \r\nLast:z");
    ck_assert(str_eq(ws_handshake_header(head, "Sec-A"), STR("v w")));
    ck_assert(str_eq(ws_handshake_header(head, "last"), STR("z")));
    ck_assert(!str_present(ws_handshake_header(head, "Sec")));
    ck_assert(!str_present(ws_handshake_header(head, "HTTP/1.1 101 X")));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("ws_frame");
    TCase *frames = tcase_create("frames");
    tcase_add_loop_test(frames, a_header_comes_back_as_written, 0,
                        (int)(sizeof(LENGTHS) / sizeof(LENGTHS[0])));
    tcase_add_loop_test(frames, a_bad_header_is_refused, 0, (int)(sizeof(BAD) / sizeof(BAD[0])));
    tcase_add_test(frames, masking_is_the_standards);
    tcase_add_test(frames, masking_by_words_is_masking_by_bytes);
    suite_add_tcase(suite, frames);
    TCase *upgrade = tcase_create("upgrade");
    tcase_add_test(upgrade, the_accept_key_is_the_standards);
    tcase_add_test(upgrade, the_key_is_base64_of_the_nonce);
    tcase_add_test(upgrade, a_header_is_found_whatever_its_case_and_blanks);
    suite_add_tcase(suite, upgrade);
    return suite;
}
