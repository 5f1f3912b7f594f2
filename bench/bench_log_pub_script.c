#include "bench/bench_log_host.h"
#include "bench/bench_log_pub_impl.h"
#include "bench/die.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { READY_SECONDS = 10, ANSWER_SECONDS = 10, REF_MAX = 64 };

struct bench_log_pub_script {
    struct bench_log_pub *pub;
    struct bench_log_host host;
    char *data;
    uint64_t under_way;
    uint64_t due_ns; /* of the batch that is next, */
    unsigned count;  /* and how many it has; */
    bool more;       /* false: all were sent */
};

struct request {
    struct roomlog_append append;
    struct bench_log_pub_script *script;
};

static void on_done(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                    bool duplicate)
{
    struct request *request = RD_CONTAINER(append, struct request, append);
    struct bench_log_pub_script *script = request->script;
    free(request);
    script->under_way--;
    if (err != RD_OK)
        bench_log_pub_fail(script->pub, rd_err_text(err));
    if (duplicate)
        bench_log_pub_fail(script->pub, "a ref was there already");
}

static void publish(struct bench_log_pub_script *script, unsigned room, uint64_t now)
{
    struct bench_log_pub *pub = script->pub;
    char name[BENCH_LOG_PUB_ROOM_MAX];
    char ref[REF_MAX];
    bench_log_pub_data(pub, room, script->due_ns, now, script->data, pub->options->size);
    (void)snprintf(ref, sizeof(ref), "%08" PRIx32 "-%u-%" PRIu64, pub->run, room,
                   pub->shared->each[room]);
    const struct roomlog_publish what = {
        .type = STR("bench"), .data = {script->data, pub->options->size}, .ref = str_from(ref)};
    struct request *request = die_if_null(calloc(1, sizeof(*request)));
    request->script = script;
    request->append.done = on_done;
    enum rd_err err = roomlog_append(script->host.log, bench_log_pub_room(pub->run, room, name),
                                     &what, &request->append);
    if (err != RD_OK)
        bench_log_pub_fail(pub, rd_err_text(err));
    script->under_way++;
}

static void next(struct bench_log_pub_script *script, struct bench_log_pub_schedule *schedule)
{
    do
        script->more = bench_log_pub_next_batch(schedule, &script->due_ns, &script->count);
    while (script->more && script->count == 0);
}

static bool all_answered(void *arg)
{
    const struct bench_log_pub_script *script = arg;
    return script->under_way == 0;
}

struct bench_log_pub_script *bench_log_pub_script_open(struct bench_log_pub *pub)
{
    struct bench_log_pub_script *script = die_if_null(calloc(1, sizeof(*script)));
    script->pub = pub;
    script->data = die_if_null(malloc(pub->options->size));
    bench_log_host_open(&script->host, pub->options);
    if (!bench_log_host_wait_ready(&script->host, READY_SECONDS))
        bench_log_pub_fail(pub, "the log isn't ready");
    return script;
}

void bench_log_pub_script_run(struct bench_log_pub_script *script,
                              struct bench_log_pub_schedule *schedule)
{
    for (next(script, schedule); script->more; next(script, schedule)) {
        bench_log_host_turn_until(&script->host, script->due_ns);
        uint64_t now = clock_now_ns();
        for (unsigned i = 0; i < script->count; i++)
            publish(script, bench_log_pub_next_room(schedule), now);
        hist_add(&script->pub->shared->late, now > script->due_ns ? now - script->due_ns : 0);
    }
    if (!bench_log_host_wait(&script->host, all_answered, script, ANSWER_SECONDS))
        bench_log_pub_fail(script->pub, "publishes were not answered");
}
