#include "base/logger.h"

#include "protocol/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static enum logger_level least = LOGGER_INFO;
static enum logger_format format = LOGGER_LOGFMT;

static const char *const LEVELS[] = {"debug", "info", "warn", "error"};

enum {
    TAIL_MAX = 16,   /* ` cut=true` or `,"cut":true`, `}` and the newline */
    ESCAPE_MAX = 6,  /* \u001b */
    NUMBER_MAX = 21, /* a sign and 20 digits */
    FIELDS_MAX =
        LOGGER_LINE_MAX - TAIL_MAX - 1 /* where only a closing quote and the tail may follow */
};

/* One line as it is built, on the stack: logging allocates nothing. */
struct line {
    char p[LOGGER_LINE_MAX];
    size_t len;
    bool cut; /* something didn't fit any more */
};

/* Whole or not at all, and always leaving room for the tail and one closing quote. */
static bool put(struct line *line, const char *p, size_t len)
{
    /* A closing quote may already stand beyond FIELDS_MAX. */
    if (line->len > FIELDS_MAX || len > FIELDS_MAX - line->len) {
        line->cut = true;
        return false;
    }
    memcpy(line->p + line->len, p, len);
    line->len += len;
    return true;
}

static bool put_z(struct line *line, const char *z)
{
    return put(line, z, strlen(z));
}

/* What put keeps free is for these. */
static void put_tail(struct line *line, const char *z)
{
    size_t len = strlen(z);
    memcpy(line->p + line->len, z, len);
    line->len += len;
}

/* How many bytes of text, from at on, go into the line as they are: 0 where the first must be
 * escaped. */
static size_t plain(struct str text, size_t at)
{
    unsigned char c = (unsigned char)text.p[at];
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';

    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (len > text.len - at || !json_utf8_valid((struct str){text.p + at, len}))
        return 0;
    /* U+0080 to U+009F are control characters too, which some terminals obey. */
    return c == 0xc2 && (unsigned char)text.p[at + 1] < 0xa0 ? 0 : len;
}

/* Writes the escape for what is at text.p[at]; returns how many bytes of text it stands for. */
static size_t escape(struct str text, size_t at, char out[ESCAPE_MAX + 1])
{
    unsigned char c = (unsigned char)text.p[at];
    const char *brief = c == '"'    ? "\\\""
                        : c == '\\' ? "\\\\"
                        : c == '\n' ? "\\n"
                        : c == '\r' ? "\\r"
                        : c == '\t' ? "\\t"
                                    : NULL;
    if (brief != NULL) {
        (void)snprintf(out, ESCAPE_MAX + 1, "%s", brief);
        return 1;
    }
    if (c == 0xc2 && text.len - at >= 2 &&
        json_utf8_valid((struct str){text.p + at, 2})) { /* U+0080 to U+009F, see plain */
        (void)snprintf(out, ESCAPE_MAX + 1, "\\u%04x", (unsigned)(unsigned char)text.p[at + 1]);
        return 2;
    }
    (void)snprintf(out, ESCAPE_MAX + 1, "\\u%04x", c < 0x80 ? (unsigned)c : 0xfffdu);
    return 1;
}

/* Both formats escape like JSON, so that a line is one line and valid UTF-8 whatever a peer sent.
 */
static void put_quoted(struct line *line, struct str text)
{
    if (!str_present(text)) {
        (void)put_z(line, "null");
        return;
    }
    if (!put_z(line, "\""))
        return;
    for (size_t at = 0; at < text.len;) {
        char escaped[ESCAPE_MAX + 1];
        size_t len = plain(text, at);
        const char *from = text.p + at;
        size_t step = len;
        if (len == 0) {
            step = escape(text, at, escaped);
            from = escaped;
            len = strlen(escaped);
        }
        if (!put(line, from, len))
            break;
        at += step;
    }
    put_tail(line, "\"");
}

static bool put_key(struct line *line, const char *key)
{
    if (format == LOGGER_LOGFMT)
        return (line->len == 0 || put_z(line, " ")) && put_z(line, key) && put_z(line, "=");
    return put_z(line, line->len == 0 ? "{\"" : ",\"") && put_z(line, key) && put_z(line, "\":");
}

static void put_field(struct line *line, const struct logger_kv *field)
{
    size_t before = line->len;
    char number[NUMBER_MAX + 1];

    if (line->cut)
        return;
    bool fits = put_key(line, field->key);
    /* A value gets at least its quotes or a whole number. */
    if (fits && FIELDS_MAX - line->len < NUMBER_MAX) {
        line->cut = true;
        fits = false;
    }
    if (!fits) {
        line->len = before;
        return;
    }
    if (field->kind == LOGGER_KV_STR) {
        put_quoted(line, field->text);
        return;
    }
    (void)snprintf(number, sizeof(number), "%" PRId64, field->number);
    (void)put_z(line, number);
}

static void finish(struct line *line)
{
    if (line->cut)
        put_tail(line, format == LOGGER_LOGFMT ? " cut=true" : ",\"cut\":true");
    put_tail(line, format == LOGGER_LOGFMT ? "\n" : "}\n");

    /* One write, so that lines of several processes don't mix. A line that can't be written is
     * lost: there is nobody to tell. */
    ssize_t written;
    do
        written = write(STDERR_FILENO, line->p, line->len);
    while (written < 0 && errno == EINTR);
}

/* May this site print now? */
static bool admit(struct logger_site *site)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t passed = (uint64_t)now.tv_sec - site->second;
    site->printed -= passed < site->printed ? (unsigned)passed : site->printed;
    site->second = (uint64_t)now.tv_sec;
    if (site->printed == LOGGER_BURST) {
        site->dropped++;
        return false;
    }
    site->printed++;
    return true;
}

void logger_setup(enum logger_level level, enum logger_format wanted)
{
    least = level;
    format = wanted;
}

void logger_write(struct logger_site *site, enum logger_level level, const char *msg,
                  const struct logger_kv *fields, size_t count)
{
    if (level < least || !admit(site))
        return;

    struct line line = {.len = 0};
    (void)put_key(&line, "level");
    (void)put_z(&line, format == LOGGER_JSON ? "\"" : "");
    (void)put_z(&line, LEVELS[level]);
    (void)put_z(&line, format == LOGGER_JSON ? "\"" : "");
    put_field(&line, &KV_TEXT("msg", msg));
    if (site->dropped != 0)
        put_field(&line, &KV_NUM("suppressed", site->dropped));
    site->dropped = 0;
    for (size_t i = 0; i < count; i++)
        put_field(&line, &fields[i]);
    finish(&line);
}
