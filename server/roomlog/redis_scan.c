#include "roomlog/redis_scan.h"

#include "base/xalloc.h"

#include <limits.h>
#include <stdlib.h>

enum {
    FIRST_CAPACITY = 64,
    DIGITS_MAX = 19, /* of a long long */
    LINE_END = 2     /* bytes */
};

void redis_scan_init(struct redis_scan *scan)
{
    *scan = (struct redis_scan){.nodes = NULL};
}

void redis_scan_fini(struct redis_scan *scan)
{
    free(scan->nodes);
    redis_scan_init(scan);
}

void redis_scan_next(struct redis_scan *scan)
{
    scan->count = 0;
    scan->at = 0;
    scan->searched = 0;
    scan->bulk = 0;
    scan->over = false;
    scan->depth = 0;
}

void redis_scan_trim(struct redis_scan *scan, size_t keep)
{
    if (scan->capacity > keep)
        redis_scan_fini(scan);
}

size_t redis_scan_drop(struct redis_scan *scan)
{
    if (!scan->over)
        return 0;
    size_t dropped = scan->at;
    scan->at = 0;
    scan->searched = scan->searched > dropped ? scan->searched - dropped : 0;
    return dropped;
}

/* --- nodes ---------------------------------------------------------------------------------- */

static void pass_over(struct redis_scan *scan)
{
    scan->over = true;
    scan->count = 0;
}

/* The next node; where the reply is passed over, one that nobody will read. */
static struct redis_scan_node *add(struct redis_scan *scan, enum redis_scan_type type,
                                   struct redis_scan_node *unread)
{
    if (scan->count == REDIS_SCAN_NODES_MAX)
        pass_over(scan);
    if (scan->over)
        return unread;
    if (scan->count == scan->capacity) {
        scan->capacity = scan->capacity == 0 ? FIRST_CAPACITY : scan->capacity * 2;
        scan->nodes = xalloc_array(scan->nodes, scan->capacity, sizeof(*scan->nodes));
    }
    struct redis_scan_node *node = &scan->nodes[scan->count++];
    node->type = type;
    node->next = (uint32_t)scan->count;
    return node;
}

/* A part has ended, and perhaps arrays with it. True: the whole reply has. */
static bool end_part(struct redis_scan *scan)
{
    while (scan->depth != 0) {
        if (--scan->stack[scan->depth - 1].left != 0)
            return false;
        scan->depth--;
        if (!scan->over)
            scan->nodes[scan->stack[scan->depth].node].next = (uint32_t)scan->count;
    }
    return true;
}

/* --- lines ---------------------------------------------------------------------------------- */

enum line { LINE_WHOLE, LINE_MORE, LINE_BAD };

/* A number and its line's end at the head of text, written as Redis does: no plus, no leading
 * zero. *out_len counts the line's end. */
static enum line number_line(struct str text, long long *out, size_t *out_len)
{
    size_t first = text.len != 0 && text.p[0] == '-' ? 1 : 0;
    size_t i = first;
    uint64_t value = 0;
    for (; i < text.len && text.p[i] != '\r'; i++) {
        unsigned digit = (unsigned)(unsigned char)text.p[i] - '0';
        if (digit > 9 || i - first == DIGITS_MAX)
            return LINE_BAD;
        value = value * 10 + digit;
    }
    if (i + 1 >= text.len)
        return LINE_MORE;
    size_t digits = i - first;
    bool zero = text.p[first] == '0';
    if (text.p[i + 1] != '\n' || digits == 0 || (zero && (digits != 1 || first != 0)) ||
        value > (uint64_t)LLONG_MAX + first)
        return LINE_BAD;
    *out = first == 0 ? (long long)value : (long long)(0 - value);
    *out_len = i + LINE_END;
    return LINE_WHOLE;
}

/* Any text up to its line's end, which begins at *out_end. */
static enum line text_line(struct redis_scan *scan, struct str text, size_t from, size_t *out_end)
{
    size_t at = scan->searched > from ? scan->searched : from;
    for (;;) {
        const char *found = at < text.len ? memchr(text.p + at, '\r', text.len - at) : NULL;
        size_t end = found != NULL ? (size_t)(found - text.p) : text.len;
        scan->searched = end;
        if (end - from > REDIS_SCAN_LINE_MAX)
            return LINE_BAD;
        if (end + 1 >= text.len)
            return LINE_MORE;
        if (text.p[end + 1] == '\n') {
            *out_end = end;
            return LINE_WHOLE;
        }
        at = end + 1; /* a bare CR belongs to the text */
    }
}

/* --- parts ---------------------------------------------------------------------------------- */

/* What a header led to. */
enum part { PART_ENDED, PART_OPEN, PART_MORE, PART_BROKEN };

static enum part wrong(struct redis_scan *scan, const char *reason)
{
    scan->reason = reason;
    return PART_BROKEN;
}

static enum part scan_line(struct redis_scan *scan, struct str text, enum redis_scan_type type)
{
    struct redis_scan_node unread;
    size_t from = scan->at + 1;
    size_t end = 0;
    enum line line = text_line(scan, text, from, &end);
    if (line == LINE_MORE)
        return PART_MORE;
    if (line == LINE_BAD)
        return wrong(scan, "a line of a reply is too long");
    struct redis_scan_node *node = add(scan, type, &unread);
    node->text.at = (uint32_t)from;
    node->text.len = (uint32_t)(end - from);
    scan->at = end + LINE_END;
    return PART_ENDED;
}

/* The rest of a text whose header was read. */
static enum part scan_rest(struct redis_scan *scan, struct str text)
{
    size_t have = text.len - scan->at;
    if (have < scan->bulk) {
        if (scan->over) {
            scan->at += have;
            scan->bulk -= have;
        }
        return PART_MORE;
    }
    scan->at += scan->bulk;
    scan->bulk = 0;
    /* What was passed over is gone; its last bytes may be too. */
    if (!scan->over && memcmp(text.p + scan->at - LINE_END, "\r\n", LINE_END) != 0)
        return wrong(scan, "a reply has a text that is longer than it said");
    return PART_ENDED;
}

static enum part scan_bulk(struct redis_scan *scan, struct str text, size_t header, long long len)
{
    struct redis_scan_node unread;
    if (len < -1)
        return wrong(scan, "a reply has a text of a negative length");
    scan->at += header;
    if (len == -1) {
        (void)add(scan, REDIS_SCAN_NIL, &unread);
        return PART_ENDED;
    }
    /* More than can come, so that it can't wrap; it will be passed over until the watchdog ends it.
     */
    if (len > LLONG_MAX - LINE_END)
        len = LLONG_MAX - LINE_END;
    if (!scan->over && (scan->at > REDIS_SCAN_BYTES_MAX ||
                        (unsigned long long)len > REDIS_SCAN_BYTES_MAX - scan->at))
        pass_over(scan);
    struct redis_scan_node *node = add(scan, REDIS_SCAN_TEXT, &unread);
    node->text.at = (uint32_t)scan->at;
    node->text.len = (uint32_t)len;
    scan->bulk = (size_t)len + LINE_END;
    return scan_rest(scan, text);
}

static enum part scan_array(struct redis_scan *scan, size_t header, long long count)
{
    struct redis_scan_node unread;
    if (count < -1 || count > INT_MAX)
        return wrong(scan, "a reply has an array of an impossible length");
    scan->at += header;
    if (count == -1) {
        (void)add(scan, REDIS_SCAN_NIL, &unread);
        return PART_ENDED;
    }
    uint32_t place = (uint32_t)scan->count;
    add(scan, REDIS_SCAN_ARRAY, &unread)->count = (uint32_t)count;
    if (count == 0)
        return PART_ENDED;
    if (scan->depth == REDIS_SCAN_DEPTH_MAX)
        return wrong(scan, "a reply has too many arrays inside each other");
    scan->stack[scan->depth].node = place;
    scan->stack[scan->depth].left = (uint32_t)count;
    scan->depth++;
    return PART_OPEN;
}

static enum part scan_number(struct redis_scan *scan, struct str text)
{
    struct redis_scan_node unread;
    struct str rest = {text.p + scan->at + 1, text.len - scan->at - 1};
    long long number = 0;
    size_t len = 0;
    enum line line = number_line(rest, &number, &len);
    if (line == LINE_MORE)
        return PART_MORE;
    if (line == LINE_BAD)
        return wrong(scan, "a reply has a number that is none");
    char type = text.p[scan->at];
    if (type == '$')
        return scan_bulk(scan, text, len + 1, number);
    if (type == '*')
        return scan_array(scan, len + 1, number);
    add(scan, REDIS_SCAN_INTEGER, &unread)->integer = number;
    scan->at += len + 1;
    return PART_ENDED;
}

static enum part scan_part(struct redis_scan *scan, struct str text)
{
    if (scan->at >= text.len)
        return PART_MORE;
    if (!scan->over && scan->at > REDIS_SCAN_BYTES_MAX)
        pass_over(scan);
    switch (text.p[scan->at]) {
    case '$':
    case '*':
    case ':':
        return scan_number(scan, text);
    case '+':
        return scan_line(scan, text, REDIS_SCAN_STATUS);
    case '-':
        return scan_line(scan, text, REDIS_SCAN_ERROR);
    default:
        return wrong(scan, "a reply begins with a byte that RESP2 doesn't have");
    }
}

enum redis_scan_verdict redis_scan_run(struct redis_scan *scan, struct str text)
{
    for (;;) {
        enum part part = scan->bulk != 0 ? scan_rest(scan, text) : scan_part(scan, text);
        if (part == PART_MORE)
            return REDIS_SCAN_MORE;
        if (part == PART_BROKEN)
            return REDIS_SCAN_BROKEN;
        if (part == PART_ENDED && end_part(scan))
            return scan->over ? REDIS_SCAN_OVER : REDIS_SCAN_WHOLE;
    }
}
