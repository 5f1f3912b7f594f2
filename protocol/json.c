#include "protocol/json.h"

#include "protocol/json_text.h"

#include <assert.h>
#include <stdint.h>

/* --- bytes ---------------------------------------------------------------------------------- */

static const uint64_t ONES = 0x0101010101010101U;
static const uint64_t HIGHS = 0x8080808080808080U;

/* Nonzero where one of the eight bytes of x is zero. */
static inline uint64_t zero_byte(uint64_t x)
{
    return (x - ONES) & ~x & HIGHS;
}

/* How many bytes from p on may stand in a JSON string as they are and are ASCII: a multiple of
 * eight, perhaps short of the truth. Nearly all text is such, and a byte at a time is what would
 * make encoding an entry slow. */
static size_t plain_run(const char *p, size_t len)
{
    size_t run = 0;
    while (len - run >= 8) {
        uint64_t x;
        memcpy(&x, p + run, sizeof(x));
        uint64_t control = (x - ONES * 0x20) & ~x & HIGHS;
        if ((control | (x & HIGHS) | zero_byte(x ^ ONES * '"') | zero_byte(x ^ ONES * '\\')) != 0)
            break;
        run += 8;
    }
    return run;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The length of the UTF-8 sequence at p, where at least one byte is left. Where it is broken,
 * *out_valid is false and the length is that of its longest part that could have begun a valid
 * one, at least 1: what Unicode (section 3.9) and browsers replace by one U+FFFD. */
static size_t utf8_sequence(const char *p, size_t left, bool *out_valid)
{
    unsigned char lead = (unsigned char)p[0];
    size_t len = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

    *out_valid = lead < 0x80;
    if (lead < 0xc2 || lead > 0xf4)
        return 1;
    for (size_t i = 1; i < len; i++) {
        if (i == left || (unsigned char)p[i] < low || (unsigned char)p[i] > high)
            return i;
        low = 0x80;
        high = 0xbf;
    }
    *out_valid = true;
    return len;
}

bool json_utf8_valid(struct str text)
{
    size_t at = 0;
    while (at < text.len) {
        at += plain_run(text.p + at, text.len - at);
        bool valid = true;
        if (at < text.len)
            at += utf8_sequence(text.p + at, text.len - at, &valid);
        if (!valid)
            return false;
    }
    return true;
}

/* --- checking ------------------------------------------------------------------------------- */

/* A walk over a text that isn't trusted yet. */
struct walk {
    const char *p;
    const char *end;
    unsigned depth;
    uint64_t objects[JSON_DEPTH_MAX / 64]; /* bit n: the container at depth n + 1 is an object */
};

static void skip_blanks(struct walk *w)
{
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\n' || *w->p == '\r' || *w->p == '\t'))
        w->p++;
}

static bool skip_char(struct walk *w, char c)
{
    if (w->p == w->end || *w->p != c)
        return false;
    w->p++;
    return true;
}

/* p is behind the backslash. */
static bool check_escape(struct walk *w)
{
    if (w->p == w->end)
        return false;
    char c = *w->p++;
    if (c != 'u')
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL;
    for (int i = 0; i < 4; i++) {
        if (w->p == w->end || !is_hex(*w->p))
            return false;
        w->p++;
    }
    return true;
}

static bool check_string(struct walk *w)
{
    if (!skip_char(w, '"'))
        return false;
    while (w->p < w->end) {
        w->p += plain_run(w->p, (size_t)(w->end - w->p));
        while (w->p < w->end && is_plain((unsigned char)*w->p))
            w->p++;
        if (w->p == w->end)
            return false;

        bool valid;
        if (skip_char(w, '"'))
            return true;
        if (skip_char(w, '\\')) {
            valid = check_escape(w);
        } else if ((unsigned char)*w->p < 0x20) {
            valid = false;
        } else {
            w->p += utf8_sequence(w->p, (size_t)(w->end - w->p), &valid);
        }
        if (!valid)
            return false;
    }
    return false;
}

static bool check_digits(struct walk *w)
{
    const char *start = w->p;
    while (w->p < w->end && is_digit(*w->p))
        w->p++;
    return w->p > start;
}

static bool check_number(struct walk *w)
{
    (void)skip_char(w, '-'); /* the sign may be missing */
    if (!skip_char(w, '0') && !check_digits(w))
        return false;
    if (skip_char(w, '.') && !check_digits(w))
        return false;
    if (skip_char(w, 'e') || skip_char(w, 'E')) {
        if (!skip_char(w, '+'))
            (void)skip_char(w, '-'); /* so may this one */
        return check_digits(w);
    }
    return true;
}

static bool check_word(struct walk *w, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(w->end - w->p) < len || memcmp(w->p, word, len) != 0)
        return false;
    w->p += len;
    return true;
}

static bool check_scalar(struct walk *w)
{
    if (w->p == w->end)
        return false;
    switch (*w->p) {
    case '"':
        return check_string(w);
    case 't':
        return check_word(w, "true");
    case 'f':
        return check_word(w, "false");
    case 'n':
        return check_word(w, "null");
    default:
        return check_number(w);
    }
}

static bool in_object(const struct walk *w)
{
    unsigned top = w->depth - 1;
    return (w->objects[top / 64] >> top % 64 & 1) != 0;
}

static void enter(struct walk *w, bool object)
{
    uint64_t bit = (uint64_t)1 << w->depth % 64;
    uint64_t *word = &w->objects[w->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    w->depth++;
}

/* Up to where the next value must begin, inside a container and behind its bracket or a comma. */
static bool check_before_value(struct walk *w)
{
    skip_blanks(w);
    if (!in_object(w))
        return true;
    if (!check_string(w))
        return false;
    skip_blanks(w);
    if (!skip_char(w, ':'))
        return false;
    skip_blanks(w);
    return true;
}

enum after { AFTER_VALUE, AFTER_END, AFTER_BAD };

/* Behind a value: closes what ends here, and says whether another value must follow. */
static enum after check_after_value(struct walk *w)
{
    for (;;) {
        skip_blanks(w);
        if (w->depth == 0)
            return w->p == w->end ? AFTER_END : AFTER_BAD;
        if (skip_char(w, ','))
            return check_before_value(w) ? AFTER_VALUE : AFTER_BAD;
        if (!skip_char(w, in_object(w) ? '}' : ']'))
            return AFTER_BAD;
        w->depth--;
    }
}

enum json_verdict json_check(struct str text, unsigned max_depth)
{
    assert(max_depth <= JSON_DEPTH_MAX);
    if (text.len == 0)
        return JSON_BAD;
    struct walk w = {.p = text.p, .end = text.p + text.len};
    enum after after = AFTER_VALUE;

    skip_blanks(&w);
    while (after == AFTER_VALUE) {
        bool object = skip_char(&w, '{');
        if (object || skip_char(&w, '[')) {
            if (w.depth == max_depth)
                return JSON_TOO_DEEP;
            enter(&w, object);
            skip_blanks(&w);
            if (w.p == w.end || *w.p != (object ? '}' : ']')) {
                if (!check_before_value(&w))
                    return JSON_BAD;
                continue;
            }
        } else if (!check_scalar(&w)) {
            return JSON_BAD;
        }
        after = check_after_value(&w);
    }
    return after == AFTER_END ? JSON_OK : JSON_BAD;
}

/* --- members of a text that was checked --------------------------------------------------------
 */

/* From one quote to the other. */
static struct str take_string(struct walk *w)
{
    const char *start = ++w->p;
    for (;;) {
        w->p += plain_run(w->p, (size_t)(w->end - w->p));
        if (*w->p == '"')
            break;
        w->p += *w->p == '\\' ? 2 : 1;
    }
    return (struct str){start, (size_t)(w->p++ - start)};
}

static struct str take_value(struct walk *w)
{
    const char *start = w->p;
    unsigned depth = 0;
    do {
        char c = *w->p;
        if (c == '"') {
            (void)take_string(w); /* only to get past it, for it may hold brackets */
            continue;
        }
        if (c == '{' || c == '[')
            depth++;
        if (c == '}' || c == ']')
            depth--;
        w->p++;
    } while (depth > 0 || strchr(",}] \n\r\t", *w->p) == NULL);
    return (struct str){start, (size_t)(w->p - start)};
}

size_t json_members(struct str text, struct json_member *members, size_t cap)
{
    struct walk w = {.p = text.p, .end = text.p + text.len};
    size_t count = 0;

    skip_blanks(&w);
    if (!skip_char(&w, '{'))
        return SIZE_MAX;
    skip_blanks(&w);
    while (*w.p != '}') {
        (void)skip_char(&w, ','); /* not there before the first */
        skip_blanks(&w);
        struct json_member member = {.key = take_string(&w)};
        skip_blanks(&w);
        w.p++; /* the colon */
        skip_blanks(&w);
        member.value = take_value(&w);
        skip_blanks(&w);
        if (count < cap)
            members[count] = member;
        count++;
    }
    return count;
}

/* --- quoting --------------------------------------------------------------------------------- */

struct out {
    char *dst;
    size_t cap;
    size_t len; /* what is needed so far, perhaps above cap */
};

static void put(struct out *o, const char *p, size_t len)
{
    if (o->len < o->cap && len > 0)
        memcpy(o->dst + o->len, p, len < o->cap - o->len ? len : o->cap - o->len);
    o->len += len;
}

static void put_escaped(struct out *o, char c)
{
    static const char SPECIAL[] = "\"\\\b\f\n\r\t";
    static const char LETTERS[] = "\"\\bfnrt";
    static const char HEX[] = "0123456789abcdef";
    const char *special = memchr(SPECIAL, c, sizeof(SPECIAL) - 1);

    if (special != NULL)
        put(o, (char[]){'\\', LETTERS[special - SPECIAL]}, 2);
    else
        put(o, (char[]){'\\', 'u', '0', '0', HEX[c >> 4], HEX[c & 15]}, 6);
}

size_t json_quote(char *dst, size_t cap, struct str raw)
{
    struct out o = {dst, cap, 0};
    size_t at = 0;

    put(&o, "\"", 1);
    while (at < raw.len) {
        size_t clean = at;
        bool valid = true;
        at += plain_run(raw.p + at, raw.len - at);
        while (at < raw.len && is_plain((unsigned char)raw.p[at]))
            at++;
        put(&o, raw.p + clean, at - clean);
        if (at == raw.len)
            break;

        size_t len = utf8_sequence(raw.p + at, raw.len - at, &valid);
        if (!valid)
            put(&o, "\xef\xbf\xbd", 3);
        else if (len > 1)
            put(&o, raw.p + at, len);
        else
            put_escaped(&o, raw.p[at]);
        at += len;
    }
    put(&o, "\"", 1);
    return o.len;
}

/* --- unquoting ------------------------------------------------------------------------------- */

size_t json_unquote(char *dst, struct str quoted)
{
    return json_text_meaning(dst, json_text_inside(quoted), JSON_TEXT_REPLACEMENT);
}
