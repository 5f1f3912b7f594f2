#include "roomlog/redis_hint.h"

#include <string.h>

enum { DIGITS_MAX = 9 }; /* of a text's length: Redis takes no more than 512 MB */

/* Takes everything up to the next `end` from the head of rest, and that too. */
static bool take_until(struct str *rest, char end, struct str *out)
{
    const char *found = rest->len == 0 ? NULL : memchr(rest->p, end, rest->len);
    if (found == NULL)
        return false;
    *out = (struct str){rest->p, (size_t)(found - rest->p)};
    rest->p = found + 1;
    rest->len -= out->len + 1;
    return true;
}

static bool take_id(struct str *rest, struct stream_id *out)
{
    struct str text;
    return take_until(rest, ' ', &text) && stream_id_parse(text, out);
}

static bool length_of(struct str digits, size_t *out)
{
    size_t len = 0;
    if (digits.len == 0 || digits.len > DIGITS_MAX || (digits.len > 1 && digits.p[0] == '0'))
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9')
            return false;
        len = len * 10 + (size_t)(digits.p[i] - '0');
    }
    *out = len;
    return true;
}

/* One netstring, or "-,". */
static bool take_text(struct str *rest, struct str *out)
{
    struct str digits;
    size_t len;
    if (rest->len >= 2 && memcmp(rest->p, "-,", 2) == 0) {
        rest->p += 2;
        rest->len -= 2;
        *out = (struct str){NULL, 0};
        return true;
    }
    if (!take_until(rest, ':', &digits) || !length_of(digits, &len))
        return false;
    if (len >= rest->len || rest->p[len] != ',')
        return false;
    *out = (struct str){rest->p, len};
    rest->p += len + 1;
    rest->len -= len + 1;
    return true;
}

bool redis_hint_parse(struct str text, struct roomlog_entry *out)
{
    struct roomlog_entry entry = {.prev_known = true};
    struct str *const texts[] = {&entry.type, &entry.data, &entry.from, &entry.ref, &entry.key};
    if (!take_id(&text, &entry.id) || !take_id(&text, &entry.prev))
        return false;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (!take_text(&text, texts[i]))
            return false;
    if (text.len != 0 || stream_id_cmp(entry.prev, entry.id) >= 0)
        return false;
    *out = entry;
    return true;
}
