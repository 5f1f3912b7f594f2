/* bench_codec.c - frames decoded and encoded per second, on one core.
 *
 * Each row is timed in batches for about half a second and tells the best batch, which is the one
 * that was disturbed least. The entry row is the one that counts: it is paid once for each entry
 * and room, while a decode is paid once for each frame that a client sends.
 */
#include "protocol/frame.h"
#include "protocol/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 2000, BATCHES_AT_LEAST = 5 };

static const double SECONDS = 0.5;

/* Where results go, so that no work is left out as useless. */
static volatile size_t sink;

/* What is timed, once. Returns something that depends on the work, so that none of it is left out.
 */
typedef size_t (*work_fn)(struct str input);

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void measure(const char *name, work_fn work, struct str input)
{
    double start = now();
    double best = 1e9;
    for (int batches = 0; batches < BATCHES_AT_LEAST || now() - start < SECONDS; batches++) {
        double before = now();
        for (int i = 0; i < BATCH; i++)
            sink = work(input);
        double each = (now() - before) / BATCH;
        best = each < best ? each : best;
    }
    printf("%-34s %6zu %10.0f %14.0f %10.1f\n", name, input.len, best * 1e9, 1 / best,
           (double)input.len / best / 1e6);
}

static size_t decode(struct str input)
{
    struct frame frame;
    struct frame_fault fault;
    if (!frame_decode(input, &frame, &fault))
        return (size_t)fault.code;
    size_t len = frame.room.len;
    frame_fini(&frame);
    return len;
}

static size_t encode(struct str data)
{
    static char dst[512 * 1024];
    struct frame_entry entry = {.id = {1700000000000, 12},
                                .prev = {1700000000000, 11},
                                .prev_known = true,
                                .type = STR("message"),
                                .ref = STR("0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"),
                                .data = data};
    return frame_put_entry(dst, sizeof(dst), STR("lobby"), &entry);
}

static size_t check(struct str text)
{
    return (size_t)json_check(text, FRAME_DEPTH_MAX);
}

/* {"text":"unit unit unit..."} of exactly len bytes. */
static struct str text_object(size_t len, const char *unit)
{
    static const char HEAD[] = "{\"text\":\"", TAIL[] = "\"}";
    size_t unit_len = strlen(unit);
    char *p = malloc(len);
    if (p == NULL)
        abort();
    memset(p, 'x', len);
    for (size_t at = sizeof(HEAD) - 1; at + unit_len <= len - (sizeof(TAIL) - 1); at += unit_len)
        memcpy(p + at, unit, unit_len);
    memcpy(p, HEAD, sizeof(HEAD) - 1);
    memcpy(p + len - (sizeof(TAIL) - 1), TAIL, sizeof(TAIL) - 1);
    return (struct str){p, len};
}

static struct str publish_of(struct str data)
{
    static const char FORMAT[] = "{\"op\":\"publish\",\"room\":\"lobby\",\"type\":\"message\","
                                 "\"ref\":\"0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0\",\"data\":%.*s}";
    size_t cap = data.len + sizeof(FORMAT);
    char *p = malloc(cap);
    if (p == NULL)
        abort();
    int len = snprintf(p, cap, FORMAT, (int)data.len, data.p);
    return (struct str){p, (size_t)len};
}

int main(void)
{
    struct str ascii = text_object(150, "the quick brown fox ");
    struct str accents = text_object(150, "\xc3\xa9t\xc3\xa9 \xe2\x82\xac ");
    struct str escapes = text_object(150, "say \\\"hi\\\"\\n");
    struct str large = text_object(64 * 1024, "the quick brown fox ");
    struct str numbers =
        STR("[1700000000123,-0.25,3.14159265358979,[1,2,3,4,5,6,7,8],{\"x\":12.5,"
            "\"y\":-7.25,\"z\":0},true,false,null,{\"a\":[1,[2,[3]]]},1e-7,100000]");
    struct str publish = publish_of(ascii);
    struct str publish_large = publish_of(text_object(60 * 1024, "the quick brown fox "));
    struct str escaped_type = STR("{\"op\":\"publish\",\"room\":\"lobby\",\"type\":\"caf\\u00e9\","
                                  "\"data\":1}");

    printf("%-34s %6s %10s %14s %10s\n", "", "bytes", "ns each", "per second", "MB/s");
    measure("entry out, ASCII data", encode, ascii);
    measure("entry out, accents in data", encode, accents);
    measure("entry out, escapes in data", encode, escapes);
    measure("entry out, numbers and brackets", encode, numbers);
    measure("entry out, data is no JSON", encode, (struct str){ascii.p, ascii.len - 1});
    measure("entry out, large data", encode, large);
    measure("join in", decode,
            STR("{\"op\":\"join\",\"room\":\"lobby\",\"cursor\":\"1700000000000-1\"}"));
    measure("ping in", decode, STR("{\"op\":\"ping\",\"t\":1700000000123}"));
    measure("publish in", decode, publish);
    measure("publish in, an escape in type", decode, escaped_type);
    measure("publish in, large", decode, publish_large);
    measure("fault in, not JSON", decode, STR("{\"op\":\"publish\",\"room\":\"lobby\",}"));
    measure("strict check alone", check, large);

    free((char *)ascii.p);
    free((char *)accents.p);
    free((char *)escapes.p);
    free((char *)large.p);
    free((char *)publish.p);
    free((char *)publish_large.p);
    return EXIT_SUCCESS;
}
