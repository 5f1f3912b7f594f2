/* fuzz_frame.c - any bytes as a client's frame, and any bytes as an entry out of the log.
 *
 * A client's text either decodes to a frame that keeps every limit, or gets a fault that can be
 * sent. Whatever another program wrote into the log goes out as strict JSON.
 */
#include "protocol/frame.h"

#include "protocol/json.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says which promise was broken: a bare abort() in a saved input's replay would not. */
#define CHECK(holds)                                                                               \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static bool is_text(struct str s, size_t max)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    }
    return s.len >= 1 && s.len <= max && json_utf8_valid(s);
}

static bool is_absent_or_text(struct str s, size_t max)
{
    return !str_present(s) || is_text(s, max);
}

/* Encodes twice, into a block of exactly the length needed: it must be JSON, and nothing else. */
static void check_entry(struct str room, const struct frame_entry *entry)
{
    size_t need = frame_put_entry(NULL, 0, room, entry);
    char *dst = malloc(need);
    CHECK(dst != NULL);
    CHECK(frame_put_entry(dst, need, room, entry) == need);
    CHECK(json_check((struct str){dst, need}, JSON_DEPTH_MAX) != JSON_BAD);
    struct json_member members[10];
    size_t count = json_members((struct str){dst, need}, members, 10);
    CHECK(count >= 6 && count <= 9);
    CHECK(str_eq(members[count - 1].key, STR("data")));
    free(dst);
}

static void check_join(const struct frame_join *join)
{
    CHECK(join->last <= FRAME_LAST_MAX);
    CHECK((join->start == FRAME_START_CURSOR) == !stream_id_is_zero(join->cursor));
    CHECK(join->start != FRAME_START_LAST || join->last > 0);
    CHECK(join->start != FRAME_START_NEW || join->last == 0);
    CHECK(join->start != FRAME_START_ALL || join->last == 0);
}

static void check_publish(const struct frame *frame)
{
    const struct frame_publish *publish = &frame->publish;
    CHECK(is_text(publish->type, FRAME_TYPE_MAX));
    CHECK(is_absent_or_text(publish->ref, FRAME_REF_MAX));
    CHECK(is_absent_or_text(publish->key, FRAME_KEY_MAX));
    CHECK(json_check(publish->data, FRAME_DEPTH_MAX - 1) == JSON_OK);
    check_entry(frame->room, &(struct frame_entry){.id = STREAM_ID_MAX,
                                                   .type = publish->type,
                                                   .data = publish->data,
                                                   .ref = publish->ref,
                                                   .key = publish->key});
}

static void check_pong(struct str t)
{
    size_t need = frame_put_pong(NULL, 0, t);
    char *dst = malloc(need);
    CHECK(dst != NULL);
    CHECK(frame_put_pong(dst, need, t) == need);
    CHECK(json_check((struct str){dst, need}, 1) == JSON_OK); /* a scalar: one object, no more */
    free(dst);
}

static void check_frame(const struct frame *frame)
{
    bool roomless = frame->op == FRAME_AUTH || frame->op == FRAME_PING;
    CHECK(roomless ? !str_present(frame->room) : frame_room_name_valid(frame->room));
    switch (frame->op) {
    case FRAME_JOIN:
        check_join(&frame->join);
        break;
    case FRAME_PUBLISH:
    case FRAME_SIGNAL:
        check_publish(frame);
        break;
    case FRAME_AUTH:
        CHECK(is_text(frame->token, FRAME_TOKEN_MAX));
        break;
    case FRAME_PING:
        check_pong(frame->t);
        break;
    case FRAME_LEAVE:
        break;
    case FRAME_NONE:
        CHECK(!"a decoded frame has an op");
    }
}

static void check_fault(const struct frame_fault *fault)
{
    struct str room = str_from(fault->room);
    struct str ref = str_from(fault->ref);
    CHECK(fault->reason[0] != '\0');
    CHECK((fault->op == FRAME_NONE) == (fault->code != CODE_BAD_FIELD));
    CHECK(room.len == 0 || frame_room_name_valid(room));
    CHECK(ref.len == 0 || is_text(ref, FRAME_REF_MAX));
    CHECK(fault->op == FRAME_PUBLISH || ref.len == 0);
}

/* The first byte says how long type and ref are; data is the rest. */
static void check_foreign_entry(const char *p, size_t size)
{
    size_t type_len = size > 0 ? (unsigned char)p[0] >> 4 : 0;
    size_t ref_len = size > 0 ? (unsigned char)p[0] & 15 : 0;
    if (size < 1 + type_len + ref_len)
        return;
    const char *ref = p + 1 + type_len;
    struct frame_entry entry = {
        .id = {1, 0},
        .prev_known = true,
        .type = {p + 1, type_len},
        .ref = {ref, ref_len},
        .data = {ref + ref_len, size - 1 - type_len - ref_len},
    };
    check_entry(STR("lobby"), &entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct frame frame;
    struct frame_fault fault;

    if (frame_decode(text, &frame, &fault)) {
        check_frame(&frame);
        frame_fini(&frame);
    } else {
        check_fault(&fault);
    }
    check_foreign_entry(text.p, text.len);
    return 0;
}
