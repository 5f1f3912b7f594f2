#include "bench/payload.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    RUN_DIGITS = 8,
    T_DIGITS_MAX = 19, /* what fits into 64 bits whatever the digits */
    FILL = 'x'
};

static const char HEAD[] = "{\"run\":\"";
static const char TIME[] = "\",\"t\":";
static const char PAD[] = ",\"pad\":\"";
static const char TAIL[] = "\"}";

void payload_write(char *dst, size_t size, uint32_t run, uint64_t t_ns)
{
    assert(size >= PAYLOAD_MIN && size <= PAYLOAD_MAX);
    char front[PAYLOAD_MIN + 1];
    int len = snprintf(front, sizeof(front), "%s%08" PRIx32 "%s%" PRIu64 "%s", HEAD, run, TIME,
                       t_ns, PAD);
    size_t tail_len = sizeof(TAIL) - 1;
    assert(len > 0 && (size_t)len + tail_len <= PAYLOAD_MIN);
    memcpy(dst, front, (size_t)len);
    memset(dst + len, FILL, size - (size_t)len - tail_len);
    memcpy(dst + size - tail_len, TAIL, tail_len);
}

static bool eat(const char **p, const char *end, const char *literal, size_t len)
{
    if ((size_t)(end - *p) < len || memcmp(*p, literal, len) != 0)
        return false;
    *p += len;
    return true;
}

static bool eat_run(const char **p, const char *end, uint32_t *out_run)
{
    if (end - *p < RUN_DIGITS)
        return false;
    uint32_t run = 0;
    for (int i = 0; i < RUN_DIGITS; i++) {
        char c = (*p)[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
        run = run << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *p += RUN_DIGITS;
    *out_run = run;
    return true;
}

static bool eat_time(const char **p, const char *end, uint64_t *out_t)
{
    const char *start = *p;
    uint64_t t = 0;
    while (*p < end && **p >= '0' && **p <= '9' && *p - start < T_DIGITS_MAX)
        t = t * 10 + (uint64_t)(*(*p)++ - '0');
    *out_t = t;
    return *p > start && (*start != '0' || *p == start + 1);
}

/* Is everything from p on the padding character? Each byte is compared with its neighbour. */
static bool all_fill(const char *p, size_t len)
{
    return len == 0 || (p[0] == FILL && memcmp(p, p + 1, len - 1) == 0);
}

bool payload_read(struct str text, uint32_t *out_run, uint64_t *out_t_ns)
{
    const char *p = text.p;
    const char *end = text.p + text.len;
    uint32_t run;
    uint64_t t;
    if (!eat(&p, end, HEAD, sizeof(HEAD) - 1) || !eat_run(&p, end, &run) ||
        !eat(&p, end, TIME, sizeof(TIME) - 1) || !eat_time(&p, end, &t) ||
        !eat(&p, end, PAD, sizeof(PAD) - 1))
        return false;
    size_t tail_len = sizeof(TAIL) - 1;
    if ((size_t)(end - p) < tail_len || memcmp(end - tail_len, TAIL, tail_len) != 0)
        return false;
    if (!all_fill(p, (size_t)(end - p) - tail_len))
        return false;
    *out_run = run;
    *out_t_ns = t;
    return true;
}
