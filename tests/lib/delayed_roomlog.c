#include "tests/lib/delayed_roomlog.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

/* Entries with their texts, in one block each. */
struct copy {
    struct roomlog_entry *entries;
    size_t count;
    char *texts;
};

/* Of the log, or of a state. */
struct delayed_read {
    struct list link; /* in log->reads */
    struct roomlog_read inner;
    struct roomlog_read *outer;
    struct roomlog_state inner_state;
    struct roomlog_state *outer_state; /* NULL: of the log */
    struct roomlog_state_view view;
    struct delayed *log;
    enum { WAITS, ASKED, ANSWERED } state;
    enum rd_err err;
    struct roomlog_page page;
    struct copy copy;
    size_t room_len;
    char room[128];
};

struct event {
    struct list link;
    enum { STARTED, ENTRIES, BROKEN } kind;
    struct stream_id head;
    enum verdict why;
    struct copy copy;
};

struct delayed_follower {
    struct list link; /* in log->followers */
    struct roomlog_follower inner;
    struct roomlog_follower *outer; /* NULL: unfollowed while its event ran */
    struct list events;
};

struct delayed {
    struct roomlog log;
    struct roomlog *inner;
    struct list reads;
    struct list followers;
};

static struct str copy_str(char **at, struct str s)
{
    if (!str_present(s))
        return s;
    struct str copied = {*at, s.len};
    memcpy(*at, s.p, s.len);
    *at += s.len;
    return copied;
}

static struct copy copy_entries(const struct roomlog_entry *entries, size_t count)
{
    struct copy copy = {.count = count};
    size_t len = 1;
    for (size_t i = 0; i < count; i++)
        len += entries[i].type.len + entries[i].data.len + entries[i].from.len +
               entries[i].ref.len + entries[i].key.len;
    copy.entries = xalloc_array(NULL, count + 1, sizeof(struct roomlog_entry));
    char *at = copy.texts = xalloc(len);
    for (size_t i = 0; i < count; i++) {
        struct roomlog_entry *entry = &copy.entries[i];
        *entry = entries[i];
        entry->type = copy_str(&at, entry->type);
        entry->data = copy_str(&at, entry->data);
        entry->from = copy_str(&at, entry->from);
        entry->ref = copy_str(&at, entry->ref);
        entry->key = copy_str(&at, entry->key);
    }
    return copy;
}

static void copy_free(struct copy *copy)
{
    free(copy->entries);
    free(copy->texts);
    *copy = (struct copy){0};
}

static struct delayed *of(struct roomlog *log)
{
    return RD_CONTAINER(log, struct delayed, log);
}

/* --- reads ---------------------------------------------------------------------------------- */

static void free_read(struct delayed_read *read)
{
    list_remove(&read->link);
    copy_free(&read->copy);
    free(read);
}

static void on_read(struct roomlog_read *inner, enum rd_err err, const struct roomlog_page *page)
{
    struct delayed_read *read = RD_CONTAINER(inner, struct delayed_read, inner);
    read->state = ANSWERED;
    read->err = err;
    if (page == NULL)
        return;
    read->page = *page;
    read->copy = copy_entries(page->entries, page->count);
    read->page.entries = read->copy.entries;
}

static void on_state(struct roomlog_state *inner, enum rd_err err,
                     const struct roomlog_state_view *view)
{
    struct delayed_read *read = RD_CONTAINER(inner, struct delayed_read, inner_state);
    read->state = ANSWERED;
    read->err = err;
    if (view == NULL)
        return;
    read->view = *view;
    read->copy = copy_entries(view->items, view->count);
    read->view.items = read->copy.entries;
}

static struct delayed_read *add_read(struct roomlog *log, struct str room)
{
    struct delayed_read *read = xalloc_zero(sizeof(*read));
    assert(room.len <= sizeof(read->room));
    read->log = of(log);
    read->room_len = room.len;
    memcpy(read->room, room.p, room.len);
    list_push_back(&read->log->reads, &read->link);
    return read;
}

static enum rd_err delayed_read(struct roomlog *log, struct str room, struct roomlog_read *outer)
{
    struct delayed_read *read = add_read(log, room);
    read->outer = outer;
    read->inner = *outer;
    read->inner.impl = NULL;
    read->inner.done = on_read;
    outer->impl = read;
    return RD_OK;
}

static enum rd_err delayed_state(struct roomlog *log, struct str room, struct roomlog_state *outer)
{
    struct delayed_read *read = add_read(log, room);
    read->outer_state = outer;
    read->inner_state.done = on_state;
    outer->impl = read;
    return RD_OK;
}

static void delayed_cancel_read(struct roomlog *log, struct roomlog_read *outer)
{
    struct delayed_read *read = outer->impl;
    roomlog_cancel_read(of(log)->inner, &read->inner);
    free_read(read);
    outer->impl = NULL;
}

static void delayed_cancel_state(struct roomlog *log, struct roomlog_state *outer)
{
    struct delayed_read *read = outer->impl;
    roomlog_cancel_state(of(log)->inner, &read->inner_state);
    free_read(read);
    outer->impl = NULL;
}

static void ask(struct delayed_read *read)
{
    struct str room = {read->room, read->room_len};
    read->state = ASKED;
    enum rd_err err = read->outer_state != NULL
                          ? roomlog_state(read->log->inner, room, &read->inner_state)
                          : roomlog_read(read->log->inner, room, &read->inner);
    assert(err == RD_OK);
}

static void answer(struct delayed_read *read)
{
    list_remove(&read->link);
    if (read->outer_state != NULL) {
        read->outer_state->impl = NULL;
        read->outer_state->done(read->outer_state, read->err,
                                read->err == RD_OK ? &read->view : NULL);
    } else {
        read->outer->impl = NULL;
        read->outer->done(read->outer, read->err, read->err == RD_OK ? &read->page : NULL);
    }
    copy_free(&read->copy);
    free(read);
}

/* False: it still waits for the inner log. */
static bool step_read(struct delayed_read *read)
{
    if (read->state == ASKED)
        return false;
    if (read->state == WAITS)
        ask(read);
    else
        answer(read);
    return true;
}

/* --- the feed ------------------------------------------------------------------------------- */

static struct event *add_event(struct roomlog_follower *inner)
{
    struct delayed_follower *follower = RD_CONTAINER(inner, struct delayed_follower, inner);
    struct event *event = xalloc_zero(sizeof(*event));
    list_push_back(&follower->events, &event->link);
    return event;
}

static void on_started(struct roomlog_follower *inner, struct stream_id head)
{
    struct event *event = add_event(inner);
    event->kind = STARTED;
    event->head = head;
}

static void on_entries(struct roomlog_follower *inner, const struct roomlog_entry *entries,
                       size_t count)
{
    struct event *event = add_event(inner);
    event->kind = ENTRIES;
    event->copy = copy_entries(entries, count);
}

static void on_broken(struct roomlog_follower *inner, enum verdict why, struct stream_id head)
{
    struct event *event = add_event(inner);
    event->kind = BROKEN;
    event->why = why;
    event->head = head;
}

static const struct roomlog_follower_ops INNER_OPS = {on_started, on_entries, on_broken};

static void delayed_follow(struct roomlog *log, struct str room, struct roomlog_follower *outer)
{
    struct delayed_follower *follower = xalloc_zero(sizeof(*follower));
    follower->outer = outer;
    follower->inner.ops = &INNER_OPS;
    list_init(&follower->events);
    list_push_back(&of(log)->followers, &follower->link);
    outer->impl = follower;
    roomlog_follow(of(log)->inner, room, &follower->inner);
}

static void free_event(struct event *event)
{
    copy_free(&event->copy);
    free(event);
}

static void delayed_unfollow(struct roomlog *log, struct roomlog_follower *outer)
{
    struct delayed_follower *follower = outer->impl;
    roomlog_unfollow(of(log)->inner, &follower->inner);
    for (struct list *link; (link = list_pop_front(&follower->events)) != NULL;)
        free_event(LIST_ITEM(link, struct event, link));
    list_remove(&follower->link);
    free(follower);
    outer->impl = NULL;
}

/* The follower may be gone when this returns. */
static void step_feed(struct delayed_follower *follower)
{
    struct event *event = LIST_ITEM(list_pop_front(&follower->events), struct event, link);
    struct roomlog_follower *outer = follower->outer;
    if (event->kind == STARTED)
        outer->ops->started(outer, event->head);
    else if (event->kind == ENTRIES)
        outer->ops->entries(outer, event->copy.entries, event->copy.count);
    else
        outer->ops->broken(outer, event->why, event->head);
    free_event(event);
}

/* --- the rest ------------------------------------------------------------------------------- */

static enum rd_err delayed_append(struct roomlog *log, struct str room,
                                  const struct roomlog_publish *what, struct roomlog_append *append)
{
    return of(log)->inner->ops->append(of(log)->inner, room, what, append);
}

static void delayed_cancel_append(struct roomlog *log, struct roomlog_append *append)
{
    of(log)->inner->ops->cancel_append(of(log)->inner, append);
}

static bool delayed_readable(struct roomlog *log, struct str room)
{
    return roomlog_readable(of(log)->inner, room);
}

static bool delayed_ready(struct roomlog *log)
{
    return roomlog_ready(of(log)->inner);
}

static void delayed_close(struct roomlog *log)
{
    assert(list_empty(&of(log)->reads) && list_empty(&of(log)->followers));
    free(of(log));
}

static const struct roomlog_ops OPS = {
    .append = delayed_append,
    .cancel_append = delayed_cancel_append,
    .read = delayed_read,
    .cancel_read = delayed_cancel_read,
    .state = delayed_state,
    .cancel_state = delayed_cancel_state,
    .follow = delayed_follow,
    .unfollow = delayed_unfollow,
    .readable = delayed_readable,
    .ready = delayed_ready,
    .close = delayed_close,
};

struct roomlog *delayed_roomlog_create(struct roomlog *inner)
{
    struct delayed *delayed = xalloc_zero(sizeof(*delayed));
    delayed->log = (struct roomlog){
        .ops = &OPS, .max_entries = inner->max_entries, .state_keys = inner->state_keys};
    delayed->inner = inner;
    list_init(&delayed->reads);
    list_init(&delayed->followers);
    return &delayed->log;
}

bool delayed_roomlog_step(struct roomlog *log, struct rng *rng)
{
    struct list *ready[64];
    struct delayed *delayed = of(log);
    size_t reads = 0;
    size_t count = 0;
    list_for_each_safe (link, after, &delayed->reads)
        if (count < 32 && LIST_ITEM(link, struct delayed_read, link)->state != ASKED)
            ready[count++] = link;
    reads = count;
    list_for_each_safe (link, after, &delayed->followers)
        if (count < 64 && !list_empty(&LIST_ITEM(link, struct delayed_follower, link)->events))
            ready[count++] = link;
    if (count == 0)
        return false;

    size_t drawn = (size_t)rng_below(rng, count);
    if (drawn < reads)
        return step_read(LIST_ITEM(ready[drawn], struct delayed_read, link));
    step_feed(LIST_ITEM(ready[drawn], struct delayed_follower, link));
    return true;
}

static bool step_first_read(struct delayed *delayed, bool answered)
{
    list_for_each_safe (link, after, &delayed->reads) {
        struct delayed_read *read = LIST_ITEM(link, struct delayed_read, link);
        if (answered ? read->state == ANSWERED : read->state == WAITS)
            return step_read(read);
    }
    return false;
}

bool delayed_roomlog_ask(struct roomlog *log)
{
    return step_first_read(of(log), false);
}

bool delayed_roomlog_answer(struct roomlog *log)
{
    return step_first_read(of(log), true);
}

bool delayed_roomlog_feed(struct roomlog *log)
{
    list_for_each_safe (link, after, &of(log)->followers) {
        struct delayed_follower *follower = LIST_ITEM(link, struct delayed_follower, link);
        if (list_empty(&follower->events))
            continue;
        step_feed(follower);
        return true;
    }
    return false;
}
