#include "tests/model/log_history.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned draw(struct log_history *h, unsigned bound)
{
    return (unsigned)rng_below(&h->rng, bound);
}

void log_history_init(struct log_history *h, uint64_t seed)
{
    *h = (struct log_history){.seed = seed};
    rng_init(&h->rng, seed);
    (void)snprintf(h->room, sizeof(h->room), "h%" PRIu64, seed);
    h->once = rng_chance(&h->rng, 50);
    h->followed = rng_chance(&h->rng, 60);
    h->long_one = rng_chance(&h->rng, 10);
    h->clock.ms = 1 + rng_below(&h->rng, 20); /* ids of different lengths meet */
}

void log_history_fini(struct log_history *h)
{
    for (size_t i = 0; i < LOG_HISTORY_SAVED; i++)
        free(h->saved[i].blob);
}

/* --- drawing -------------------------------------------------------------------------------- */

/* Above `tip`, close by. */
static struct stream_id after(struct log_history *h, struct stream_id tip)
{
    unsigned step = draw(h, 3);
    if (step == 0 && tip.ms != 0)
        return (struct stream_id){tip.ms, tip.seq + 1};
    return (struct stream_id){tip.ms + (step == 0 ? 1 : step), draw(h, 2)};
}

/* An id for what is added next. tip: the last there was, as far as anybody knows. */
static struct stream_id next_id(struct log_history *h, struct stream_id *tip)
{
    if (h->once) {
        h->clock = after(h, h->clock);
        *tip = h->clock;
    } else {
        *tip = after(h, *tip);
    }
    return *tip;
}

/* One that was used, whatever has become of it. */
static struct stream_id used_id(struct log_history *h)
{
    size_t marks = h->truth.marks;
    return marks == 0 ? (struct stream_id){1, 0} : h->truth.id[rng_below(&h->rng, marks)];
}

static uint64_t present(const struct log_history *h)
{
    return room_truth_info(&h->truth).length;
}

static enum log_history_kind draw_kind(struct log_history *h, unsigned can)
{
    static const unsigned char weights[LOG_HISTORY_KINDS] = {
        [LOG_HISTORY_ADD] = 46,       [LOG_HISTORY_ADD_MAXLEN] = 10, [LOG_HISTORY_TRIM_MAXLEN] = 8,
        [LOG_HISTORY_TRIM_MINID] = 6, [LOG_HISTORY_DELETE] = 13,     [LOG_HISTORY_SET_ID] = 3,
        [LOG_HISTORY_RESET] = 3,      [LOG_HISTORY_SAVE] = 11,
    };
    unsigned at = draw(h, 100);
    for (unsigned kind = 0; kind < LOG_HISTORY_KINDS; kind++) {
        if (at < weights[kind])
            return (can & (1u << kind)) != 0 ? (enum log_history_kind)kind : LOG_HISTORY_ADD;
        at -= weights[kind];
    }
    return LOG_HISTORY_ADD;
}

static struct log_history_op *push(struct log_history *h, enum log_history_kind kind)
{
    assert(h->count < LOG_HISTORY_OPS);
    struct log_history_op *op = &h->ops[h->count++];
    *op = (struct log_history_op){.kind = kind, .exact = rng_chance(&h->rng, 50), .tag = ++h->tags};
    return op;
}

/* Back to an earlier moment, if one was kept. */
static void draw_failover(struct log_history *h, struct stream_id *tip)
{
    size_t slot = draw(h, LOG_HISTORY_SAVED);
    if (!h->saved[slot].taken)
        return;
    push(h, LOG_HISTORY_FAIL_OVER)->slot = slot;
    *tip = h->saved[slot].log.last;
}

static void draw_op(struct log_history *h, unsigned can, struct stream_id *tip)
{
    struct log_history_op *op = push(h, draw_kind(h, can));
    switch (op->kind) {
    case LOG_HISTORY_ADD_MAXLEN:
    case LOG_HISTORY_TRIM_MAXLEN:
        op->number = rng_below(&h->rng, present(h) + 2);
        if (op->kind == LOG_HISTORY_ADD_MAXLEN)
            op->id = next_id(h, tip);
        break;
    case LOG_HISTORY_ADD:
        op->id = next_id(h, tip);
        break;
    case LOG_HISTORY_TRIM_MINID:
    case LOG_HISTORY_DELETE:
        op->id = used_id(h);
        break;
    case LOG_HISTORY_SET_ID:
        op->id = h->once || rng_chance(&h->rng, 60) ? next_id(h, tip) : used_id(h);
        break;
    case LOG_HISTORY_RESET:
        *tip = STREAM_ID_ZERO;
        break;
    case LOG_HISTORY_SAVE:
        op->slot = draw(h, LOG_HISTORY_SAVED);
        break;
    default:
        break;
    }
}

void log_history_draw(struct log_history *h, unsigned can)
{
    struct stream_id tip = h->truth.now.last;
    bool set = false;
    h->count = 0;
    h->rang = false;
    if ((can & (1u << LOG_HISTORY_FAIL_OVER)) != 0 && rng_chance(&h->rng, 12))
        draw_failover(h, &tip);
    for (unsigned left = 1 + draw(h, h->long_one ? LOG_HISTORY_OPS - 4 : 5); left > 0; left--)
        draw_op(h, can, &tip);
    for (size_t i = 0; i < h->count; i++) {
        set = set || h->ops[i].kind == LOG_HISTORY_SET_ID;
        if (stream_id_cmp(h->ops[i].id, tip) > 0)
            tip = h->ops[i].id;
    }
    /* XSETID rings no bell; with this, what it did is heard at once. */
    if (set && h->followed)
        push(h, LOG_HISTORY_ADD)->id = next_id(h, &tip);
}

struct room_truth_place log_history_place(struct log_history *h)
{
    const struct room_truth *truth = &h->truth;
    struct room_truth_place place = {.mark = ROOM_TRUTH_NOWHERE};
    unsigned kind = draw(h, 10);
    if (kind == 0)
        return place;
    if (kind == 1)
        return room_truth_end(truth);
    if (kind >= 4 && truth->marks != 0) {
        place.mark = rng_below(&h->rng, truth->marks);
        place.id = truth->id[place.mark];
        return place;
    }
    /* Made up: beside one that was used, or beyond the end. */
    place.id = kind == 2 ? after(h, used_id(h)) : (struct stream_id){1000 + draw(h, 5), 0};
    for (size_t i = 0; i < truth->marks; i++)
        if (stream_id_eq(truth->id[i], place.id))
            place.mark = i; /* it is real */
    return place;
}

/* --- what came of it ------------------------------------------------------------------------ */

void log_history_added(struct log_history *h, const struct log_history_op *op,
                       uint64_t length_after)
{
    h->tag[h->truth.marks] = op->tag;
    room_truth_add(&h->truth, op->id);
    h->rang = true;
    log_history_trimmed(h, present(h) - length_after);
}

void log_history_trimmed(struct log_history *h, uint64_t removed)
{
    room_truth_trim(&h->truth, (size_t)removed);
    h->rang = h->rang || removed != 0;
}

void log_history_deleted(struct log_history *h, const struct log_history_op *op)
{
    room_truth_delete(&h->truth, op->id);
    h->rang = true;
}

void log_history_set(struct log_history *h, const struct log_history_op *op)
{
    room_truth_set_id(&h->truth, op->id);
}

void log_history_was_reset(struct log_history *h)
{
    h->rang = h->rang || h->truth.now.exists;
    room_truth_reset(&h->truth);
}

void log_history_saved_as(struct log_history *h, const struct log_history_op *op, char *blob,
                          size_t blob_len)
{
    struct log_history_saved *saved = &h->saved[op->slot];
    free(saved->blob);
    *saved = (struct log_history_saved){
        .taken = true, .log = h->truth.now, .blob = blob, .blob_len = blob_len};
}

void log_history_failed_over(struct log_history *h, const struct log_history_op *op)
{
    h->rang = h->rang || h->truth.now.exists || h->saved[op->slot].log.exists;
    room_truth_fail_over(&h->truth, &h->saved[op->slot].log);
}

const char *log_history_op_text(const struct log_history_op *op)
{
    static char text[96];
    static const char *const names[LOG_HISTORY_KINDS] = {
        "XADD",   "XADD MAXLEN", "XTRIM MAXLEN", "XTRIM MINID", "XDEL",
        "XSETID", "DEL",         "save",         "failover"};
    (void)snprintf(text, sizeof(text), "%s %s %" PRIu64 " id %" PRIu64 "-%" PRIu64 " slot %zu",
                   names[op->kind], op->exact ? "=" : "~", op->number, op->id.ms, op->id.seq,
                   op->slot);
    return text;
}
