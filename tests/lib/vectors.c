#include "tests/lib/vectors.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

cJSON *vectors_load(const char *name)
{
    /* The build says where they are; by hand, tests run at the root of the source tree. */
    const char *folder = getenv("ROOMD_VECTORS");
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder != NULL ? folder : "protocol/vectors", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "can't open %s", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    ck_assert_int_gt(size, 0);
    rewind(file);

    char *text = malloc((size_t)size);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    cJSON *root = cJSON_ParseWithLength(text, (size_t)size);
    free(text);
    ck_assert_msg(cJSON_IsObject(root), "%s is no JSON object", path);
    return root;
}

const cJSON *vectors_array(const cJSON *object, const char *member)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, member);
    ck_assert_msg(cJSON_IsArray(array) && array->child != NULL, "no array, or an empty one: %s",
                  member);
    return array;
}

struct str vectors_str(const cJSON *object, const char *member)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
    return cJSON_IsString(item) ? str_from(item->valuestring) : (struct str){0};
}

static char *block(size_t len)
{
    /* malloc(0) may return NULL, which would mean absent. */
    char *p = malloc(len > 0 ? len : 1);
    ck_assert_ptr_nonnull(p);
    return p;
}

struct str vectors_copy(struct str text)
{
    struct str copy = {block(text.len), text.len};
    if (text.len > 0)
        memcpy((char *)copy.p, text.p, text.len);
    return copy;
}

static struct str from_hex(struct str hex)
{
    ck_assert_uint_eq(hex.len % 2, 0);
    char *bytes = block(hex.len / 2);
    for (size_t i = 0; i < hex.len / 2; i++) {
        unsigned byte;
        ck_assert_int_eq(sscanf(hex.p + 2 * i, "%2x", &byte), 1);
        bytes[i] = (char)byte;
    }
    return (struct str){bytes, hex.len / 2};
}

struct str vectors_bytes(const cJSON *object, const char *member)
{
    char hex_member[64];
    snprintf(hex_member, sizeof(hex_member), "%s_hex", member);
    struct str text = vectors_str(object, member);
    struct str hex = vectors_str(object, hex_member);
    if (str_present(hex))
        return from_hex(hex);
    return str_present(text) ? vectors_copy(text) : text;
}

void vectors_free(struct str text)
{
    free((char *)text.p);
}

long vectors_number(const cJSON *object, const char *member)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
    ck_assert_msg(cJSON_IsNumber(item), "no number: %s", member);
    ck_assert_double_eq(item->valuedouble, (double)(long)item->valuedouble);
    return (long)item->valuedouble;
}

struct stream_id vectors_id(const cJSON *object, const char *member)
{
    struct str text = vectors_str(object, member);
    struct stream_id id;
    int used = -1;
    ck_assert_msg(str_present(text), "no id: %s", member);
    ck_assert_int_eq(sscanf(text.p, "%" SCNu64 "-%" SCNu64 "%n", &id.ms, &id.seq, &used), 2);
    ck_assert_uint_eq((size_t)used, text.len);
    return id;
}
