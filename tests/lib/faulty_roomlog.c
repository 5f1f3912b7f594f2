#include "tests/lib/faulty_roomlog.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

/* A call that the fault struck. */
struct struck {
    struct list link;
    struct faulty *faulty;
    struct roomlog_append *append; /* whose answer is owed: at most one of them */
    struct roomlog_read *read;
    struct roomlog_state *state;
    struct roomlog_append done_all_the_same;
    struct loop_task answer;
    enum rd_err err;
};

struct held {
    struct list link;
    struct roomlog_follower *follower;
    struct str room;
};

/* Most calls are handed on as they are, so that their impl is the inner log's; only what is in
 * these lists is ours. */
struct faulty {
    struct roomlog log;
    struct loop *loop;
    struct roomlog *inner;
    struct list struck;
    struct list held;

    unsigned calls;
    unsigned strikes_at; /* the number of the call; 0: none */
    enum faulty_roomlog_fault fault;
    enum rd_err err;
    bool hit;
    bool holding;
    bool unready;
};

static struct faulty *faulty_of(struct roomlog *log)
{
    return RD_CONTAINER(log, struct faulty, log);
}

static bool strikes(struct faulty *f)
{
    if (++f->calls != f->strikes_at)
        return false;
    f->hit = true;
    return true;
}

static void finish(struct struck *s)
{
    struct roomlog_append *append = s->append;
    struct roomlog_read *read = s->read;
    struct roomlog_state *state = s->state;
    enum rd_err err = s->err;

    list_remove(&s->link);
    loop_cancel(&s->answer);
    free(s);
    if (append != NULL) {
        append->impl = NULL;
        append->done(append, err, STREAM_ID_ZERO, false);
    } else if (read != NULL) {
        read->impl = NULL;
        read->done(read, err, NULL);
    } else if (state != NULL) {
        state->impl = NULL;
        state->done(state, err, NULL);
    }
}

static void answer(void *arg)
{
    finish(arg);
}

static void inner_done(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                       bool duplicate)
{
    finish(RD_CONTAINER(append, struct struck, done_all_the_same));
}

static struct struck *strike(struct faulty *f)
{
    struct struck *s = xalloc(sizeof(*s));
    *s = (struct struck){.faulty = f, .err = f->err, .done_all_the_same = {.done = inner_done}};
    list_push_back(&f->struck, &s->link);
    return s;
}

static enum rd_err faulty_append(struct roomlog *log, struct str room,
                                 const struct roomlog_publish *what, struct roomlog_append *append)
{
    struct faulty *f = faulty_of(log);
    if (!strikes(f))
        return roomlog_append(f->inner, room, what, append);
    if (f->fault == FAULTY_ROOMLOG_REFUSED)
        return f->err;

    struct struck *s = strike(f);
    s->append = append;
    append->impl = s;
    if (f->fault == FAULTY_ROOMLOG_ERROR) {
        loop_defer(f->loop, &s->answer, answer, s);
    } else if (f->fault == FAULTY_ROOMLOG_LOST) {
        enum rd_err err = roomlog_append(f->inner, room, what, &s->done_all_the_same);
        assert(err == RD_OK); /* else the test asks for what can't be */
    }
    return RD_OK;
}

static enum rd_err faulty_read(struct roomlog *log, struct str room, struct roomlog_read *read)
{
    struct faulty *f = faulty_of(log);
    if (!strikes(f))
        return roomlog_read(f->inner, room, read);
    if (f->fault == FAULTY_ROOMLOG_REFUSED)
        return f->err;

    struct struck *s = strike(f);
    s->read = read;
    read->impl = s;
    if (f->fault != FAULTY_ROOMLOG_SILENT)
        loop_defer(f->loop, &s->answer, answer, s);
    return RD_OK;
}

static enum rd_err faulty_state(struct roomlog *log, struct str room, struct roomlog_state *state)
{
    struct faulty *f = faulty_of(log);
    if (!strikes(f))
        return roomlog_state(f->inner, room, state);
    if (f->fault == FAULTY_ROOMLOG_REFUSED)
        return f->err;

    struct struck *s = strike(f);
    s->state = state;
    state->impl = s;
    if (f->fault != FAULTY_ROOMLOG_SILENT)
        loop_defer(f->loop, &s->answer, answer, s);
    return RD_OK;
}

static struct struck *find_struck(struct faulty *f, const void *impl)
{
    for (struct list *link = f->struck.next; link != &f->struck; link = link->next)
        if ((const void *)LIST_ITEM(link, struct struck, link) == impl)
            return LIST_ITEM(link, struct struck, link);
    return NULL;
}

static void cancel(struct struck *s)
{
    roomlog_cancel_append(s->faulty->inner, &s->done_all_the_same);
    s->append = NULL;
    s->read = NULL;
    s->state = NULL;
    finish(s);
}

static void faulty_cancel_append(struct roomlog *log, struct roomlog_append *append)
{
    struct faulty *f = faulty_of(log);
    struct struck *s = find_struck(f, append->impl);
    if (s == NULL) {
        roomlog_cancel_append(f->inner, append);
        return;
    }
    append->impl = NULL;
    cancel(s);
}

static void faulty_cancel_read(struct roomlog *log, struct roomlog_read *read)
{
    struct faulty *f = faulty_of(log);
    struct struck *s = find_struck(f, read->impl);
    if (s == NULL) {
        roomlog_cancel_read(f->inner, read);
        return;
    }
    read->impl = NULL;
    cancel(s);
}

static void faulty_cancel_state(struct roomlog *log, struct roomlog_state *state)
{
    struct faulty *f = faulty_of(log);
    struct struck *s = find_struck(f, state->impl);
    if (s == NULL) {
        roomlog_cancel_state(f->inner, state);
        return;
    }
    state->impl = NULL;
    cancel(s);
}

static void faulty_follow(struct roomlog *log, struct str room, struct roomlog_follower *follower)
{
    struct faulty *f = faulty_of(log);
    if (!f->holding) {
        roomlog_follow(f->inner, room, follower);
        return;
    }
    struct held *h = xalloc(sizeof(*h));
    *h = (struct held){.follower = follower, .room = {xalloc_str(room), room.len}};
    follower->impl = h;
    list_push_back(&f->held, &h->link);
}

static void let_go(struct held *h)
{
    list_remove(&h->link);
    free((char *)(uintptr_t)h->room.p);
    free(h);
}

static void faulty_unfollow(struct roomlog *log, struct roomlog_follower *follower)
{
    struct faulty *f = faulty_of(log);
    list_for_each_safe (link, next, &f->held) {
        struct held *h = LIST_ITEM(link, struct held, link);
        if ((void *)h == follower->impl) {
            follower->impl = NULL;
            let_go(h);
            return;
        }
    }
    roomlog_unfollow(f->inner, follower);
}

static bool faulty_readable(struct roomlog *log, struct str room)
{
    struct faulty *f = faulty_of(log);
    return !f->unready && roomlog_readable(f->inner, room);
}

static bool faulty_ready(struct roomlog *log)
{
    struct faulty *f = faulty_of(log);
    return !f->unready && roomlog_ready(f->inner);
}

static void faulty_close(struct roomlog *log)
{
    struct faulty *f = faulty_of(log);
    assert(list_empty(&f->struck) && list_empty(&f->held));
    roomlog_close(f->inner);
    free(f);
}

static const struct roomlog_ops OPS = {
    .append = faulty_append,
    .cancel_append = faulty_cancel_append,
    .read = faulty_read,
    .cancel_read = faulty_cancel_read,
    .state = faulty_state,
    .cancel_state = faulty_cancel_state,
    .follow = faulty_follow,
    .unfollow = faulty_unfollow,
    .readable = faulty_readable,
    .ready = faulty_ready,
    .close = faulty_close,
};

struct roomlog *faulty_roomlog_create(struct loop *loop, struct roomlog *inner)
{
    struct faulty *f = xalloc(sizeof(*f));
    *f = (struct faulty){
        .log = {&OPS, inner->max_entries, inner->state_keys}, .loop = loop, .inner = inner};
    list_init(&f->struck);
    list_init(&f->held);
    return &f->log;
}

void faulty_roomlog_set(struct roomlog *log, unsigned nth, enum faulty_roomlog_fault fault,
                        enum rd_err err)
{
    struct faulty *f = faulty_of(log);
    assert(err != RD_OK);
    f->strikes_at = nth == 0 ? 0 : f->calls + nth;
    f->fault = fault;
    f->err = err;
    f->hit = false;
}

bool faulty_roomlog_struck(struct roomlog *log)
{
    return faulty_of(log)->hit;
}

unsigned faulty_roomlog_calls(struct roomlog *log)
{
    return faulty_of(log)->calls;
}

void faulty_roomlog_hold_follows(struct roomlog *log, bool held)
{
    struct faulty *f = faulty_of(log);
    f->holding = held;
    while (!held && !list_empty(&f->held)) {
        struct held *h = LIST_ITEM(f->held.next, struct held, link);
        struct roomlog_follower *follower = h->follower;
        follower->impl = NULL;
        roomlog_follow(f->inner, h->room, follower);
        let_go(h);
    }
}

void faulty_roomlog_set_ready(struct roomlog *log, bool ready)
{
    faulty_of(log)->unready = !ready;
}
