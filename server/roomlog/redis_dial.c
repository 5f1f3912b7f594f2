#include "roomlog/redis_dial.h"

#include "base/xalloc.h"
#include "roomlog/redis_resolve.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { REASON_MAX = 160 };

enum state { IDLE, FINDING, RESOLVING, CONNECTING, FAILED, STATES };

/* moves[from] has a bit for each state that may follow. */
#define TO(state) (1u << (state))
static const unsigned moves[STATES] = {
    [IDLE] = TO(FINDING),
    [FINDING] = TO(RESOLVING) | TO(FAILED) | TO(IDLE),
    [RESOLVING] = TO(CONNECTING) | TO(FAILED) | TO(IDLE),
    [CONNECTING] = TO(FAILED) | TO(IDLE),
    [FAILED] = TO(IDLE),
};
#undef TO

struct redis_dial {
    struct loop *loop;
    struct redis_finder *finder;
    redis_dial_fn done;
    redis_dial_leave_fn leave;
    void *arg;

    enum state state;
    struct redis_find find;
    struct redis_place place;
    bool found;                               /* place is this attempt's */
    struct redis_resolve *resolve;            /* may outlive the attempt that began it */
    char resolving[REDIS_PLACE_HOST_MAX + 1]; /* whose name it looks up */
    struct redis_resolve_result addresses;
    size_t at;             /* the address being tried */
    redisContext *context; /* CONNECTING only */
    struct loop_watch watch;
    struct loop_task report;
    char reason[REASON_MAX];
};

static void move(struct redis_dial *dial, enum state state)
{
    assert((moves[dial->state] & (1u << state)) != 0);
    dial->state = state;
}

static void hang_up(struct redis_dial *dial)
{
    loop_watch_stop(dial->loop, &dial->watch);
    if (dial->context != NULL)
        redisFree(dial->context);
    dial->context = NULL;
}

static void on_report(void *arg)
{
    struct redis_dial *dial = arg;
    move(dial, IDLE);
    dial->done(dial->arg, NULL, dial->reason);
}

static void fail(struct redis_dial *dial, const char *reason)
{
    (void)snprintf(dial->reason, sizeof(dial->reason), "%s", reason);
    hang_up(dial);
    move(dial, FAILED);
    loop_defer(dial->loop, &dial->report, on_report, dial);
}

static void on_ready(void *arg, unsigned events);

/* Tries the addresses from dial->at on. reason: why the one before wouldn't have us. */
static void connect_on(struct redis_dial *dial, const char *reason)
{
    const struct redis_place *place = &dial->place;
    char text[REASON_MAX];
    (void)snprintf(text, sizeof(text), "%s", reason);

    for (; dial->at < dial->addresses.count; dial->at++) {
        redisContext *context =
            place->port == 0 ? redisConnectUnixNonBlock(place->host)
                             : redisConnectNonBlock(dial->addresses.address[dial->at], place->port);
        if (context != NULL && context->err == 0) {
            dial->context = context;
            loop_watch_start(dial->loop, &dial->watch, context->fd, LOOP_WRITE, on_ready, dial);
            return;
        }
        (void)snprintf(text, sizeof(text), "%s",
                       context == NULL ? "out of memory" : context->errstr);
        if (context != NULL)
            redisFree(context);
    }
    fail(dial, text);
}

/* 0: connected; EINPROGRESS: not yet. */
static int connect_error(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return errno;
    if (error != 0)
        return error;
    /* Some event loops wake us before the kernel has decided. */
    return getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 ? 0 : EINPROGRESS;
}

static void on_ready(void *arg, unsigned events)
{
    (void)events;
    struct redis_dial *dial = arg;
    int error = connect_error(dial->context->fd);
    if (error == EINPROGRESS)
        return;
    if (error != 0) {
        char text[REASON_MAX];
        hang_up(dial);
        dial->at++;
        connect_on(dial, strerror_r(error, text, sizeof(text)));
        return;
    }
    redisContext *context = dial->context;
    dial->context = NULL;
    loop_watch_stop(dial->loop, &dial->watch);
    move(dial, IDLE);
    dial->done(dial->arg, context, NULL);
}

static void connect_to(struct redis_dial *dial, const struct redis_resolve_result *addresses)
{
    dial->addresses = *addresses;
    dial->at = 0;
    move(dial, CONNECTING);
    connect_on(dial, "");
}

static void on_resolved(void *arg, const struct redis_resolve_result *result);

static void look_up(struct redis_dial *dial)
{
    (void)snprintf(dial->resolving, sizeof(dial->resolving), "%s", dial->place.host);
    dial->resolve = redis_resolve_start(dial->loop, dial->resolving, on_resolved, dial);
    if (dial->resolve == NULL)
        fail(dial, "no thread to resolve its name");
}

static void on_resolved(void *arg, const struct redis_resolve_result *result)
{
    struct redis_dial *dial = arg;
    dial->resolve = NULL;
    if (dial->state != RESOLVING)
        return; /* too late for its attempt; the next asks again */
    if (strcmp(dial->resolving, dial->place.host) != 0)
        look_up(dial); /* an attempt before this one went elsewhere */
    else if (result->count == 0)
        fail(dial, result->reason);
    else
        connect_to(dial, result);
}

static void found(struct redis_dial *dial, const struct redis_place *place)
{
    struct redis_resolve_result numeric = {.count = 1};
    dial->place = *place;
    dial->found = true;
    move(dial, RESOLVING);
    if (place->port == 0 || redis_resolve_numeric(place->host, &numeric))
        connect_to(dial, &numeric);
    else if (dial->resolve == NULL)
        look_up(dial);
}

static void on_found(struct redis_find *find, const struct redis_place *place, const char *reason)
{
    struct redis_dial *dial = RD_CONTAINER(find, struct redis_dial, find);
    if (place == NULL)
        fail(dial, reason);
    else
        found(dial, place);
}

void redis_dial_start(struct redis_dial *dial)
{
    move(dial, FINDING);
    dial->found = false;
    const struct redis_place *place = dial->finder->find(dial->finder, &dial->find);
    if (place != NULL)
        found(dial, place);
}

void redis_dial_stop(struct redis_dial *dial)
{
    dial->finder->cancel(dial->finder, &dial->find);
    if (dial->state == IDLE)
        return;
    loop_cancel(&dial->report);
    hang_up(dial);
    move(dial, IDLE);
}

const struct redis_place *redis_dial_place(const struct redis_dial *dial)
{
    return &dial->place;
}

bool redis_dial_wants_master(const struct redis_dial *dial)
{
    return dial->finder->no_master != NULL;
}

void redis_dial_no_master(struct redis_dial *dial)
{
    if (redis_dial_wants_master(dial))
        dial->finder->no_master(dial->finder, &dial->place);
}

void redis_dial_no_answer(struct redis_dial *dial)
{
    if (dial->found && dial->finder->no_answer != NULL)
        dial->finder->no_answer(dial->finder, &dial->place);
}

static void on_leave(struct redis_find *find, const char *reason)
{
    struct redis_dial *dial = RD_CONTAINER(find, struct redis_dial, find);
    dial->leave(dial->arg, reason);
}

struct redis_dial *redis_dial_create(struct loop *loop, struct redis_finder *finder,
                                     redis_dial_fn done, redis_dial_leave_fn leave, void *arg)
{
    struct redis_dial *dial = xalloc_zero(sizeof(*dial));
    dial->loop = loop;
    dial->finder = finder;
    dial->find.done = on_found;
    dial->find.leave = on_leave;
    dial->done = done;
    dial->leave = leave;
    dial->arg = arg;
    return dial;
}

void redis_dial_destroy(struct redis_dial *dial)
{
    if (dial == NULL)
        return;
    redis_dial_stop(dial);
    redis_resolve_cancel(dial->resolve);
    free(dial);
}
