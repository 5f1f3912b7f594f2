#include "tests/contract/witness.h"

#include "base/xalloc.h"

#include <check.h>
#include <stdlib.h>

bool witness_text_is(const struct witness_text *text, struct str want)
{
    if (text->present != str_present(want) || text->len != want.len)
        return false;
    size_t len = want.len < WITNESS_TEXT_MAX ? want.len : WITNESS_TEXT_MAX;
    return len == 0 || memcmp(text->bytes, want.p, len) == 0;
}

static void note_text(struct witness_text *text, struct str s)
{
    *text = (struct witness_text){.present = str_present(s), .len = s.len};
    if (s.len != 0)
        memcpy(text->bytes, s.p, s.len < WITNESS_TEXT_MAX ? s.len : WITNESS_TEXT_MAX);
}

static void note_texts(struct witness_entry *e, const struct roomlog_entry *entry)
{
    note_text(&e->type, entry->type);
    note_text(&e->data, entry->data);
    note_text(&e->from, entry->from);
    note_text(&e->ref, entry->ref);
    note_text(&e->key, entry->key);
}

/* Writes entries down behind those that are there, each held against the one before it. */
static void note(struct witness_entry **notes, size_t *count, const struct roomlog_entry *entries,
                 size_t more)
{
    ck_assert_uint_le(*count + more, WITNESS_ENTRIES_MAX);
    *notes = xalloc_array(*notes, *count + more, sizeof(struct witness_entry));
    for (size_t i = 0; i < more; i++) {
        struct witness_entry *e = &(*notes)[*count + i];
        e->id = entries[i].id;
        e->prev = entries[i].prev;
        e->prev_known = entries[i].prev_known;
        note_texts(e, &entries[i]);
        ck_assert(!stream_id_is_zero(e->id));
        if (e->prev_known)
            ck_assert_int_lt(stream_id_cmp(e->prev, e->id), 0);
        if (i == 0)
            continue;
        ck_assert(e->prev_known);
        ck_assert(stream_id_eq(e->prev, entries[i - 1].id));
    }
    *count += more;
}

/* --- append --------------------------------------------------------------------------------- */

static void append_done(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                        bool duplicate)
{
    struct witness_append *w = RD_CONTAINER(append, struct witness_append, append);
    ck_assert_msg(!w->asking, "answered from inside the call");
    ck_assert_msg(w->answers++ == 0, "answered twice");
    ck_assert_ptr_null(append->impl);
    w->err = err;
    w->id = id;
    w->duplicate = duplicate;
    if (w->then != NULL)
        w->then(w);
}

enum rd_err witness_append(struct roomlog *log, struct witness_append *w, struct str room,
                           const struct roomlog_publish *what)
{
    *w = (struct witness_append){.append = {.done = append_done}, .asking = true, .then = w->then};
    enum rd_err err = roomlog_append(log, room, what, &w->append);
    w->asking = false;
    return err;
}

/* --- read ----------------------------------------------------------------------------------- */

static void read_done(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct witness_read *w = RD_CONTAINER(read, struct witness_read, read);
    ck_assert_msg(!w->asking, "answered from inside the call");
    ck_assert_msg(w->answers++ == 0, "answered twice");
    ck_assert_ptr_null(read->impl);
    ck_assert((page != NULL) == (err == RD_OK));
    w->err = err;
    if (page != NULL) {
        w->verdict = page->verdict;
        w->at_end = page->at_end;
        w->info = page->info;
        if (page->verdict != VERDICT_OK)
            ck_assert_uint_eq(page->count, 0);
        note(&w->entries, &w->count, page->entries, page->count);
    }
    if (w->then != NULL)
        w->then(w);
}

enum rd_err witness_read(struct roomlog *log, struct witness_read *w, struct str room)
{
    free(w->entries);
    *w = (struct witness_read){.read = w->read, .asking = true, .then = w->then};
    w->read.done = read_done;
    enum rd_err err = roomlog_read(log, room, &w->read);
    w->asking = false;
    return err;
}

void witness_read_fini(struct witness_read *w)
{
    free(w->entries);
    w->entries = NULL;
    w->count = 0;
}

/* --- state ---------------------------------------------------------------------------------- */

static void note_item(struct witness_state *w, const struct roomlog_entry *item)
{
    struct witness_entry *e = &w->items[w->count];
    *e = (struct witness_entry){.id = item->id, .prev_known = item->prev_known};
    note_texts(e, item);
    ck_assert(!e->prev_known && e->key.present && !e->ref.present);
    ck_assert_int_le(stream_id_cmp(e->id, w->position), 0);
    if (w->count != 0)
        ck_assert_int_gt(stream_id_cmp(e->id, e[-1].id), 0);
    w->count++;
}

static void state_done(struct roomlog_state *state, enum rd_err err,
                       const struct roomlog_state_view *view)
{
    struct witness_state *w = RD_CONTAINER(state, struct witness_state, state);
    ck_assert_msg(!w->asking, "answered from inside the call");
    ck_assert_msg(w->answers++ == 0, "answered twice");
    ck_assert_ptr_null(state->impl);
    ck_assert((view != NULL) == (err == RD_OK));
    w->err = err;
    if (view != NULL) {
        w->position = view->position;
        w->items = xalloc_array(NULL, view->count + 1, sizeof(*w->items));
        for (size_t i = 0; i < view->count; i++)
            note_item(w, &view->items[i]);
    }
    if (w->then != NULL)
        w->then(w);
}

enum rd_err witness_state(struct roomlog *log, struct witness_state *w, struct str room)
{
    free(w->items);
    *w = (struct witness_state){.state = {.done = state_done}, .asking = true, .then = w->then};
    enum rd_err err = roomlog_state(log, room, &w->state);
    w->asking = false;
    return err;
}

void witness_state_fini(struct witness_state *w)
{
    free(w->items);
    w->items = NULL;
    w->count = 0;
}

/* --- follow --------------------------------------------------------------------------------- */

static struct witness_follower *follower_of(struct roomlog_follower *follower)
{
    struct witness_follower *w = RD_CONTAINER(follower, struct witness_follower, follower);
    ck_assert_msg(!w->asking, "called from inside roomlog_follow");
    ck_assert_msg(follower->impl != NULL, "called though it doesn't follow any more");
    return w;
}

static void feed_started(struct roomlog_follower *follower, struct stream_id head)
{
    struct witness_follower *w = follower_of(follower);
    ck_assert_msg(w->started++ == 0, "started twice");
    w->place = head;
    if (w->then != NULL)
        w->then(w);
}

static void feed_entries(struct roomlog_follower *follower, const struct roomlog_entry *entries,
                         size_t count)
{
    struct witness_follower *w = follower_of(follower);
    ck_assert_uint_eq(w->started, 1);
    ck_assert_uint_ne(count, 0);
    ck_assert(entries[0].prev_known);
    ck_assert_msg(stream_id_eq(entries[0].prev, w->place), "not chained to where the feed stood");
    note(&w->entries, &w->count, entries, count);
    w->place = entries[count - 1].id;
    w->batches++;
    if (w->then != NULL)
        w->then(w);
}

static void feed_broken(struct roomlog_follower *follower, enum verdict why, struct stream_id head)
{
    struct witness_follower *w = follower_of(follower);
    ck_assert_uint_eq(w->started, 1);
    ck_assert_int_ne(why, VERDICT_OK);
    w->broken++;
    w->why = why;
    w->place = head;
    if (w->then != NULL)
        w->then(w);
}

static const struct roomlog_follower_ops FOLLOWER = {
    .started = feed_started,
    .entries = feed_entries,
    .broken = feed_broken,
};

void witness_follow(struct roomlog *log, struct witness_follower *w, struct str room)
{
    free(w->entries);
    *w = (struct witness_follower){.follower = {.ops = &FOLLOWER}, .asking = true, .then = w->then};
    roomlog_follow(log, room, &w->follower);
    w->asking = false;
}

void witness_follower_fini(struct witness_follower *w)
{
    ck_assert_ptr_null(w->follower.impl);
    free(w->entries);
    w->entries = NULL;
    w->count = 0;
}
