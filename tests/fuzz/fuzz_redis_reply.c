/* fuzz_redis_reply.c - any bytes as what Redis says.
 *
 * They go through redis_scan, whole and cut into pieces that the bytes themselves choose: what
 * comes out must be the same, and the same as hiredis' reader makes of them. Each reply then goes
 * through everything that reads replies. Whatever is accepted keeps the promises that the feed
 * rests on: ids only grow, each entry is chained to the one before it, a log that is empty has no
 * first entry.
 *
 * Where the two readers may differ: hiredis takes no more than some arrays inside each other; it
 * lets any two bytes end a bulk string, and a line be of any length; a later one knows RESP3, and
 * lets no status have a CR in it.
 */
#include "roomlog/redis_reply.h"
#include "roomlog/redis_script.h"

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

static void check_range(const struct redis_reply *reply, enum redis_reply_order order)
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

static void check_reply(const struct redis_reply *reply)
{
    struct verdict_info info;
    struct redis_script_answer answer;
    const struct redis_state_limits limits = {10, 1000};
    struct redis_state state;
    struct str text = {NULL, 0};
    char error[32];
    size_t bytes = 0;
    size_t count = 0;
    long long number = 0;

    bool failed = redis_reply_err(reply) != RD_OK;
    CHECK(redis_reply_error_text(reply, error, sizeof(error)) == failed);
    CHECK(!redis_reply_exec_refused(reply) || failed);
    CHECK(!redis_reply_integer(reply, &number) || !failed);
    CHECK(!redis_reply_text(reply, &text) || !failed);
    enum rd_err append = redis_script_answer(reply, &answer);
    CHECK((append != RD_OK && append != RD_EUNKNOWN) == failed);
    (void)redis_state_guard(reply, &limits);
    CHECK(!redis_state_take(reply, &state) || state.view.count == 0 ||
          str_present(state.view.items[0].data));
    redis_state_fini(&state);
    if (redis_reply_info(reply, &info, &bytes))
        check_info(&info);
    check_range(reply, REDIS_REPLY_ASCENDING);
    check_range(reply, REDIS_REPLY_DESCENDING);
    if (redis_reply_bell(reply, &count) != REDIS_REPLY_KEYS)
        CHECK(count == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(redis_reply_bell_key(reply, i).p != NULL);
    CHECK(count == 0 || redis_reply_push(reply));
}

/* --- beside hiredis ------------------------------------------------------------------------- */

static const int their_type[] = {
    [REDIS_SCAN_TEXT] = REDIS_REPLY_STRING, [REDIS_SCAN_STATUS] = REDIS_REPLY_STATUS,
    [REDIS_SCAN_ERROR] = REDIS_REPLY_ERROR, [REDIS_SCAN_INTEGER] = REDIS_REPLY_INTEGER,
    [REDIS_SCAN_ARRAY] = REDIS_REPLY_ARRAY, [REDIS_SCAN_NIL] = REDIS_REPLY_NIL,
};

static void check_same(const struct redis_reply *ours, const redisReply *theirs)
{
    struct redis_reply_parts parts;
    struct redis_reply part;
    long long number = 0;
    const struct redis_scan_node *node = &ours->nodes[ours->at];
    CHECK(their_type[node->type] == theirs->type);
    if (redis_reply_integer(ours, &number))
        CHECK(number == theirs->integer);
    if (node->type <= REDIS_SCAN_ERROR) {
        CHECK(node->text.len == theirs->len);
        CHECK(memcmp(ours->base + node->text.at, theirs->str, theirs->len) == 0);
    }
    if (!redis_reply_array(ours, &parts))
        return;
    CHECK(parts.left == theirs->elements);
    for (size_t i = 0; redis_reply_part(&parts, &part); i++)
        check_same(&part, theirs->element[i]);
}

/* May it be refused by us alone, or by them alone? */
static bool may_differ(const struct redis_scan *scan, const redisReader *reader)
{
    if (reader->err != 0)
        return strstr(reader->errstr, "nested") != NULL ||
               strstr(reader->errstr, "simple string") != NULL;
    static const char *const stricter[] = {"longer than it said", "RESP2", "too long", "too many"};
    for (size_t i = 0; i < sizeof(stricter) / sizeof(stricter[0]); i++)
        if (strstr(scan->reason, stricter[i]) != NULL)
            return true;
    return false;
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

/* Every node of a scan in pieces is that of the scan in one. */
static void check_equal_scans(const struct redis_scan *a, const struct redis_scan *b)
{
    CHECK(a->count == b->count && a->at == b->at);
    for (size_t i = 0; i < a->count; i++) {
        const struct redis_scan_node *x = &a->nodes[i];
        const struct redis_scan_node *y = &b->nodes[i];
        CHECK(x->type == y->type && x->next == y->next);
        CHECK(x->next > i && x->next <= a->count);
        if (x->type == REDIS_SCAN_INTEGER)
            CHECK(x->integer == y->integer);
        else if (x->type == REDIS_SCAN_ARRAY)
            CHECK(x->count == y->count);
        else if (x->type != REDIS_SCAN_NIL)
            CHECK(x->text.at == y->text.at && x->text.len == y->text.len && x->text.len <= a->at &&
                  x->text.at <= a->at - x->text.len);
    }
}

/* As redis_scan_run over the whole text, but in pieces, each in a block of its own. */
static enum redis_scan_verdict run_in_pieces(struct redis_scan *scan, struct str text)
{
    enum redis_scan_verdict verdict = REDIS_SCAN_MORE;
    uint32_t random = 2166136261u;
    for (size_t len = 0; verdict == REDIS_SCAN_MORE && len < text.len;) {
        random = (random ^ (uint32_t)(unsigned char)text.p[len]) * 16777619u;
        len += 1 + (random >> 8) % (1u + (random >> 28) * 8u);
        if (len > text.len)
            len = text.len;
        char *piece = malloc(len);
        CHECK(piece != NULL);
        memcpy(piece, text.p, len);
        verdict = redis_scan_run(scan, (struct str){piece, len});
        free(piece);
    }
    return verdict;
}

/* One reply at the head of text. Returns its length; 0: there is none, or no more. */
static size_t check_one(struct redis_scan *scan, redisReader *reader, struct str text)
{
    struct redis_scan pieces;
    void *theirs = NULL;
    redis_scan_init(&pieces);
    enum redis_scan_verdict verdict = redis_scan_run(scan, text);
    if (text.len != 0)
        CHECK(run_in_pieces(&pieces, text) == verdict);
    bool fine = redisReaderGetReply(reader, &theirs) == REDIS_OK;
    size_t len = 0;

    if (verdict == REDIS_SCAN_WHOLE) {
        struct redis_reply reply = redis_reply_of(scan, text.p);
        check_equal_scans(scan, &pieces);
        check_reply(&reply);
        if (theirs != NULL)
            check_same(&reply, theirs);
        else
            CHECK(!fine && may_differ(scan, reader));
        len = theirs != NULL ? scan->at : 0;
    } else if (verdict == REDIS_SCAN_BROKEN) {
        /* They wait for a line's end first. */
        CHECK(!fine || theirs == NULL || may_differ(scan, reader));
    } else {
        CHECK(verdict == REDIS_SCAN_MORE || verdict == REDIS_SCAN_OVER);
        CHECK(theirs == NULL && (fine || may_differ(scan, reader)));
    }
    if (theirs != NULL)
        freeReplyObject(theirs);
    redis_scan_fini(&pieces);
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (announces_too_much(data, size))
        return 0;
    struct redis_scan scan;
    struct str text = {(const char *)data, size};
    redisReader *reader = redisReaderCreate();
    CHECK(reader != NULL);
    CHECK(redisReaderFeed(reader, text.p, text.len) == REDIS_OK);
    redis_scan_init(&scan);
    for (size_t len; (len = check_one(&scan, reader, text)) != 0;) {
        text = (struct str){text.p + len, text.len - len};
        redis_scan_next(&scan);
    }
    redis_scan_fini(&scan);
    redisReaderFree(reader);
    return 0;
}
