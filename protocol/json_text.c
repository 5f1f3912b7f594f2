#include "protocol/json_text.h"

static uint32_t hex4(const char *p)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];
        value = value << 4 | (c <= '9' ? c - (uint32_t)'0' : (c & 7U) + 9);
    }
    return value;
}

static void skip(struct str *s, size_t len)
{
    s->p += len;
    s->len -= len;
}

/* s is behind a backslash. A surrogate without its other half comes out as itself. */
static uint32_t take_escape(struct str *s)
{
    static const char LETTERS[] = "bfnrt";
    static const char MEANINGS[] = "\b\f\n\r\t";
    char c = s->p[0];
    skip(s, 1);
    if (c != 'u') {
        const char *letter = strchr(LETTERS, c);
        return letter != NULL ? (uint32_t)MEANINGS[letter - LETTERS] : (uint32_t)c;
    }

    uint32_t first = hex4(s->p);
    skip(s, 4);
    if (first < 0xd800 || first > 0xdbff || s->len < 6 || s->p[0] != '\\' || s->p[1] != 'u')
        return first;
    uint32_t second = hex4(s->p + 2);
    if (second < 0xdc00 || second > 0xdfff)
        return first;
    skip(s, 6);
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
}

uint32_t json_text_take(struct str *s)
{
    unsigned char lead = (unsigned char)s->p[0];
    skip(s, 1);
    if (lead == '\\')
        return take_escape(s);
    if (lead < 0x80)
        return lead;
    size_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t c = lead & (0x3fU >> more);
    for (size_t i = 0; i < more; i++)
        c = c << 6 | ((unsigned char)s->p[i] & 0x3fU);
    skip(s, more);
    return c;
}

bool json_text_has_escape(struct str inside)
{
    return inside.len > 0 && memchr(inside.p, '\\', inside.len) != NULL;
}

bool json_text_same(struct str a, struct str b)
{
    while (a.len > 0 && b.len > 0) {
        if (json_text_take(&a) != json_text_take(&b))
            return false;
    }
    return a.len == 0 && b.len == 0;
}

/* A character in UTF-8, a lone surrogate in the same manner. Returns what is behind it. */
static char *put_char(char *at, uint32_t c)
{
    if (c < 0x80) {
        *at++ = (char)c;
        return at;
    }
    unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *at++ = (char)((0xff00U >> (more + 1) & 0xffU) | c >> 6 * more);
    while (more-- != 0)
        *at++ = (char)(0x80U | (c >> 6 * more & 0x3fU));
    return at;
}

size_t json_text_meaning(char *dst, struct str inside, uint32_t lone)
{
    char *at = dst;
    while (inside.len > 0) {
        const char *escape = memchr(inside.p, '\\', inside.len);
        size_t plain = escape == NULL ? inside.len : (size_t)(escape - inside.p);
        memcpy(at, inside.p, plain);
        at += plain;
        skip(&inside, plain);
        if (inside.len == 0)
            break;
        uint32_t c = json_text_take(&inside);
        at = put_char(at, lone != 0 && json_text_is_surrogate(c) ? lone : c);
    }
    return (size_t)(at - dst);
}
