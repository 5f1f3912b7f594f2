/* fuzz_stream_id.c - any bytes as an id: what is taken is exactly what format would write. */
#include "protocol/stream_id.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct stream_id id = {7, 8};
    char again[STREAM_ID_TEXT_MAX];

    if (stream_id_parse(text, &id)) {
        size_t len = stream_id_format(id, again);
        check(str_eq((struct str){again, len}, text));
    } else {
        check(id.ms == 7 && id.seq == 8);
    }

    /* The other way: sixteen bytes are an id, which must survive its text. */
    if (size >= sizeof(id)) {
        struct stream_id back;
        memcpy(&id, data, sizeof(id));
        size_t len = stream_id_format(id, again);
        check(stream_id_parse((struct str){again, len}, &back) && stream_id_eq(id, back));
        check(stream_id_cmp(id, back) == 0);
    }
    return 0;
}
