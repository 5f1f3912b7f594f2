#include "protocol/stream_id.h"

/* One canonical number off the front of *text: no sign, no leading zero, not above 2^64-1. */
static bool take_number(struct str *text, uint64_t *out_number)
{
    uint64_t number = 0;
    size_t used = 0;
    while (used < text->len && text->p[used] >= '0' && text->p[used] <= '9') {
        uint64_t digit = (uint64_t)(text->p[used] - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
        used++;
    }
    if (used == 0 || (used > 1 && text->p[0] == '0'))
        return false;
    text->p += used;
    text->len -= used;
    *out_number = number;
    return true;
}

bool stream_id_parse(struct str text, struct stream_id *out_id)
{
    struct stream_id id;
    if (!take_number(&text, &id.ms) || text.len == 0 || text.p[0] != '-')
        return false;
    text.p++;
    text.len--;
    if (!take_number(&text, &id.seq) || text.len != 0)
        return false;
    *out_id = id;
    return true;
}

static size_t put_number(uint64_t number, char *dst)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    memcpy(dst, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

size_t stream_id_format(struct stream_id id, char *dst)
{
    size_t len = put_number(id.ms, dst);
    dst[len++] = '-';
    return len + put_number(id.seq, dst + len);
}
