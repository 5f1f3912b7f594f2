#include "roomlog/redis_durable.h"

#include <inttypes.h>
#include <stdio.h>

static struct str number(char dst[24], uint64_t value)
{
    int len = snprintf(dst, 24, "%" PRIu64, value);
    return (struct str){dst, (size_t)len};
}

void redis_durable_ask(struct redis_durable_ask *ask, const struct redis_durable *durable,
                       uint64_t wait_ms)
{
    size_t count = 0;
    if (durable->kind == REDIS_DURABLE_DISK) {
        ask->words[count++] = STR("WAITAOF");
        ask->words[count++] = STR("1");
        ask->words[count++] = STR("0");
    } else {
        ask->words[count++] = STR("WAIT");
        ask->words[count++] = number(ask->numbers[0], durable->replicas);
    }
    ask->words[count++] = number(ask->numbers[1], wait_ms);
    ask->command = (struct redis_words){ask->words, count};
}

bool redis_durable_holds(const struct redis_durable *durable, const struct redis_reply *reply)
{
    struct redis_reply_parts parts;
    struct redis_reply local;
    long long count;
    if (durable->kind == REDIS_DURABLE_DISK)
        return redis_reply_array(reply, &parts) && redis_reply_part(&parts, &local) &&
               redis_reply_integer(&local, &count) && count >= 1;
    return redis_reply_integer(reply, &count) && count >= (long long)durable->replicas;
}
