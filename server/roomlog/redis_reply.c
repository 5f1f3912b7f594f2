#include "roomlog/redis_reply.h"

#include "base/xalloc.h"

#include <stdlib.h>

enum {
    ENTRY_OVERHEAD = 64, /* an entry's id and framing on the wire, about */
    FIRST_CAPACITY = 128
};

static const struct redis_scan_node *node_of(const struct redis_reply *reply)
{
    return &reply->nodes[reply->at];
}

static bool is(const struct redis_reply *reply, enum redis_scan_type type)
{
    return node_of(reply)->type == type;
}

static bool is_text(const struct redis_reply *reply)
{
    return is(reply, REDIS_SCAN_TEXT) || is(reply, REDIS_SCAN_STATUS);
}

/* Of a text, or of an error. */
static struct str text_of(const struct redis_reply *reply)
{
    const struct redis_scan_node *node = node_of(reply);
    return (struct str){reply->base + node->text.at, node->text.len};
}

static bool id_of(const struct redis_reply *reply, struct stream_id *out_id)
{
    return is_text(reply) && stream_id_parse(text_of(reply), out_id);
}

/* The part behind this one. */
static struct redis_reply behind(struct redis_reply reply)
{
    reply.at = node_of(&reply)->next;
    return reply;
}

/* Is it an array of so many parts? *out is the first. */
static bool is_array_of(const struct redis_reply *reply, size_t count, struct redis_reply *out)
{
    if (!is(reply, REDIS_SCAN_ARRAY) || node_of(reply)->count != count)
        return false;
    *out = *reply;
    out->at++;
    return true;
}

/* --- errors --------------------------------------------------------------------------------- */

static const struct {
    const char *code;
    enum rd_err err;
} errors[] = {
    {"OOM", RD_EFULL},
    {"READONLY", RD_EREADONLY},
    {"WRONGTYPE", RD_EWRONGTYPE},
    {"NOPERM", RD_EDENIED},
    {"NOAUTH", RD_EDENIED},
    {"WRONGPASS", RD_EDENIED},
    {"TOOBIG", RD_ETOOBIG}, /* redis_wire's own */
    /* These pass: trying again makes sense. */
    {"BUSY", RD_EUNAVAIL},
    {"CLUSTERDOWN", RD_EUNAVAIL},
    {"LOADING", RD_EUNAVAIL},
    {"MASTERDOWN", RD_EUNAVAIL},
    {"MISCONF", RD_EUNAVAIL},
    {"NOREPLICAS", RD_EUNAVAIL},
    {"TRYAGAIN", RD_EUNAVAIL},
    {"UNKILLABLE", RD_EUNAVAIL},
    /* NOPERM's text inside a script: of Redis 7, and of Redis 8. */
    {"ERR The user executing the script can't run this command", RD_EDENIED},
    {"ERR ACL failure in script:", RD_EDENIED},
};

static bool begins_with(struct str text, const char *word)
{
    size_t len = strlen(word);
    return text.len >= len && memcmp(text.p, word, len) == 0 &&
           (text.len == len || text.p[len] == ' ');
}

/* Is the word somewhere in it? Before 7.0 an error inside a script comes wrapped: "ERR Error
 * running script (call to ...): @user_script:3: -OOM command not allowed ...". */
static bool wraps(struct str text, const char *word)
{
    static const char wrapper[] = "ERR Error running script";
    size_t len = strlen(word);
    if (text.len < sizeof(wrapper) || memcmp(text.p, wrapper, sizeof(wrapper) - 1) != 0)
        return false;
    const char *found = memmem(text.p, text.len, word, len);
    return found != NULL && (found[-1] == ' ' || found[-1] == '-');
}

enum rd_err redis_reply_err(const struct redis_reply *reply)
{
    if (!is(reply, REDIS_SCAN_ERROR))
        return RD_OK;
    struct str text = text_of(reply);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (begins_with(text, errors[i].code) || wraps(text, errors[i].code))
            return errors[i].err;
    return RD_ELOG;
}

bool redis_reply_error_text(const struct redis_reply *reply, char *dst, size_t cap)
{
    if (!is(reply, REDIS_SCAN_ERROR))
        return false;
    struct str text = text_of(reply);
    size_t len = text.len < cap - 1 ? text.len : cap - 1;
    for (size_t i = 0; i < len; i++)
        dst[i] = text.p[i] < ' ' && text.p[i] >= 0 ? '?' : text.p[i];
    dst[len] = '\0';
    return true;
}

bool redis_reply_is(const struct redis_reply *reply, const char *code)
{
    return is(reply, REDIS_SCAN_ERROR) && begins_with(text_of(reply), code);
}

/* --- small answers -------------------------------------------------------------------------- */

bool redis_reply_integer(const struct redis_reply *reply, long long *out_integer)
{
    if (!is(reply, REDIS_SCAN_INTEGER))
        return false;
    *out_integer = node_of(reply)->integer;
    return true;
}

bool redis_reply_text(const struct redis_reply *reply, struct str *out_text)
{
    if (!is_text(reply))
        return false;
    *out_text = text_of(reply);
    return true;
}

bool redis_reply_nil(const struct redis_reply *reply)
{
    return is(reply, REDIS_SCAN_NIL);
}

bool redis_reply_array(const struct redis_reply *reply, struct redis_reply_parts *out_parts)
{
    if (!is(reply, REDIS_SCAN_ARRAY))
        return false;
    *out_parts = (struct redis_reply_parts){.next = *reply, .left = node_of(reply)->count};
    out_parts->next.at++;
    return true;
}

bool redis_reply_part(struct redis_reply_parts *parts, struct redis_reply *out_part)
{
    if (parts->left == 0)
        return false;
    *out_part = parts->next;
    /* Behind the last there may be no node. */
    if (--parts->left != 0)
        parts->next = behind(parts->next);
    return true;
}

bool redis_reply_is_master(const struct redis_reply *reply)
{
    struct redis_reply_parts parts;
    struct redis_reply first;
    struct str role;
    return redis_reply_array(reply, &parts) && redis_reply_part(&parts, &first) &&
           redis_reply_text(&first, &role) && str_eq(role, STR("master"));
}

bool redis_reply_push(const struct redis_reply *reply)
{
    struct redis_reply_parts parts;
    struct redis_reply kind;
    if (!redis_reply_array(reply, &parts) || !redis_reply_part(&parts, &kind) || !is_text(&kind))
        return false;
    struct str text = text_of(&kind);
    return str_eq(text, STR("message")) || str_eq(text, STR("pmessage")) ||
           str_eq(text, STR("smessage")) || str_eq(text, STR("sunsubscribe"));
}

/* --- entries -------------------------------------------------------------------------------- */

void redis_reply_entries_fini(struct redis_reply_entries *entries)
{
    free(entries->p);
    *entries = (struct redis_reply_entries){.p = NULL};
}

static void reserve(struct redis_reply_entries *entries, size_t count)
{
    if (count <= entries->capacity)
        return;
    size_t capacity = entries->capacity == 0 ? FIRST_CAPACITY : entries->capacity;
    while (capacity < count)
        capacity *= 2;
    entries->p = xalloc_array(entries->p, capacity, sizeof(*entries->p));
    entries->capacity = capacity;
}

static struct str *field_of(struct roomlog_entry *entry, struct str name)
{
    if (str_eq(name, STR("type")))
        return &entry->type;
    if (str_eq(name, STR("data")))
        return &entry->data;
    if (str_eq(name, STR("from")))
        return &entry->from;
    if (str_eq(name, STR("ref")))
        return &entry->ref;
    return str_eq(name, STR("key")) ? &entry->key : NULL;
}

/* [id, [name, value, ...]] */
static bool entry_of(const struct redis_reply *reply, struct roomlog_entry *out)
{
    struct redis_reply id;
    *out = (struct roomlog_entry){.prev_known = false};
    if (!is_array_of(reply, 2, &id) || !id_of(&id, &out->id))
        return false;
    struct redis_reply_parts parts;
    struct redis_reply name = behind(id);
    if (!redis_reply_array(&name, &parts) || parts.left % 2 != 0)
        return false;
    while (redis_reply_part(&parts, &name)) {
        struct redis_reply value;
        if (!redis_reply_part(&parts, &value) || !is_text(&name) || !is_text(&value))
            return false;
        struct str *field = field_of(out, text_of(&name));
        if (field != NULL && !str_present(*field))
            *field = text_of(&value);
    }
    return true;
}

/* Each is after the one before it, and chained to it. */
static bool chain(struct roomlog_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (stream_id_cmp(entries[i - 1].id, entries[i].id) >= 0)
            return false;
        entries[i].prev = entries[i - 1].id;
        entries[i].prev_known = true;
    }
    return true;
}

bool redis_reply_range(const struct redis_reply *reply, enum redis_reply_order order,
                       struct redis_reply_entries *out_entries)
{
    struct redis_reply_parts parts;
    struct redis_reply part;
    out_entries->count = 0;
    if (!redis_reply_array(reply, &parts))
        return false;
    size_t count = parts.left;
    reserve(out_entries, count);
    for (size_t i = 0; redis_reply_part(&parts, &part); i++) {
        size_t to = order == REDIS_REPLY_ASCENDING ? i : count - 1 - i;
        if (!entry_of(&part, &out_entries->p[to]))
            return false;
    }
    if (!chain(out_entries->p, count))
        return false;
    out_entries->count = count;
    return true;
}

/* --- XINFO STREAM --------------------------------------------------------------------------- */

/* What an entry takes on the wire, fields that we don't know included; 0 where it is none. */
static size_t wire_bytes(const struct redis_reply *entry)
{
    struct redis_reply id;
    struct redis_reply_parts parts;
    if (!is_array_of(entry, 2, &id))
        return 0;
    struct redis_reply field = behind(id);
    if (!redis_reply_array(&field, &parts))
        return 0;
    size_t bytes = ENTRY_OVERHEAD;
    while (redis_reply_part(&parts, &field))
        if (is_text(&field))
            bytes += text_of(&field).len;
    return bytes;
}

static bool count_of(const struct redis_reply *reply, uint64_t *out)
{
    long long count;
    if (!redis_reply_integer(reply, &count) || count < 0)
        return false;
    *out = (uint64_t)count;
    return true;
}

/* What has to be there. */
enum { SEEN_LENGTH = 1, SEEN_LAST = 2, SEEN_FIRST = 4, SEEN_ALL = 7 };

/* One pair of XINFO's. False where it is malformed; *seen gets a bit for what has to be there. */
static bool take_pair(struct str name, const struct redis_reply *value, struct verdict_info *info,
                      unsigned *seen, size_t *bytes)
{
    if (str_eq(name, STR("length"))) {
        *seen |= SEEN_LENGTH;
        return count_of(value, &info->length);
    }
    if (str_eq(name, STR("last-generated-id"))) {
        *seen |= SEEN_LAST;
        return id_of(value, &info->last);
    }
    if (str_eq(name, STR("entries-added")))
        return count_of(value, &info->added);
    if (str_eq(name, STR("max-deleted-entry-id")))
        return id_of(value, &info->max_deleted);
    bool first = str_eq(name, STR("first-entry"));
    if (!first && !str_eq(name, STR("last-entry")))
        return true;
    size_t entry_bytes = wire_bytes(value);
    if (entry_bytes > *bytes)
        *bytes = entry_bytes;
    if (!first)
        return true;
    *seen |= SEEN_FIRST;
    struct redis_reply id;
    return redis_reply_nil(value) || (is_array_of(value, 2, &id) && id_of(&id, &info->first));
}

bool redis_reply_info(const struct redis_reply *reply, struct verdict_info *out_info,
                      size_t *out_bytes)
{
    struct verdict_info info = {.exists = false};
    *out_bytes = 0;
    if (is(reply, REDIS_SCAN_ERROR)) {
        if (!begins_with(text_of(reply), "ERR no such key"))
            return false;
        *out_info = info;
        return true;
    }
    struct redis_reply_parts parts;
    struct redis_reply name;
    struct redis_reply value;
    if (!redis_reply_array(reply, &parts) || parts.left % 2 != 0)
        return false;
    info.exists = true;
    info.added = UINT64_MAX;
    info.max_deleted = STREAM_ID_MAX;
    unsigned seen = 0;
    while (redis_reply_part(&parts, &name)) {
        if (!redis_reply_part(&parts, &value) || !is_text(&name) ||
            !take_pair(text_of(&name), &value, &info, &seen, out_bytes))
            return false;
    }
    if (seen != SEEN_ALL || (info.length == 0) != stream_id_is_zero(info.first))
        return false;
    *out_info = info;
    return true;
}

bool redis_reply_exec(const struct redis_reply *reply, enum redis_reply_order order,
                      struct verdict_info *out_info, size_t *out_bytes,
                      struct redis_reply_entries *out_entries, enum rd_err *out_err)
{
    *out_err = redis_reply_err(reply);
    if (*out_err != RD_OK)
        return false;
    *out_err = RD_ELOG;
    struct redis_reply first;
    if (!is_array_of(reply, 2, &first))
        return false;
    struct redis_reply second = behind(first);
    if (!redis_reply_info(&first, out_info, out_bytes) ||
        !redis_reply_range(&second, order, out_entries)) {
        enum rd_err range = redis_reply_err(&second);
        enum rd_err info = redis_reply_err(&first);
        *out_err = range != RD_OK ? range : info != RD_OK ? info : RD_ELOG;
        return false;
    }
    *out_err = RD_OK;
    return true;
}

bool redis_reply_exec_refused(const struct redis_reply *reply)
{
    return redis_reply_is(reply, "EXECABORT") || redis_reply_is(reply, "ERR EXEC without MULTI");
}

/* --- bells ---------------------------------------------------------------------------------- */

/* ["message", "__redis__:invalidate", [key, ...]], or nil in place of the keys. */
enum redis_reply_bell redis_reply_bell(const struct redis_reply *reply, size_t *out_count)
{
    struct redis_reply kind;
    *out_count = 0;
    if (!is_array_of(reply, 3, &kind) || !is_text(&kind) || !str_eq(text_of(&kind), STR("message")))
        return REDIS_REPLY_NO_BELL;
    struct redis_reply keys = behind(behind(kind));
    struct redis_reply_parts parts;
    struct redis_reply key;
    if (redis_reply_nil(&keys))
        return REDIS_REPLY_ALL;
    if (!redis_reply_array(&keys, &parts))
        return REDIS_REPLY_NO_BELL;
    size_t count = parts.left;
    while (redis_reply_part(&parts, &key))
        if (!is_text(&key))
            return REDIS_REPLY_NO_BELL;
    *out_count = count;
    return REDIS_REPLY_KEYS;
}

struct str redis_reply_bell_key(const struct redis_reply *reply, size_t at)
{
    /* Texts are one node each, so the keys need no walk. */
    struct redis_reply key = *reply;
    key.at++;
    key = behind(behind(key));
    key.at += 1 + at;
    return text_of(&key);
}
