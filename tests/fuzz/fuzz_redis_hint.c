/* fuzz_redis_hint.c - any bytes as an announcement: what is taken is exactly what the publishing
 * script would have written of it. */
#include "roomlog/redis_hint.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Appends a netstring at *at. */
static void put(char *dst, size_t *at, struct str text)
{
    if (!str_present(text)) {
        memcpy(dst + *at, "-,", 2);
        *at += 2;
        return;
    }
    *at += (size_t)sprintf(dst + *at, "%zu:", text.len);
    memcpy(dst + *at, text.p, text.len);
    *at += text.len;
    dst[(*at)++] = ',';
}

static void check_same(const struct roomlog_entry *entry, struct str text)
{
    char *again = malloc(text.len + 256);
    check(again != NULL);
    size_t at = stream_id_format(entry->id, again);
    again[at++] = ' ';
    at += stream_id_format(entry->prev, again + at);
    again[at++] = ' ';
    put(again, &at, entry->type);
    put(again, &at, entry->data);
    put(again, &at, entry->from);
    put(again, &at, entry->ref);
    put(again, &at, entry->key);
    check(str_eq((struct str){again, at}, text));
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct roomlog_entry entry = {.id = {7, 8}};
    if (redis_hint_parse(text, &entry)) {
        check(stream_id_cmp(entry.prev, entry.id) < 0);
        check_same(&entry, text);
    } else {
        check(entry.id.ms == 7 && entry.id.seq == 8);
    }
    return 0;
}
