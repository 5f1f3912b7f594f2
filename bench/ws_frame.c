#include "bench/ws_frame.h"

#include <string.h>

static bool opcode_known(unsigned opcode)
{
    return opcode <= WS_FRAME_BINARY || (opcode >= WS_FRAME_CLOSE && opcode <= WS_FRAME_PONG);
}

static uint64_t big_endian(const uint8_t *p, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        value = value << 8 | p[i];
    return value;
}

enum ws_frame_verdict ws_frame_read_head(const uint8_t *p, size_t len,
                                         struct ws_frame_head *out_head)
{
    if (len < 2)
        return WS_FRAME_MORE;
    struct ws_frame_head head = {
        .opcode = p[0] & 0x0f, .fin = (p[0] & 0x80) != 0, .masked = (p[1] & 0x80) != 0};
    if ((p[0] & 0x70) != 0 || !opcode_known(head.opcode))
        return WS_FRAME_BAD;

    unsigned short_len = p[1] & 0x7f;
    size_t extra = short_len == 126 ? 2 : short_len == 127 ? 8 : 0;
    if (head.opcode >= WS_FRAME_CLOSE && (extra > 0 || !head.fin))
        return WS_FRAME_BAD;
    head.head_len = 2 + extra + (head.masked ? 4 : 0);
    if (len < head.head_len)
        return WS_FRAME_MORE;

    head.payload_len = extra == 0 ? short_len : big_endian(p + 2, extra);
    if ((extra == 2 && head.payload_len < 126) || (extra == 8 && head.payload_len <= UINT16_MAX) ||
        head.payload_len > INT64_MAX)
        return WS_FRAME_BAD;
    if (head.masked)
        memcpy(head.mask, p + 2 + extra, sizeof(head.mask));
    *out_head = head;
    return WS_FRAME_OK;
}

size_t ws_frame_write_head(uint8_t *dst, unsigned opcode, size_t payload_len, const uint8_t *mask)
{
    size_t extra = payload_len < 126 ? 0 : payload_len <= UINT16_MAX ? 2 : 8;
    uint8_t mask_bit = mask == NULL ? 0 : 0x80;
    dst[0] = (uint8_t)(0x80 | opcode);
    dst[1] = (uint8_t)(mask_bit | (extra == 0 ? payload_len : extra == 2 ? 126 : 127));
    for (size_t i = 0; i < extra; i++)
        dst[2 + i] = (uint8_t)((uint64_t)payload_len >> (8 * (extra - 1 - i)));
    if (mask == NULL)
        return 2 + extra;
    memcpy(dst + 2 + extra, mask, 4);
    return 2 + extra + 4;
}

void ws_frame_mask(uint8_t *p, size_t len, const uint8_t mask[4])
{
    uint64_t wide;
    memcpy(&wide, mask, 4);
    memcpy((uint8_t *)&wide + 4, mask, 4);
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        word ^= wide;
        memcpy(p + i, &word, 8);
    }
    for (; i < len; i++)
        p[i] ^= mask[i & 3];
}
