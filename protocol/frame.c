#include "protocol/frame.h"

#include "protocol/json.h"
#include "protocol/json_text.h"

#include <cjson/cJSON.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Decoding checks the whole text once (json.h), then finds the members it knows by their spans.
 * cJSON decodes the strings that hold escapes, and those only: it cuts a string at \u0000, rounds
 * numbers, and takes what a browser would refuse, so it is handed what was found clean before.
 * That also leaves a usual frame without a single allocation. */

enum { MEMBERS_MAX = 32 };

enum field { OP, ROOM, CURSOR, LAST, STATE, TYPE, DATA, REF, KEY, TOKEN, T, FIELD_COUNT };

#define NAME(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }
static const struct str FIELD_NAMES[FIELD_COUNT] = {
    NAME("op"),   NAME("room"), NAME("cursor"), NAME("last"),  NAME("state"), NAME("type"),
    NAME("data"), NAME("ref"),  NAME("key"),    NAME("token"), NAME("t"),
};
#undef NAME

struct decoder {
    struct frame *frame;
    struct frame_fault *fault;
    struct str values[FIELD_COUNT]; /* JSON text, absent where the frame has no such member */
};

/* Notes why, unless there is a reason already: the first one is the one told. */
__attribute__((format(printf, 3, 4))) static bool fail(struct decoder *d, enum code_error code,
                                                       const char *format, ...)
{
    if (d->fault->reason[0] != '\0')
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(d->fault->reason, sizeof(d->fault->reason), format, args);
    va_end(args);
    d->fault->code = code;
    return false;
}

/* --- values ------------------------------------------------------------------------------------
 */

/* Decodes a string with escapes. The result lives in the frame's tree. */
static struct str unescape(struct frame *frame, struct str string)
{
    cJSON *item = cJSON_ParseWithLength(string.p, string.len);
    if (frame->tree == NULL)
        frame->tree = cJSON_CreateArray();
    /* The string was checked, down to its surrogates, so only want of memory can fail here. */
    if (!cJSON_IsString(item) || !cJSON_AddItemToArray(frame->tree, item))
        abort();
    return str_from(item->valuestring);
}

static bool take_string(struct decoder *d, enum field field, struct str *out)
{
    struct str value = d->values[field];
    const char *name = FIELD_NAMES[field].p;

    if (!str_present(value))
        return fail(d, CODE_BAD_FIELD, "%s is missing", name);
    if (value.p[0] != '"')
        return fail(d, CODE_BAD_FIELD, "%s must be a string", name);
    struct str rest = json_text_inside(value);
    while (rest.len > 0) {
        uint32_t c = json_text_take(&rest);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0))
            return fail(d, CODE_BAD_FIELD, "%s must not contain control characters", name);
        if (json_text_is_surrogate(c))
            return fail(d, CODE_BAD_FIELD, "%s must not contain lone surrogates", name);
    }
    *out = json_text_has_escape(json_text_inside(value)) ? unescape(d->frame, value)
                                                         : json_text_inside(value);
    return true;
}

/* A string of 1 to max bytes. */
static bool take_text(struct decoder *d, enum field field, size_t max, struct str *out)
{
    struct str text;
    if (!take_string(d, field, &text))
        return false;
    if (text.len == 0 || text.len > max)
        return fail(d, CODE_BAD_FIELD, "%s must be 1 to %zu bytes", FIELD_NAMES[field].p, max);
    *out = text;
    return true;
}

/* null counts as absent, for that is what many languages write for a field they don't have. */
static bool is_absent(struct decoder *d, enum field field)
{
    return !str_present(d->values[field]) || str_eq(d->values[field], STR("null"));
}

static bool take_optional_text(struct decoder *d, enum field field, size_t max, struct str *out)
{
    return is_absent(d, field) || take_text(d, field, max, out);
}

static bool take_room(struct decoder *d)
{
    struct str room;
    if (!take_string(d, ROOM, &room))
        return false;
    if (!frame_room_name_valid(room))
        return fail(d, CODE_BAD_FIELD, "%s", FRAME_ROOM_RULE);
    d->frame->room = room;
    memcpy(d->fault->room, room.p, room.len);
    d->fault->room[room.len] = '\0';
    return true;
}

/* --- one op each -------------------------------------------------------------------------------
 */

/* last is a number's text: "5.0" and "1e2" are not integers, in a JSON number as in a URL. */
static bool parse_last(struct str text, uint32_t *out_last)
{
    uint32_t last = 0;
    if (text.len == 0 || text.len > 3 || text.p[0] == '0')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        last = last * 10 + (uint32_t)(text.p[i] - '0');
    }
    if (last > FRAME_LAST_MAX)
        return false;
    *out_last = last;
    return true;
}

#define STATE_RULE "state must be true or false"

/* "1" and "0" are how a URL says it. */
static bool parse_state(struct str text, bool *out_state)
{
    *out_state = str_eq(text, STR("true")) || str_eq(text, STR("1"));
    return *out_state || str_eq(text, STR("false")) || str_eq(text, STR("0"));
}

bool frame_start_parse(struct str cursor, struct str last, struct str state,
                       struct frame_join *out_join, char reason[FRAME_REASON_MAX])
{
    struct frame_join join = {.start = FRAME_START_ALL};
    bool new_only = str_present(cursor) && str_eq(cursor, STR("$"));

    if (str_present(last) && !parse_last(last, &join.last)) {
        snprintf(reason, FRAME_REASON_MAX, "last must be an integer from 1 to %d", FRAME_LAST_MAX);
        return false;
    }
    if (str_present(cursor) && !new_only && !stream_id_parse(cursor, &join.cursor)) {
        snprintf(reason, FRAME_REASON_MAX,
                 "cursor must be an id like 1700000000000-0, or 0-0, or $");
        return false;
    }
    if (new_only && join.last != 0) {
        snprintf(reason, FRAME_REASON_MAX, "cursor $ and last exclude each other");
        return false;
    }
    if (str_present(state) && !parse_state(state, &join.state)) {
        snprintf(reason, FRAME_REASON_MAX, STATE_RULE);
        return false;
    }
    if (new_only)
        join.start = FRAME_START_NEW;
    else if (!stream_id_is_zero(join.cursor))
        join.start = FRAME_START_CURSOR;
    else if (join.last != 0)
        join.start = FRAME_START_LAST;
    *out_join = join;
    return true;
}

static bool decode_join(struct decoder *d)
{
    struct str cursor = {0};
    struct str last = {0};
    struct str state = {0};
    char reason[FRAME_REASON_MAX];

    if (!take_room(d) || (!is_absent(d, CURSOR) && !take_string(d, CURSOR, &cursor)))
        return false;
    if (!is_absent(d, LAST))
        last = d->values[LAST];
    if (!is_absent(d, STATE))
        state = d->values[STATE];
    if (str_present(state) && state.p[0] != 't' && state.p[0] != 'f')
        return fail(d, CODE_BAD_FIELD, STATE_RULE);
    if (!frame_start_parse(cursor, last, state, &d->frame->join, reason))
        return fail(d, CODE_BAD_FIELD, "%s", reason);
    return true;
}

static bool decode_leave(struct decoder *d)
{
    return take_room(d);
}

/* To be assigned, for an initialiser need not zero more of a union than its first member. */
static const struct frame_publish NO_PUBLISH = {.type = {NULL, 0}};

static bool decode_publish(struct decoder *d)
{
    struct frame_publish *publish = &d->frame->publish;
    *publish = NO_PUBLISH;
    /* Both are read whatever the other is: a reject repeats the one that is valid. */
    bool room_ok = take_room(d);
    bool ref_ok = take_optional_text(d, REF, FRAME_REF_MAX, &publish->ref);
    if (ref_ok && publish->ref.len > 0)
        memcpy(d->fault->ref, publish->ref.p, publish->ref.len);
    d->fault->ref[publish->ref.len] = '\0';

    if (!room_ok || !ref_ok || !take_text(d, TYPE, FRAME_TYPE_MAX, &publish->type) ||
        !take_optional_text(d, KEY, FRAME_KEY_MAX, &publish->key))
        return false;
    if (!str_present(d->values[DATA]))
        return fail(d, CODE_BAD_FIELD, "data is missing");
    publish->data = d->values[DATA];
    return true;
}

static bool decode_signal(struct decoder *d)
{
    struct frame_publish *signal = &d->frame->publish;
    *signal = NO_PUBLISH;
    if (!take_room(d) || !take_text(d, TYPE, FRAME_TYPE_MAX, &signal->type))
        return false;
    signal->data = str_present(d->values[DATA]) ? d->values[DATA] : STR("null");
    return true;
}

static bool decode_auth(struct decoder *d)
{
    return take_text(d, TOKEN, FRAME_TOKEN_MAX, &d->frame->token);
}

static bool decode_ping(struct decoder *d)
{
    struct str t = d->values[T];
    if (str_present(t) && (t.p[0] == '{' || t.p[0] == '['))
        return fail(d, CODE_BAD_FIELD, "t must be a string, a number, true, false or null");
    d->frame->t = t;
    return true;
}

static const struct {
    const char *name;
    bool (*decode)(struct decoder *d);
} OPS[] = {
    [FRAME_NONE] = {"none", NULL},
    [FRAME_JOIN] = {"join", decode_join},
    [FRAME_LEAVE] = {"leave", decode_leave},
    [FRAME_PUBLISH] = {"publish", decode_publish},
    [FRAME_SIGNAL] = {"signal", decode_signal},
    [FRAME_AUTH] = {"auth", decode_auth},
    [FRAME_PING] = {"ping", decode_ping},
};

const char *frame_op_name(enum frame_op op)
{
    return OPS[op].name;
}

/* --- the whole frame ---------------------------------------------------------------------------
 */

/* Replaces the keys that hold escapes by what they mean. Returns where these live, to be freed, or
 * NULL. */
static char *unescape_keys(struct json_member *members, size_t count)
{
    size_t need = 0;
    for (size_t i = 0; i < count; i++)
        need += json_text_has_escape(members[i].key) ? members[i].key.len : 0;
    if (need == 0)
        return NULL;
    char *meanings = malloc(need);
    char *at = meanings;
    if (meanings == NULL)
        abort();
    for (size_t i = 0; i < count; i++) {
        if (!json_text_has_escape(members[i].key))
            continue;
        /* Not by cJSON: a key may hold \u0000 and lone surrogates. */
        size_t len = json_text_meaning(at, members[i].key, 0);
        members[i].key = (struct str){at, len};
        at += len;
    }
    return meanings;
}

/* Sorts the members into d->values. */
static bool sort_members(struct decoder *d, const struct json_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (str_eq(members[i].key, members[j].key))
                return fail(d, CODE_BAD_JSON, "duplicate member");
        }
        for (size_t field = 0; field < FIELD_COUNT; field++) {
            if (str_eq(members[i].key, FIELD_NAMES[field]))
                d->values[field] = members[i].value;
        }
    }
    return true;
}

static bool take_members(struct decoder *d, struct json_member *members, size_t count)
{
    /* Nobody escapes a key, but somebody could to smuggle a second "op" past us. */
    char *meanings = unescape_keys(members, count);
    bool fine = sort_members(d, members, count);
    free(meanings);
    return fine;
}

static bool split(struct decoder *d, struct str text)
{
    struct json_member members[MEMBERS_MAX];
    enum json_verdict verdict = json_check(text, FRAME_DEPTH_MAX);
    if (verdict == JSON_TOO_DEEP)
        return fail(d, CODE_BAD_JSON, "nested deeper than %d", FRAME_DEPTH_MAX);
    if (verdict != JSON_OK)
        return fail(d, CODE_BAD_JSON, "not valid JSON");
    size_t count = json_members(text, members, MEMBERS_MAX);
    if (count == SIZE_MAX)
        return fail(d, CODE_BAD_JSON, "not a JSON object");
    if (count > MEMBERS_MAX)
        return fail(d, CODE_BAD_JSON, "more than %d members", MEMBERS_MAX);
    return take_members(d, members, count);
}

static bool find_op(struct decoder *d)
{
    struct str value = d->values[OP];
    if (!str_present(value))
        return fail(d, CODE_BAD_JSON, "op is missing");
    if (value.p[0] != '"')
        return fail(d, CODE_BAD_JSON, "op must be a string");
    for (enum frame_op op = FRAME_JOIN; op <= FRAME_PING; op++) {
        if (json_text_same(json_text_inside(value), str_from(OPS[op].name))) {
            d->frame->op = d->fault->op = op;
            return true;
        }
    }
    return fail(d, CODE_UNKNOWN_OP, "unknown op");
}

bool frame_decode(struct str text, struct frame *out_frame, struct frame_fault *out_fault)
{
    struct frame frame = {.op = FRAME_NONE};
    struct decoder d = {.frame = &frame, .fault = out_fault};

    out_fault->op = FRAME_NONE;
    out_fault->reason[0] = out_fault->room[0] = out_fault->ref[0] = '\0';
    if (!split(&d, text) || !find_op(&d) || !OPS[frame.op].decode(&d)) {
        frame_fini(&frame);
        return false;
    }
    *out_frame = frame;
    return true;
}

void frame_fini(struct frame *frame)
{
    if (frame == NULL)
        return;
    cJSON_Delete(frame->tree);
    frame->tree = NULL;
}

bool frame_room_name_valid(struct str name)
{
    if (name.len == 0 || name.len > FRAME_ROOM_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        if (!letter && !digit && c != '_' && c != '.' && c != ':' && c != '-')
            return false;
    }
    return true;
}

const char *frame_resync_name(enum frame_resync reason)
{
    static const char *const NAMES[] = {
        [FRAME_RESYNC_TRIMMED] = "trimmed", [FRAME_RESYNC_RESET] = "reset",
        [FRAME_RESYNC_AHEAD] = "ahead",     [FRAME_RESYNC_DIVERGED] = "diverged",
        [FRAME_RESYNC_HOLE] = "hole",       [FRAME_RESYNC_GAP] = "gap",
    };
    return NAMES[reason];
}
