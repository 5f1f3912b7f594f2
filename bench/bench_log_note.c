#include "bench/bench_log_note.h"

#include <assert.h>
#include <string.h>

static const char SHAPE[] = "{\"run\":\"00000000\",\"n\":\"000000000000\","
                            "\"due\":\"0000000000000000\",\"sent\":\"0000000000000000\","
                            "\"pad\":\"";
static const char TAIL[] = "\"}";

enum {
    HEAD_LEN = sizeof(SHAPE) - 1,
    TAIL_LEN = sizeof(TAIL) - 1,
    RUN_AT = 8,
    RUN_DIGITS = 8,
    N_AT = RUN_AT + RUN_DIGITS + 7,
    N_DIGITS = 12,
    DUE_AT = N_AT + N_DIGITS + 9,
    SENT_AT = DUE_AT + 16 + 10,
    TIME_DIGITS = 16
};

_Static_assert(SENT_AT + TIME_DIGITS + 9 == HEAD_LEN && HEAD_LEN + TAIL_LEN <= BENCH_LOG_NOTE_MIN,
               "the places fit the shape");

static void put_digits(char *dst, unsigned digits, unsigned base, uint64_t value)
{
    for (unsigned i = digits; i-- > 0; value /= base)
        dst[i] = "0123456789abcdef"[value % base];
}

void bench_log_note_write(char *dst, size_t size, const struct bench_log_note *note)
{
    assert(size >= BENCH_LOG_NOTE_MIN && size <= BENCH_LOG_NOTE_MAX);
    memcpy(dst, SHAPE, HEAD_LEN);
    put_digits(dst + RUN_AT, RUN_DIGITS, 16, note->run);
    put_digits(dst + N_AT, N_DIGITS, 10, note->n);
    put_digits(dst + DUE_AT, TIME_DIGITS, 16, note->due_ns);
    put_digits(dst + SENT_AT, TIME_DIGITS, 16, note->sent_ns);
    memset(dst + HEAD_LEN, 'x', size - HEAD_LEN - TAIL_LEN);
    memcpy(dst + size - TAIL_LEN, TAIL, TAIL_LEN);
}

static bool get_digits(const char *src, unsigned digits, unsigned base, uint64_t *out_value)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < digits; i++) {
        unsigned digit = src[i] >= '0' && src[i] <= '9'   ? (unsigned)(src[i] - '0')
                         : src[i] >= 'a' && src[i] <= 'f' ? (unsigned)(src[i] - 'a') + 10
                                                          : 16;
        if (digit >= base)
            return false;
        value = value * base + digit;
    }
    *out_value = value;
    return true;
}

/* Is what stands from..to that of the shape? */
static bool same(const char *text, size_t from, size_t to)
{
    return memcmp(text + from, SHAPE + from, to - from) == 0;
}

bool bench_log_note_read(struct str text, struct bench_log_note *out_note)
{
    struct bench_log_note note = {0};
    uint64_t run;
    const char *p = text.p;
    if (!str_present(text) || text.len < BENCH_LOG_NOTE_MIN || !same(p, 0, RUN_AT) ||
        !same(p, RUN_AT + RUN_DIGITS, N_AT) || !same(p, N_AT + N_DIGITS, DUE_AT) ||
        !same(p, DUE_AT + TIME_DIGITS, SENT_AT) || !same(p, SENT_AT + TIME_DIGITS, HEAD_LEN) ||
        memcmp(p + text.len - TAIL_LEN, TAIL, TAIL_LEN) != 0)
        return false;
    if (!get_digits(p + RUN_AT, RUN_DIGITS, 16, &run) ||
        !get_digits(p + N_AT, N_DIGITS, 10, &note.n) ||
        !get_digits(p + DUE_AT, TIME_DIGITS, 16, &note.due_ns) ||
        !get_digits(p + SENT_AT, TIME_DIGITS, 16, &note.sent_ns))
        return false;
    note.run = (uint32_t)run;
    *out_note = note;
    return true;
}
