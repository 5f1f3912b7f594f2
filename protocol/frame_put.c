#include "protocol/frame.h"

#include "protocol/json.h"

/* Every frame is put together from pieces by a writer that counts on beyond the end of the
 * caller's block, as snprintf does. */

struct out {
    char *dst;
    size_t cap;
    size_t len; /* what is needed so far, perhaps above cap */
};

static void put(struct out *o, struct str s)
{
    if (o->len < o->cap && s.len > 0)
        memcpy(o->dst + o->len, s.p, s.len < o->cap - o->len ? s.len : o->cap - o->len);
    o->len += s.len;
}

static void put_string(struct out *o, struct str s)
{
    bool room = o->len < o->cap;
    o->len += json_quote(room ? o->dst + o->len : NULL, room ? o->cap - o->len : 0, s);
}

static void put_number(struct out *o, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    put(o, (struct str){digits + at, sizeof(digits) - at});
}

static void put_id(struct out *o, struct stream_id id)
{
    char text[STREAM_ID_TEXT_MAX + 2];
    size_t len = stream_id_format(id, text + 1);
    text[0] = text[len + 1] = '"';
    put(o, (struct str){text, len + 2});
}

static void put_id_or_null(struct out *o, const struct stream_id *id)
{
    if (id != NULL)
        put_id(o, *id);
    else
        put(o, STR("null"));
}

/* name comes with its comma, its quotes and its colon. */
static void put_member(struct out *o, struct str name, struct str value)
{
    if (!str_present(value))
        return;
    put(o, name);
    put_string(o, value);
}

static void put_bool(struct out *o, bool b)
{
    put(o, b ? STR("true") : STR("false"));
}

/* The last member, and the end of the frame. */
static void put_data(struct out *o, struct str data)
{
    put(o, STR(",\"data\":"));
    if (!str_present(data))
        put(o, STR("null"));
    else if (json_check(data, JSON_DEPTH_MAX) == JSON_OK)
        put(o, data);
    else
        put_string(o, data);
    put(o, STR("}"));
}

/* What an entry says, up to the end of its object. */
static void put_content(struct out *o, const struct frame_entry *entry, struct str ref)
{
    put_member(o, STR(",\"type\":"), entry->type.len > 0 ? entry->type : STR("message"));
    put_member(o, STR(",\"from\":"), entry->from);
    put_member(o, STR(",\"ref\":"), ref);
    put_member(o, STR(",\"key\":"), entry->key);
    if (entry->omitted != 0) {
        put(o, STR(",\"omitted\":"));
        put_number(o, entry->omitted);
    }
    put_data(o, entry->data);
}

size_t frame_put_welcome(char *dst, size_t cap, const struct frame_welcome *welcome)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"welcome\",\"session\":"));
    put_string(&o, welcome->session);
    put(&o, STR(",\"heartbeat_ms\":"));
    put_number(&o, welcome->heartbeat_ms);
    put(&o, STR(",\"max_frame_bytes\":"));
    put_number(&o, welcome->max_frame_bytes);
    put(&o, STR(",\"high_water_bytes\":"));
    put_number(&o, welcome->high_water_bytes);
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_joined(char *dst, size_t cap, struct str room, const struct frame_joined *joined)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"joined\",\"room\":"));
    put_string(&o, room);
    put(&o, STR(",\"from\":"));
    put_id_or_null(&o, joined->from);
    put(&o, STR(",\"head\":"));
    put_id(&o, joined->head);
    put(&o, STR(",\"oldest\":"));
    put_id_or_null(&o, joined->oldest);
    put(&o, STR(",\"complete\":"));
    put_bool(&o, joined->complete);
    put(&o, STR(",\"max_entries\":"));
    if (joined->max_entries != 0)
        put_number(&o, joined->max_entries);
    else
        put(&o, STR("null"));
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_entry(char *dst, size_t cap, struct str room, const struct frame_entry *entry)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"entry\",\"room\":"));
    put_string(&o, room);
    put(&o, STR(",\"id\":"));
    put_id(&o, entry->id);
    put(&o, STR(",\"prev\":"));
    put_id_or_null(&o, entry->prev_known ? &entry->prev : NULL);
    put_content(&o, entry, entry->ref);
    return o.len;
}

size_t frame_put_snapshot_entry(char *dst, size_t cap, const struct frame_entry *entry)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"id\":"));
    put_id(&o, entry->id);
    put_content(&o, entry, (struct str){NULL, 0});
    return o.len;
}

size_t frame_put_snapshot(char *dst, size_t cap, struct str room, const struct stream_id *id,
                          struct str entries, bool more)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"snapshot\",\"room\":"));
    put_string(&o, room);
    put(&o, STR(",\"id\":"));
    put_id_or_null(&o, id);
    put(&o, STR(",\"entries\":["));
    put(&o, entries);
    put(&o, more ? STR("],\"more\":true}") : STR("]}"));
    return o.len;
}

size_t frame_put_live(char *dst, size_t cap, struct str room, struct stream_id cursor,
                      uint64_t replayed)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"live\",\"room\":"));
    put_string(&o, room);
    put(&o, STR(",\"cursor\":"));
    put_id(&o, cursor);
    put(&o, STR(",\"replayed\":"));
    put_number(&o, replayed);
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_resync(char *dst, size_t cap, struct str room, enum frame_resync reason,
                        const struct stream_id *from)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"resync\",\"room\":"));
    put_string(&o, room);
    put_member(&o, STR(",\"reason\":"), str_from(frame_resync_name(reason)));
    put(&o, STR(",\"from\":"));
    put_id_or_null(&o, from);
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_ack(char *dst, size_t cap, struct str room, struct str ref, struct stream_id id,
                     bool duplicate)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"ack\",\"room\":"));
    put_string(&o, room);
    put_member(&o, STR(",\"ref\":"), ref);
    put(&o, STR(",\"id\":"));
    put_id(&o, id);
    put(&o, STR(",\"duplicate\":"));
    put_bool(&o, duplicate);
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_reject(char *dst, size_t cap, const struct frame_reject *reject)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"reject\""));
    put_member(&o, STR(",\"op_ref\":"), str_from(frame_op_name(reject->op)));
    put_member(&o, STR(",\"ref\":"), reject->ref);
    put_member(&o, STR(",\"room\":"), reject->room);
    put(&o, STR(",\"code\":"));
    put_number(&o, reject->code);
    put(&o, STR(",\"reason\":"));
    put_string(&o, reject->reason);
    if (reject->retry_after_ms >= 0) {
        put(&o, STR(",\"retry_after_ms\":"));
        put_number(&o, (uint64_t)reject->retry_after_ms);
    }
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_error(char *dst, size_t cap, enum code_error code, struct str reason)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"error\",\"code\":"));
    put_number(&o, code);
    put(&o, STR(",\"reason\":"));
    put_string(&o, reason);
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_signal(char *dst, size_t cap, struct str room, struct str from,
                        const struct frame_publish *signal)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"signal\",\"room\":"));
    put_string(&o, room);
    put_member(&o, STR(",\"type\":"), signal->type);
    put_member(&o, STR(",\"from\":"), from);
    put_data(&o, signal->data);
    return o.len;
}

size_t frame_put_left(char *dst, size_t cap, struct str room)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"left\",\"room\":"));
    put_string(&o, room);
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_pong(char *dst, size_t cap, struct str t)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"pong\""));
    if (str_present(t)) {
        put(&o, STR(",\"t\":"));
        put(&o, t);
    }
    put(&o, STR("}"));
    return o.len;
}

size_t frame_put_bye(char *dst, size_t cap, struct str reason, uint64_t retry_after_ms)
{
    struct out o = {dst, cap, 0};
    put(&o, STR("{\"op\":\"bye\",\"reason\":"));
    put_string(&o, reason);
    put(&o, STR(",\"retry_after_ms\":"));
    put_number(&o, retry_after_ms);
    put(&o, STR("}"));
    return o.len;
}
