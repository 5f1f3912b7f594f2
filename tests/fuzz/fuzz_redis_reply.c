/* fuzz_redis_reply.c - any bytes as what Redis says.
 *
 * They go through hiredis' reader, and each reply that comes out through everything that reads
 * replies. Whatever is accepted keeps the promises that the feed rests on: ids only grow, each
 * entry is chained to the one before it, a log that is empty has no first entry.
 */
#define redis_reply redisReply
#include "roomlog/redis_reply.h"

#include <hiredis/hiredis.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DIGITS_MAX = 6 };

#define CHECK(holds)                                                                               \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_entries(const struct redis_reply_entries *entries)
{
    CHECK(entries->count <= entries->capacity);
    for (size_t i = 0; i < entries->count; i++) {
        const struct roomlog_entry *e = &entries->p[i];
        CHECK(roomlog_entry_bytes(e) >= e->data.len);
        CHECK(e->prev_known == (i != 0));
        if (i == 0)
            continue;
        CHECK(stream_id_eq(e->prev, e[-1].id));
        CHECK(stream_id_cmp(e->prev, e->id) < 0);
    }
}

static void check_info(const struct verdict_info *info)
{
    CHECK(info->exists || (info->length == 0 && stream_id_is_zero(info->last)));
    CHECK((info->length == 0) == stream_id_is_zero(info->first));
}

static void check_range(const redisReply *reply, enum redis_reply_order order)
{
    struct redis_reply_entries entries = {.p = NULL};
    struct verdict_info info;
    size_t bytes = 0;
    enum rd_err err;

    if (!redis_reply_range(reply, order, &entries))
        CHECK(entries.count == 0);
    check_entries(&entries);
    bool ok = redis_reply_exec(reply, order, &info, &bytes, &entries, &err);
    CHECK(ok == (err == RD_OK));
    if (ok) {
        check_entries(&entries);
        check_info(&info);
        const struct stream_id *first = entries.count != 0 ? &entries.p[0].id : NULL;
        for (size_t i = 0; i < entries.count; i++)
            (void)verdict_of(entries.p[i].id, first, &info);
    }
    redis_reply_entries_fini(&entries);
}

static void check_reply(const redisReply *reply)
{
    struct verdict_info info;
    struct stream_id id;
    struct str text = {NULL, 0};
    char error[32];
    size_t bytes = 0;
    size_t count = 0;
    bool duplicate = false;
    long long number = 0;

    bool failed = redis_reply_err(reply) != RD_OK;
    CHECK(redis_reply_error_text(reply, error, sizeof(error)) == failed);
    CHECK(!redis_reply_exec_refused(reply) || failed);
    CHECK(!redis_reply_integer(reply, &number) || !failed);
    CHECK(!redis_reply_text(reply, &text) || !failed);
    CHECK(!redis_reply_appended(reply, &id, &duplicate) || !failed);
    if (redis_reply_info(reply, &info, &bytes))
        check_info(&info);
    check_range(reply, REDIS_REPLY_ASCENDING);
    check_range(reply, REDIS_REPLY_DESCENDING);
    if (redis_reply_bell(reply, &count) != REDIS_REPLY_KEYS)
        CHECK(count == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(redis_reply_bell_key(reply, i).p != NULL);
}

/* hiredis makes room for all elements that an array announces: gigabytes would only be slow. */
static bool announces_too_much(const uint8_t *data, size_t size)
{
    bool array = false;
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '*' || data[i] == '\r') {
            array = data[i] == '*';
            digits = 0;
        } else if (array && data[i] >= '0' && data[i] <= '9' && ++digits > DIGITS_MAX) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (announces_too_much(data, size))
        return 0;
    redisReader *reader = redisReaderCreate();
    CHECK(reader != NULL);
    void *reply = NULL;
    if (redisReaderFeed(reader, (const char *)data, size) == REDIS_OK) {
        while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
            check_reply(reply);
            freeReplyObject(reply);
            reply = NULL;
        }
    }
    redisReaderFree(reader);
    return 0;
}
