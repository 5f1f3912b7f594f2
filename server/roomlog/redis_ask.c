#include "roomlog/redis_ask.h"

#include <stdio.h>

/* pcall, so that a missing key or a wrong type comes back in its place, as inside EXEC. */
static const char both[] = "return {redis.pcall('XINFO', 'STREAM', KEYS[1]),\n"
                           "  redis.pcall(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'COUNT', ARGV[4])}\n";

static const struct str multi[] = {{"MULTI", 5}};
static const struct str exec[] = {{"EXEC", 4}};
static const struct str asking[] = {{"ASKING", 6}};

static void add(struct redis_ask *ask, const struct str *words, size_t count)
{
    ask->commands[ask->count++] = (struct redis_words){words, count};
}

static void put_info(struct redis_ask *ask, struct str key)
{
    ask->info[0] = STR("XINFO");
    ask->info[1] = STR("STREAM");
    ask->info[2] = key;
}

void redis_ask_info(struct redis_ask *ask, struct str key)
{
    ask->count = 0;
    put_info(ask, key);
    add(ask, ask->info, 3);
}

void redis_ask_range(struct redis_ask *ask, enum redis_ask_how how,
                     const struct redis_ask_range *what)
{
    bool up = what->order == REDIS_REPLY_ASCENDING;
    struct str from = {ask->id, stream_id_format(what->from, ask->id)};
    int len = snprintf(ask->number, sizeof(ask->number), "%zu", what->count);
    struct str count = {ask->number, (size_t)len};
    struct str name = up ? STR("XRANGE") : STR("XREVRANGE");
    struct str first = up ? from : STR("+");
    struct str last = up ? STR("+") : STR("-");

    ask->count = 0;
    if (how == REDIS_ASK_SCRIPT) {
        struct str *words = ask->script;
        words[0] = STR("EVAL");
        words[1] = STR(both);
        words[2] = STR("1");
        words[3] = what->key;
        words[4] = name;
        words[5] = first;
        words[6] = last;
        words[7] = count;
        add(ask, words, 8);
        return;
    }
    put_info(ask, what->key);
    ask->range[0] = name;
    ask->range[1] = what->key;
    ask->range[2] = first;
    ask->range[3] = last;
    ask->range[4] = STR("COUNT");
    ask->range[5] = count;
    if (how == REDIS_ASK_PLAIN) {
        add(ask, ask->range, 6);
        return;
    }
    add(ask, multi, 1);
    add(ask, ask->info, 3);
    add(ask, ask->range, 6);
    add(ask, exec, 1);
}

/* ASKING holds for the next command, or for all of a MULTI. */
void redis_ask_ahead(struct redis_ask *ask)
{
    for (size_t i = ask->count; i != 0; i--)
        ask->commands[i] = ask->commands[i - 1];
    ask->commands[0] = (struct redis_words){asking, 1};
    ask->count++;
}
