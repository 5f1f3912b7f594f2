/* What the header keeps opaque is hiredis' own reply. */
#define redis_reply redisReply
#include "roomlog/redis_reply.h"

#include "base/xalloc.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ENTRY_OVERHEAD = 64, /* an entry's id and framing on the wire, about */
    FIRST_CAPACITY = 128
};

static bool is_text(const redisReply *reply)
{
    return reply != NULL &&
           (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

static bool is_array(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY;
}

static struct str text_of(const redisReply *reply)
{
    return (struct str){reply->str, reply->len};
}

static bool id_of(const redisReply *reply, struct stream_id *out_id)
{
    return is_text(reply) && stream_id_parse(text_of(reply), out_id);
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
    if (reply->type != REDIS_REPLY_ERROR)
        return RD_OK;
    struct str text = text_of(reply);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (begins_with(text, errors[i].code) || wraps(text, errors[i].code))
            return errors[i].err;
    return RD_ELOG;
}

bool redis_reply_error_text(const struct redis_reply *reply, char *dst, size_t cap)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    size_t len = reply->len < cap - 1 ? reply->len : cap - 1;
    for (size_t i = 0; i < len; i++)
        dst[i] = reply->str[i] < ' ' && reply->str[i] >= 0 ? '?' : reply->str[i];
    dst[len] = '\0';
    return true;
}

bool redis_reply_is(const struct redis_reply *reply, const char *code)
{
    return reply->type == REDIS_REPLY_ERROR && begins_with(text_of(reply), code);
}

/* --- small answers -------------------------------------------------------------------------- */

bool redis_reply_integer(const struct redis_reply *reply, long long *out_integer)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return false;
    *out_integer = reply->integer;
    return true;
}

bool redis_reply_text(const struct redis_reply *reply, struct str *out_text)
{
    if (!is_text(reply))
        return false;
    *out_text = text_of(reply);
    return true;
}

bool redis_reply_is_master(const struct redis_reply *reply)
{
    struct str role;
    return is_array(reply) && reply->elements != 0 && redis_reply_text(reply->element[0], &role) &&
           str_eq(role, STR("master"));
}

bool redis_reply_appended(const struct redis_reply *reply, struct stream_id *out_id,
                          bool *out_duplicate)
{
    const redisReply *id = reply;
    bool duplicate = false;
    if (is_array(reply)) {
        if (reply->elements != 2 || reply->element[1]->type != REDIS_REPLY_INTEGER)
            return false;
        id = reply->element[0];
        duplicate = reply->element[1]->integer != 0;
    }
    if (!id_of(id, out_id))
        return false;
    *out_duplicate = duplicate;
    return true;
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
static bool entry_of(const redisReply *reply, struct roomlog_entry *out)
{
    *out = (struct roomlog_entry){.prev_known = false};
    if (!is_array(reply) || reply->elements != 2 || !id_of(reply->element[0], &out->id))
        return false;
    const redisReply *fields = reply->element[1];
    if (!is_array(fields) || fields->elements % 2 != 0)
        return false;
    for (size_t i = 0; i < fields->elements; i += 2) {
        const redisReply *name = fields->element[i];
        const redisReply *value = fields->element[i + 1];
        if (!is_text(name) || !is_text(value))
            return false;
        struct str *field = field_of(out, text_of(name));
        if (field != NULL && !str_present(*field))
            *field = text_of(value);
    }
    return true;
}

bool redis_reply_range(const struct redis_reply *reply, enum redis_reply_order order,
                       struct redis_reply_entries *out_entries)
{
    out_entries->count = 0;
    if (!is_array(reply))
        return false;
    size_t count = reply->elements;
    reserve(out_entries, count);
    for (size_t i = 0; i < count; i++) {
        struct roomlog_entry *entry = &out_entries->p[i];
        size_t from = order == REDIS_REPLY_ASCENDING ? i : count - 1 - i;
        if (!entry_of(reply->element[from], entry))
            return false;
        if (i == 0)
            continue;
        if (stream_id_cmp(entry[-1].id, entry->id) >= 0)
            return false;
        entry->prev = entry[-1].id;
        entry->prev_known = true;
    }
    out_entries->count = count;
    return true;
}

/* --- XINFO STREAM --------------------------------------------------------------------------- */

/* What an entry takes on the wire, fields that we don't know included; 0 where it is none. */
static size_t wire_bytes(const redisReply *entry)
{
    if (!is_array(entry) || entry->elements != 2 || !is_array(entry->element[1]))
        return 0;
    const redisReply *fields = entry->element[1];
    size_t bytes = ENTRY_OVERHEAD;
    for (size_t i = 0; i < fields->elements; i++)
        if (is_text(fields->element[i]))
            bytes += fields->element[i]->len;
    return bytes;
}

static bool count_of(const redisReply *reply, uint64_t *out)
{
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0)
        return false;
    *out = (uint64_t)reply->integer;
    return true;
}

/* What has to be there. */
enum { SEEN_LENGTH = 1, SEEN_LAST = 2, SEEN_FIRST = 4, SEEN_ALL = 7 };

/* One pair of XINFO's. False where it is malformed; *seen gets a bit for what has to be there. */
static bool take_pair(struct str name, const redisReply *value, struct verdict_info *info,
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
    return value->type == REDIS_REPLY_NIL ||
           (is_array(value) && value->elements == 2 && id_of(value->element[0], &info->first));
}

bool redis_reply_info(const struct redis_reply *reply, struct verdict_info *out_info,
                      size_t *out_bytes)
{
    struct verdict_info info = {.exists = false};
    *out_bytes = 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (!begins_with(text_of(reply), "ERR no such key"))
            return false;
        *out_info = info;
        return true;
    }
    if (!is_array(reply) || reply->elements % 2 != 0)
        return false;
    info.exists = true;
    info.added = UINT64_MAX;
    info.max_deleted = STREAM_ID_MAX;
    unsigned seen = 0;
    for (size_t i = 0; i < reply->elements; i += 2) {
        if (!is_text(reply->element[i]) ||
            !take_pair(text_of(reply->element[i]), reply->element[i + 1], &info, &seen, out_bytes))
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
    if (!is_array(reply) || reply->elements != 2)
        return false;
    if (!redis_reply_info(reply->element[0], out_info, out_bytes) ||
        !redis_reply_range(reply->element[1], order, out_entries)) {
        enum rd_err range = redis_reply_err(reply->element[1]);
        enum rd_err info = redis_reply_err(reply->element[0]);
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
    *out_count = 0;
    if (!is_array(reply) || reply->elements != 3 || !is_text(reply->element[0]) ||
        !str_eq(text_of(reply->element[0]), STR("message")))
        return REDIS_REPLY_NO_BELL;
    const redisReply *keys = reply->element[2];
    if (keys->type == REDIS_REPLY_NIL)
        return REDIS_REPLY_ALL;
    if (!is_array(keys))
        return REDIS_REPLY_NO_BELL;
    for (size_t i = 0; i < keys->elements; i++)
        if (!is_text(keys->element[i]))
            return REDIS_REPLY_NO_BELL;
    *out_count = keys->elements;
    return REDIS_REPLY_KEYS;
}

struct str redis_reply_bell_key(const struct redis_reply *reply, size_t at)
{
    return text_of(reply->element[2]->element[at]);
}
