#include "roomlog/redis_state.h"

#include "base/xalloc.h"
#include "roomlog/state_value.h"

#include <stdlib.h>

/* Ids are compared as the texts that they are: Lua's numbers can't hold them. pcall of XINFO: the
 * stream may be missing. Before Redis 7.0 there is no `entries-added`, and only the first two can
 * be told. */
static const char gone[] =
    "local function more(a, b) return #a > #b or (#a == #b and a > b) end\n"
    "local function above(a, b)\n"
    "  local ams, aseq = a:match('(%d+)-(%d+)')\n"
    "  local bms, bseq = b:match('(%d+)-(%d+)')\n"
    "  return more(ams, bms) or (ams == bms and more(aseq, bseq))\n"
    "end\n"
    "local function gone(room, state)\n"
    "  local id = redis.call('HGET', state, '\\0id')\n"
    "  if not id or not id:match('^%d+-%d+$') then return redis.call('EXISTS', room) == 0 end\n"
    "  local at = redis.call('XRANGE', room, id, '+', 'COUNT', 1)[1]\n"
    "  if at and at[1] == id then return false end\n"
    "  local info = redis.pcall('XINFO', 'STREAM', room)\n"
    "  if info.err then return true end\n"
    "  local of = {}\n"
    "  for i = 1, #info, 2 do of[info[i]] = info[i + 1] end\n"
    "  if not at then return above(id, of['last-generated-id']) end\n"
    "  return of['entries-added'] == of['length']\n"
    "end\n";

static const char guard[] =
    "if gone(KEYS[1], KEYS[2]) then return {0, '0'} end\n"
    "return {redis.call('HLEN', KEYS[2]), redis.call('HGET', KEYS[2], '\\0bytes') or '0'}\n";

struct str redis_state_script(const char *what_it_does)
{
    size_t first = sizeof(gone) - 1;
    size_t rest = strlen(what_it_does);
    char *text = xalloc(first + rest);
    memcpy(text, gone, first);
    memcpy(text + first, what_it_does, rest);
    return (struct str){text, first + rest};
}

struct str redis_state_key(struct str key)
{
    static const char tail[] = "}:state";
    size_t len = 1 + key.len + sizeof(tail) - 1;
    char *text = xalloc(len);
    text[0] = '{';
    memcpy(text + 1, key.p, key.len);
    memcpy(text + 1 + key.len, tail, sizeof(tail) - 1);
    return (struct str){text, len};
}

/* --- asking --------------------------------------------------------------------------------- */

void redis_state_ask(struct redis_state_ask *ask, enum redis_state_step step, struct str room)
{
    *ask = (struct redis_state_ask){.key = redis_state_key(room)};
    struct str *words = ask->words;
    ask->command = (struct redis_words){words, 2};
    if (step == REDIS_STATE_ALL) {
        words[0] = STR("HGETALL");
        words[1] = ask->key;
        return;
    }
    ask->script = redis_state_script(guard);
    words[0] = STR("EVAL");
    words[1] = ask->script;
    words[2] = STR("2");
    words[3] = room;
    words[4] = ask->key;
    ask->command.count = 5;
}

void redis_state_ask_fini(struct redis_state_ask *ask)
{
    free((char *)ask->key.p);
    free((char *)ask->script.p);
}

/* --- what comes ----------------------------------------------------------------------------- */

static bool number_of(struct str text, size_t *out)
{
    size_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || value > SIZE_MAX / 100)
            return false;
        value = value * 10 + (size_t)(text.p[i] - '0');
    }
    *out = value;
    return text.len != 0;
}

enum redis_state_verdict redis_state_guard(const struct redis_reply *reply,
                                           const struct redis_state_limits *limits)
{
    enum { OWN_FIELDS = 2 };
    struct redis_reply_parts parts;
    struct redis_reply part;
    long long fields;
    struct str text;
    size_t bytes;
    if (!redis_reply_array(reply, &parts) || !redis_reply_part(&parts, &part) ||
        !redis_reply_integer(&part, &fields) || fields < 0 || !redis_reply_part(&parts, &part) ||
        !redis_reply_text(&part, &text))
        return REDIS_STATE_BAD;
    if (fields == 0 || limits->max_keys == 0)
        return REDIS_STATE_EMPTY;
    if (!number_of(text, &bytes) || bytes / 2 > limits->max_bytes ||
        (size_t)fields / 2 > limits->max_keys + OWN_FIELDS / 2)
        return REDIS_STATE_LARGE;
    return REDIS_STATE_READ;
}

/* By id; of equal ones, which only others can have written, by key. */
static int compare(const void *a, const void *b)
{
    const struct roomlog_entry *x = a;
    const struct roomlog_entry *y = b;
    int by_id = stream_id_cmp(x->id, y->id);
    if (by_id != 0)
        return by_id;
    size_t len = x->key.len < y->key.len ? x->key.len : y->key.len;
    int by_key = len == 0 ? 0 : memcmp(x->key.p, y->key.p, len);
    return by_key != 0 ? by_key : x->key.len < y->key.len ? -1 : x->key.len > y->key.len;
}

/* One field and its value. *at moves on in scratch. */
static void take_field(struct redis_state *state, struct str field, struct str value, char **at)
{
    if (str_eq(field, STR(REDIS_STATE_BYTES)))
        return;
    if (str_eq(field, STR(REDIS_STATE_ID))) {
        state->odd += !stream_id_parse(value, &state->view.position);
        return;
    }
    if (!state_value_parse(field, value, *at, &state->items[state->view.count])) {
        state->odd++;
        return;
    }
    *at += value.len;
    state->view.count++;
}

/* The bytes of all texts; false where there is something else among them, or one without another.
 */
static bool bytes_of(struct redis_reply_parts parts, size_t *out_bytes)
{
    struct redis_reply part;
    struct str text;
    bool even = parts.left % 2 == 0;
    *out_bytes = 0;
    while (redis_reply_part(&parts, &part)) {
        if (!redis_reply_text(&part, &text))
            return false;
        *out_bytes += text.len;
    }
    return even;
}

bool redis_state_take(const struct redis_reply *reply, struct redis_state *out)
{
    struct redis_reply_parts parts;
    struct redis_reply part;
    size_t bytes;
    *out = (struct redis_state){.odd = 0};
    if (!redis_reply_array(reply, &parts) || !bytes_of(parts, &bytes))
        return false;
    out->items = xalloc_array(NULL, parts.left / 2 + 1, sizeof(*out->items));
    out->scratch = xalloc(bytes + 1);
    char *at = out->scratch;
    while (redis_reply_part(&parts, &part)) {
        struct str field, value;
        (void)redis_reply_text(&part, &field); /* all are texts, and there is an even number */
        (void)redis_reply_part(&parts, &part);
        (void)redis_reply_text(&part, &value);
        take_field(out, field, value, &at);
    }
    qsort(out->items, out->view.count, sizeof(*out->items), compare);
    out->view.items = out->items;
    return true;
}

void redis_state_fini(struct redis_state *state)
{
    free(state->items);
    free(state->scratch);
    *state = (struct redis_state){.odd = 0};
}
