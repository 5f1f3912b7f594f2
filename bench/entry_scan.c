#include "bench/entry_scan.h"

#include "bench/payload.h"

/* --- the quick way -------------------------------------------------------------------------- */

#define EAT(p, end, literal) eat(p, end, literal, sizeof(literal) - 1)

static bool eat(const char **p, const char *end, const char *literal, size_t len)
{
    if ((size_t)(end - *p) < len || memcmp(*p, literal, len) != 0)
        return false;
    *p += len;
    return true;
}

/* The rest of a string whose opening quote was eaten, through its closing quote. Not empty. */
static bool eat_plain(const char **p, const char *end, struct str *out)
{
    const char *start = *p;
    const char *at = start;
    while (at < end && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
        at++;
    if (at == start || at == end || *at != '"')
        return false;
    *out = (struct str){start, (size_t)(at - start)};
    *p = at + 1;
    return true;
}

static bool eat_id(const char **p, const char *end, struct stream_id *out_id)
{
    size_t left = (size_t)(end - *p);
    size_t most = left < STREAM_ID_TEXT_MAX + 1 ? left : STREAM_ID_TEXT_MAX + 1;
    const char *quote = memchr(*p, '"', most);
    if (quote == NULL || !stream_id_parse((struct str){*p, (size_t)(quote - *p)}, out_id))
        return false;
    *p = quote + 1;
    return true;
}

bool entry_scan_fast(struct str text, struct entry_scan *out_entry)
{
    const char *p = text.p;
    const char *end = text.p + text.len;
    struct entry_scan e = {.ours = true};
    struct str skipped;
    if (!EAT(&p, end, "{\"op\":\"entry\",\"room\":\"") || !eat_plain(&p, end, &e.room) ||
        !EAT(&p, end, ",\"id\":\"") || !eat_id(&p, end, &e.id))
        return false;
    e.prev_null = EAT(&p, end, ",\"prev\":null");
    if (!e.prev_null && (!EAT(&p, end, ",\"prev\":\"") || !eat_id(&p, end, &e.prev)))
        return false;
    if (!EAT(&p, end, ",\"type\":\"") || !eat_plain(&p, end, &skipped))
        return false;
    if ((EAT(&p, end, ",\"from\":\"") && !eat_plain(&p, end, &skipped)) ||
        (EAT(&p, end, ",\"ref\":\"") && !eat_plain(&p, end, &skipped)) ||
        (EAT(&p, end, ",\"key\":\"") && !eat_plain(&p, end, &skipped)))
        return false;
    /* data is last: what is left, but for the frame's own brace, must be a payload to the byte. */
    if (!EAT(&p, end, ",\"data\":") || p == end || end[-1] != '}' ||
        !payload_read((struct str){p, (size_t)(end - 1 - p)}, &e.run, &e.t_ns))
        return false;
    *out_entry = e;
    return true;
}

/* --- the sure way --------------------------------------------------------------------------- */

struct str entry_scan_member(const struct json_member *members, size_t count, const char *name)
{
    struct str wanted = str_from(name);
    for (size_t i = count; i > 0; i--)
        if (str_eq(members[i - 1].key, wanted))
            return members[i - 1].value;
    return (struct str){NULL, 0};
}

struct str entry_scan_unquote(struct str value)
{
    if (value.len < 2 || value.p[0] != '"')
        return (struct str){NULL, 0};
    return (struct str){value.p + 1, value.len - 2};
}

bool entry_scan_members(const struct json_member *members, size_t count,
                        struct entry_scan *out_entry)
{
    struct entry_scan e = {.room = entry_scan_unquote(entry_scan_member(members, count, "room"))};
    struct str id = entry_scan_unquote(entry_scan_member(members, count, "id"));
    struct str prev = entry_scan_member(members, count, "prev");
    struct str data = entry_scan_member(members, count, "data");
    if (e.room.len == 0 || !str_present(id) || !stream_id_parse(id, &e.id) || !str_present(data))
        return false;
    if (!str_present(entry_scan_unquote(entry_scan_member(members, count, "type"))))
        return false;
    e.prev_null = str_eq(prev, STR("null"));
    if (!e.prev_null && (!str_present(prev) || !stream_id_parse(entry_scan_unquote(prev), &e.prev)))
        return false;
    /* Our payload may come back with its blanks or the order of its fields changed only if the
     * server breaks its word that data leaves as it came in, so anything but our own bytes isn't
     * ours. */
    e.ours = payload_read(data, &e.run, &e.t_ns);
    *out_entry = e;
    return true;
}
