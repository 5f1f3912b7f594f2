#include "roomlog/redis_script.h"

#include "base/xalloc.h"
#include "roomlog/state_value.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* KEYS: the room, its ref, its state; the room again in place of what isn't asked for.
 * ARGV: 1 the window, '' where refs aren't remembered; 2 whether a duplicate is touched; 3 what is
 * announced, ''; 4 the most keys of a state, '' where the entry has no place in it; 5 its most
 * bytes; 6 the key; 7 the value up to the data, '' where the key is taken out; 8 which of ARGV is
 * the data; then XADD's words after the key.
 *
 * All that may fail for another reason than missing rights comes before the XADD: reading the state
 * also finds out whether its key has another type. Numbers stay below 2^53. */
static const char script[] =
    "local room, ref, state, window, said = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[3]\n"
    "if window ~= '' then\n"
    "  local first = redis.call('GET', ref)\n"
    "  if first then\n"
    "    if ARGV[2] ~= '' then redis.call('SET', ref, first, 'KEEPTTL') end\n"
    "    return {first, 1}\n"
    "  end\n"
    "end\n"
    "local keys, key, head, data = tonumber(ARGV[4]), ARGV[6], ARGV[7], nil\n"
    "local anew, sum, old, held = false, 0, 0, 0\n"
    "if keys then\n"
    "  anew = gone(room, state)\n"
    "  if not anew then\n"
    "    sum = tonumber(redis.call('HGET', state, '\\0bytes') or 0) or 0\n"
    "    held = redis.call('HLEN', state) - 2\n"
    "    if redis.call('HEXISTS', state, key) == 1 then\n"
    "      old = #key + redis.call('HSTRLEN', state, key)\n"
    "    end\n"
    "  end\n"
    "  if head ~= '' then\n"
    "    data = ARGV[tonumber(ARGV[8])]\n"
    "    local size = #key + 41 + 1 + #head + #data + 1\n"
    "    if (old == 0 and held >= keys) or sum - old + size > tonumber(ARGV[5]) then\n"
    "      return redis.error_reply('STATEFULL the state of this room is full')\n"
    "    end\n"
    "  end\n"
    "end\n"
    "local prev = '0-0'\n"
    "if said ~= '' then\n"
    "  local newest = redis.call('XREVRANGE', room, '+', '-', 'COUNT', 1)[1]\n"
    "  if newest then prev = newest[1] end\n"
    "end\n"
    "local id = redis.call('XADD', room, unpack(ARGV, 9))\n"
    "local refused\n"
    "local function try(...)\n"
    "  local done = redis.pcall(...)\n"
    "  if type(done) == 'table' and done.err then refused = done.err end\n"
    "end\n"
    "if window ~= '' then try('SET', ref, id, 'PX', window) end\n"
    "if anew then try('DEL', state) end\n"
    "if head ~= '' then\n"
    "  local value = id .. ' ' .. head .. data .. '}'\n"
    "  try('HSET', state, key, value, '\\0id', id, '\\0bytes', sum - old + #key + #value)\n"
    "elseif keys then\n"
    "  try('HDEL', state, key)\n"
    "  try('HSET', state, '\\0id', id, '\\0bytes', sum - old)\n"
    "end\n"
    "if said ~= '' then try('PUBLISH', room, id .. ' ' .. prev .. ' ' .. said) end\n"
    "if refused then return {id, 0, refused} end\n"
    "return {id, 0}\n";

enum { BEFORE_XADD = 8 /* of ARGV */ };

struct str redis_script_text(void)
{
    return redis_state_script(script);
}

/* --- what is asked for ---------------------------------------------------------------------- */

static bool deduplicated(const struct redis_script_config *config,
                         const struct roomlog_publish *what)
{
    return config->dedupe_ms != 0 && str_present(what->ref);
}

static bool in_state(const struct redis_script_config *config, const struct roomlog_publish *what)
{
    return config->state.max_keys != 0 && state_value_has_place(what->key);
}

bool redis_script_needed(const struct redis_script_config *config)
{
    return config->dedupe_ms != 0 || config->state.max_keys != 0 || config->announce;
}

bool redis_script_asked(const struct redis_script_config *config,
                        const struct roomlog_publish *what)
{
    return deduplicated(config, what) || in_state(config, what) || config->announce;
}

size_t redis_script_bytes_max(struct str key, const struct roomlog_publish *what)
{
    enum {
        COPIES = 2, /* of the data: the entry, and what is announced */
        REPEATS =
            8, /* of any other text: besides, the ref's key, and six times its length quoted */
        OVERHEAD = 4096
    };
    const size_t lens[] = {key.len, what->type.len, what->from.len, what->ref.len, what->key.len};
    if (what->data.len > (SIZE_MAX / 2 - OVERHEAD) / COPIES)
        return SIZE_MAX;
    size_t bytes = OVERHEAD + COPIES * what->data.len;
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        if (lens[i] > (SIZE_MAX - bytes) / REPEATS)
            return SIZE_MAX;
        bytes += REPEATS * lens[i];
    }
    return bytes;
}

/* --- words ---------------------------------------------------------------------------------- */

static void put(struct redis_script_ask *ask, struct str word)
{
    assert(ask->word_count < REDIS_CONN_WORDS_MAX);
    ask->words[ask->word_count++] = word;
}

static void put_field(struct redis_script_ask *ask, struct str name, struct str value)
{
    if (!str_present(value))
        return;
    put(ask, name);
    put(ask, value);
}

static struct str number(struct redis_script_ask *ask, uint64_t value)
{
    char *text = ask->numbers[ask->number_count++];
    int len = snprintf(text, sizeof(ask->numbers[0]), "%" PRIu64, value);
    return (struct str){text, (size_t)len};
}

static struct str own(struct redis_script_ask *ask, struct str text)
{
    assert(ask->owned_count < sizeof(ask->owned) / sizeof(ask->owned[0]));
    ask->owned[ask->owned_count++] = text;
    return text;
}

static struct str join(const struct str *parts, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    char *text = xalloc(len + 1);
    char *at = text;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len != 0)
            memcpy(at, parts[i].p, parts[i].len);
        at += parts[i].len;
    }
    return (struct str){text, len};
}

/* The length keeps user "a:b" with ref "c" and user "a" with ref "b:c" apart. */
static struct str ref_key(struct redis_script_ask *ask, struct str key,
                          const struct roomlog_publish *what)
{
    const struct str parts[] = {STR("{"), key,        STR("}:ref:"), number(ask, what->from.len),
                                STR(":"), what->from, STR(":"),      what->ref};
    return own(ask, join(parts, sizeof(parts) / sizeof(parts[0])));
}

/* In the room's slot, and nobody's: a ref's has a number there. */
static struct str no_key(struct redis_script_ask *ask, struct str key)
{
    const struct str parts[] = {STR("{"), key, STR("}:ref:none")};
    return own(ask, join(parts, sizeof(parts) / sizeof(parts[0])));
}

/* Five netstrings. */
static struct str announcement(struct redis_script_ask *ask, const struct roomlog_publish *what)
{
    const struct str texts[] = {what->type, what->data, what->from, what->ref, what->key};
    enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
    char lens[TEXTS][24];
    struct str parts[3 * TEXTS];
    for (size_t i = 0; i < TEXTS; i++) {
        bool there = str_present(texts[i]);
        int len = snprintf(lens[i], sizeof(lens[i]), there ? "%zu:" : "-", texts[i].len);
        parts[3 * i] = (struct str){lens[i], (size_t)len};
        parts[3 * i + 1] = texts[i];
        parts[3 * i + 2] = STR(",");
    }
    return own(ask, join(parts, 3 * TEXTS));
}

/* What follows XADD and the key. `limit` is MAXLEN's, or else MINID's; XADD takes only one. Returns
 * the place of the data among them, from 1. */
static size_t put_entry(struct redis_script_ask *ask, const struct roomlog_publish *what,
                        struct str keyword, struct str limit)
{
    size_t first = ask->word_count;
    if (limit.len != 0) {
        put(ask, keyword);
        put(ask, STR("~"));
        put(ask, limit);
    }
    put(ask, STR("*"));
    put_field(ask, STR("type"), what->type);
    put_field(ask, STR("data"), what->data);
    size_t data = ask->word_count - first;
    put_field(ask, STR("from"), what->from);
    put_field(ask, STR("ref"), what->ref);
    put_field(ask, STR("key"), what->key);
    return data;
}

/* EVALSHA up to XADD's words. Returns the word that is to say where the data is, or NULL. */
static struct str *put_script(struct redis_script_ask *ask,
                              const struct redis_script_config *config,
                              const struct redis_script_how *how, struct str key,
                              const struct roomlog_publish *what)
{
    bool once = deduplicated(config, what);
    bool state = in_state(config, what);
    put(ask, STR("EVALSHA"));
    put(ask, how->sha);
    put(ask, STR("3"));
    put(ask, key);
    put(ask, once ? ref_key(ask, key, what) : how->wary ? no_key(ask, key) : key);
    put(ask, state ? own(ask, redis_state_key(key)) : key);

    put(ask, once ? number(ask, config->dedupe_ms) : STR(""));
    put(ask, config->touch ? STR("1") : STR(""));
    put(ask, config->announce ? announcement(ask, what) : STR(""));
    if (!state) {
        for (int i = 0; i < 5; i++)
            put(ask, STR(""));
        return NULL;
    }
    put(ask, number(ask, config->state.max_keys));
    put(ask, number(ask, config->state.max_bytes));
    put(ask, what->key);
    put(ask, state_value_deletes(what->data) ? STR("") : own(ask, state_value_head(what)));
    put(ask, STR(""));
    return &ask->words[ask->word_count - 1];
}

/* The id below which entries are too old; empty: none can be. */
static struct str oldest_kept(struct redis_script_ask *ask, uint64_t max_age_ms, uint64_t wall_ms)
{
    if (max_age_ms == 0 || max_age_ms >= wall_ms)
        return (struct str){ask->minid, 0};
    struct stream_id id = {wall_ms - max_age_ms, 0};
    return (struct str){ask->minid, stream_id_format(id, ask->minid)};
}

void redis_script_ask(struct redis_script_ask *ask, const struct redis_script_config *config,
                      const struct redis_script_how *how, struct str key,
                      const struct roomlog_publish *what)
{
    static const struct str asking[] = {{"ASKING", 6}};
    ask->count = ask->word_count = ask->owned_count = ask->number_count = 0;
    struct str oldest = oldest_kept(ask, config->max_age_ms, how->wall_ms);
    struct str newest = {NULL, 0};
    struct str *data_is_at = NULL;
    if (config->max_entries != 0)
        newest = number(ask, config->max_entries);

    if (str_present(how->sha)) {
        data_is_at = put_script(ask, config, how, key, what);
    } else {
        put(ask, STR("XADD"));
        put(ask, key);
    }
    size_t data = newest.len != 0 ? put_entry(ask, what, STR("MAXLEN"), newest)
                                  : put_entry(ask, what, STR("MINID"), oldest);
    if (data_is_at != NULL)
        *data_is_at = number(ask, BEFORE_XADD + data);

    /* ASKING is for the next command alone, and the old can wait for the next append. */
    if (how->asking) {
        ask->commands[ask->count++] = (struct redis_words){asking, 1};
    } else if (newest.len != 0 && oldest.len != 0) {
        const struct str trim[] = {STR("XTRIM"), key, STR("MINID"), STR("~"), oldest};
        memcpy(ask->trim, trim, sizeof(trim));
        ask->commands[ask->count++] = (struct redis_words){ask->trim, 5};
    }
    ask->commands[ask->count++] = (struct redis_words){ask->words, ask->word_count};
}

void redis_script_ask_fini(struct redis_script_ask *ask)
{
    for (size_t i = 0; i < ask->owned_count; i++)
        free((char *)ask->owned[i].p);
    ask->owned_count = 0;
}

/* --- answers -------------------------------------------------------------------------------- */

/* [id, duplicate] or [id, duplicate, what was refused], or XADD's id alone. */
static bool answer_of(const struct redis_reply *reply, struct redis_script_answer *out)
{
    struct redis_reply_parts parts;
    struct redis_reply part;
    struct str id;
    long long duplicate = 0;
    *out = (struct redis_script_answer){.duplicate = false};
    if (!redis_reply_array(reply, &parts))
        return redis_reply_text(reply, &id) && stream_id_parse(id, &out->id);
    if (!redis_reply_part(&parts, &part) || !redis_reply_text(&part, &id) ||
        !stream_id_parse(id, &out->id) || !redis_reply_part(&parts, &part) ||
        !redis_reply_integer(&part, &duplicate))
        return false;
    out->duplicate = duplicate != 0;
    return !redis_reply_part(&parts, &part) ||
           (redis_reply_text(&part, &out->refused) && parts.left == 0);
}

/* Of what redis_reply_err has no more to say than that the log isn't available, or that it is an
 * error, what a publisher should be told. */
static const struct {
    const char *begins;
    enum rd_err err;
} refusals[] = {
    {"STATEFULL", RD_ESTATEFULL},
    {"LOADING", RD_ELOADING},
    {"BUSY", RD_EBLOCKED},
    {"MISCONF", RD_EUNSAVED},
    {"NOREPLICAS", RD_EREPLICAS},
    /* Somebody has used the highest: the room is dead until XSETID or DEL. */
    {"ERR The stream has exhausted the last possible", RD_ENOIDS},
};

enum rd_err redis_script_answer(const struct redis_reply *reply, struct redis_script_answer *out)
{
    if (answer_of(reply, out))
        return RD_OK;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (redis_reply_is(reply, refusals[i].begins))
            return refusals[i].err;
    enum rd_err err = redis_reply_err(reply);
    /* An answer that we can't read doesn't say that nothing was appended. */
    return err == RD_OK ? RD_EUNKNOWN : err;
}
