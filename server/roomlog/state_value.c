#include "roomlog/state_value.h"

#include "base/xalloc.h"
#include "protocol/json.h"

enum { MEMBERS = 8 };

#define TYPE "\"type\":"
#define FROM "\"from\":"
#define DATA "\"data\":"

bool state_value_has_place(struct str key)
{
    return str_present(key) && (key.len == 0 || key.p[0] != '\0');
}

bool state_value_deletes(struct str data)
{
    return !str_present(data) || str_eq(data, STR("null"));
}

/* Writes as json_quote does: the length that is needed. */
static size_t put(char *dst, size_t cap, size_t at, struct str text)
{
    if (at < cap && text.len != 0)
        memcpy(dst + at, text.p, text.len < cap - at ? text.len : cap - at);
    return at + text.len;
}

static size_t put_member(char *dst, size_t cap, size_t at, struct str name, struct str value)
{
    if (!str_present(value))
        return at;
    at = put(dst, cap, at, name);
    at += json_quote(at < cap ? dst + at : NULL, at < cap ? cap - at : 0, value);
    return put(dst, cap, at, STR(","));
}

static size_t put_head(char *dst, size_t cap, const struct roomlog_publish *what)
{
    size_t at = put(dst, cap, 0, STR("{"));
    at = put_member(dst, cap, at, STR(TYPE), what->type);
    at = put_member(dst, cap, at, STR(FROM), what->from);
    return put(dst, cap, at, STR(DATA));
}

size_t state_value_bytes(struct str key, struct stream_id id, const struct roomlog_publish *what)
{
    char text[STREAM_ID_TEXT_MAX];
    size_t id_len = stream_id_format(id, text);
    /* A blank before, and a brace behind. */
    return key.len + id_len + 1 + put_head(NULL, 0, what) + what->data.len + 1;
}

struct str state_value_head(const struct roomlog_publish *what)
{
    size_t len = put_head(NULL, 0, what);
    char *text = xalloc(len);
    (void)put_head(text, len, what);
    return (struct str){text, len};
}

/* A JSON string's text. Borrows from it where nothing is escaped; otherwise from *scratch, which
 * moves on. False: no string. */
static bool string_of(struct str value, char **scratch, struct str *out)
{
    if (value.p[0] != '"')
        return false;
    if (memchr(value.p, '\\', value.len) == NULL) {
        *out = (struct str){value.p + 1, value.len - 2};
        return true;
    }
    out->p = *scratch;
    out->len = json_unquote(*scratch, value);
    *scratch += out->len;
    return true;
}

static bool take_member(const struct json_member *member, char **scratch, struct roomlog_entry *out)
{
    if (str_eq(member->key, STR("data"))) {
        out->data = member->value;
        return true;
    }
    if (str_eq(member->key, STR("type")))
        return string_of(member->value, scratch, &out->type);
    if (str_eq(member->key, STR("from")))
        return string_of(member->value, scratch, &out->from);
    return true;
}

bool state_value_parse(struct str key, struct str value, char *scratch, struct roomlog_entry *out)
{
    struct json_member members[MEMBERS];
    *out = (struct roomlog_entry){.key = key};
    const char *blank = value.len == 0 ? NULL : memchr(value.p, ' ', value.len);
    if (blank == NULL ||
        !stream_id_parse((struct str){value.p, (size_t)(blank - value.p)}, &out->id))
        return false;
    struct str json = {blank + 1, value.len - (size_t)(blank + 1 - value.p)};
    if (stream_id_is_zero(out->id) || json_check(json, JSON_DEPTH_MAX) != JSON_OK)
        return false;
    size_t count = json_members(json, members, MEMBERS);
    if (count > MEMBERS) /* SIZE_MAX, too: no object */
        return false;
    for (size_t i = 0; i < count; i++)
        if (!take_member(&members[i], &scratch, out))
            return false;
    return !state_value_deletes(out->data);
}
