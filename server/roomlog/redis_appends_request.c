#include "roomlog/redis_appends_impl.h"

#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_ways.h"

#include <assert.h>
#include <stdlib.h>

#define TO(stage) (1u << (stage))
static const unsigned stage_moves[REDIS_APPENDS_STAGES] = {
    [REDIS_APPENDS_NEW] = TO(REDIS_APPENDS_WAITING) | TO(REDIS_APPENDS_HELD_UP),
    [REDIS_APPENDS_WAITING] = TO(REDIS_APPENDS_SENT) | TO(REDIS_APPENDS_HELD_UP),
    [REDIS_APPENDS_SENT] = TO(REDIS_APPENDS_WAITING) | TO(REDIS_APPENDS_HELD) |
                           TO(REDIS_APPENDS_AGAIN) | TO(REDIS_APPENDS_HELD_UP),
    [REDIS_APPENDS_HELD] = 0,
    [REDIS_APPENDS_AGAIN] = TO(REDIS_APPENDS_WAITING),
    [REDIS_APPENDS_HELD_UP] = TO(REDIS_APPENDS_WAITING),
};
#undef TO

/* --- requests ------------------------------------------------------------------------------- */

static struct str copy(char **at, struct str text)
{
    if (!str_present(text))
        return text;
    if (text.len != 0)
        memcpy(*at, text.p, text.len);
    struct str copied = {*at, text.len};
    *at += text.len;
    return copied;
}

size_t redis_appends_text_bytes(const struct roomlog_publish *what)
{
    return what->type.len + what->data.len + what->from.len + what->ref.len + what->key.len;
}

/* Counts it where it is from now on. */
void redis_appends_enter(struct redis_appends *appends, struct redis_appends_request *request)
{
    request->appends = appends;
    request->bucket = (unsigned)(strmap_hash(request->key, appends->seed) % REDIS_APPENDS_BUCKETS);
    appends->in_flight++;
    appends->bytes += redis_appends_text_bytes(&request->what);
    appends->asked_for += request->append != NULL;
}

void redis_appends_leave(struct redis_appends_request *request)
{
    struct redis_appends *appends = request->appends;
    appends->in_flight--;
    appends->bytes -= redis_appends_text_bytes(&request->what);
    appends->asked_for -= request->append != NULL;
}

struct redis_appends_request *redis_appends_create(struct redis_appends *appends, struct str key,
                                                   const struct roomlog_publish *what,
                                                   struct roomlog_append *append)
{
    struct redis_appends_request *request =
        xalloc(sizeof(*request) + key.len + redis_appends_text_bytes(what));
    *request = (struct redis_appends_request){.append = append, .stage = REDIS_APPENDS_NEW};
    list_init(&request->link);
    char *at = request->bytes;
    request->key = copy(&at, key);
    request->what.type = copy(&at, what->type);
    request->what.data = copy(&at, what->data);
    request->what.from = copy(&at, what->from);
    request->what.ref = copy(&at, what->ref);
    request->what.key = copy(&at, what->key);
    redis_appends_enter(appends, request);
    return request;
}

static bool waits(enum redis_appends_stage stage)
{
    return stage == REDIS_APPENDS_WAITING || stage == REDIS_APPENDS_HELD_UP;
}

void redis_appends_move(struct redis_appends_request *request, enum redis_appends_stage stage)
{
    struct redis_appends *appends = request->appends;
    assert((stage_moves[request->stage] & (1u << stage)) != 0);
    if (waits(request->stage))
        metrics_dec(appends->metrics, M_PUBLISHES_WAITING);
    if (waits(stage))
        metrics_inc(appends->metrics, M_PUBLISHES_WAITING);
    request->stage = stage;
    list_remove(&request->link);
}

void redis_appends_wait(struct redis_appends_request *request)
{
    if (request->way == NULL)
        request->due_ms = 0;
    list_push_back(&request->appends->waiting, &request->link);
}

void redis_appends_finish(struct redis_appends_request *request, enum rd_err err)
{
    struct roomlog_append *append = request->append;
    struct redis_script_answer answer = request->answer;
    if (waits(request->stage))
        metrics_dec(request->appends->metrics, M_PUBLISHES_WAITING);
    list_remove(&request->link);
    redis_appends_leave(request);
    if (request->way != NULL)
        redis_ways_leave(request);
    free(request);
    if (append == NULL)
        return;
    append->impl = NULL;
    append->done(append, err, err == RD_OK ? answer.id : STREAM_ID_ZERO,
                 err == RD_OK && answer.duplicate);
}

/* --- waiting -------------------------------------------------------------------------------- */

bool redis_appends_connected(const struct redis_appends *appends)
{
    return appends->phase == REDIS_APPENDS_OPEN || appends->phase == REDIS_APPENDS_HALTED;
}

static void on_expiry(void *arg);

void redis_appends_arm_expiry(struct redis_appends *appends)
{
    if (redis_appends_connected(appends) || list_empty(&appends->waiting)) {
        loop_timer_stop(appends->loop, &appends->expiry);
        return;
    }
    const struct redis_appends_request *first =
        LIST_ITEM(appends->waiting.next, struct redis_appends_request, link);
    uint64_t now = loop_now_ms(appends->loop);
    uint64_t wait = first->due_ms > now ? first->due_ms - now : 0;
    loop_timer_start(appends->loop, &appends->expiry, wait, on_expiry, appends);
}

static void on_expiry(void *arg)
{
    struct redis_appends *appends = arg;
    uint64_t now = loop_now_ms(appends->loop);
    while (!list_empty(&appends->waiting)) {
        struct redis_appends_request *first =
            LIST_ITEM(appends->waiting.next, struct redis_appends_request, link);
        if (first->due_ms > now)
            break;
        metrics_inc(appends->metrics, M_PUBLISHES_EXPIRED);
        redis_appends_finish(first, RD_EUNAVAIL);
    }
    if (!appends->closing)
        redis_appends_arm_expiry(appends);
}

/* From now on, for those that have not begun to be. */
void redis_appends_begin_expiry(struct redis_appends *appends)
{
    uint64_t due_ms = loop_now_ms(appends->loop) + appends->config.wait_ms;
    for (struct list *at = appends->waiting.next; at != &appends->waiting; at = at->next) {
        struct redis_appends_request *request = LIST_ITEM(at, struct redis_appends_request, link);
        if (request->due_ms == 0)
            request->due_ms = due_ms;
    }
    redis_appends_arm_expiry(appends);
}
