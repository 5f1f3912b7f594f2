/* The log in the process, which knows fewer ways to lose something. */
#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_loop.h"
#include "tests/model/log_store.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

enum { ROOMS_MAX = 4096, TAG_MAX = 24 };

static struct fake_loop loop;
static struct metrics metrics;
static struct roomlog *log_there;

static void add(struct log_history *h, const struct log_history_op *op)
{
    char tag[TAG_MAX];
    (void)snprintf(tag, sizeof(tag), "%" PRIu32, op->tag);
    const struct roomlog_publish what = {.data = str_from(tag)};
    if (roomlog_mem_add(log_there, str_from(h->room), op->id, &what))
        log_history_added(h, op, room_truth_info(&h->truth).length + 1);
}

static void trim(struct log_history *h, uint64_t keep)
{
    uint64_t length = room_truth_info(&h->truth).length;
    roomlog_mem_trim(log_there, str_from(h->room), (size_t)keep);
    if (length > keep)
        log_history_trimmed(h, length - keep);
}

/* It can lose its newest entries, and nothing else may have been done to it since. */
static bool only_grew(const struct room_truth_log *now, const struct room_truth_log *before)
{
    if (!before->exists || before->count == 0 || before->count > now->count)
        return false;
    for (size_t i = 0; i < now->count; i++) {
        bool lost = i >= before->count;
        if (!lost && (now->mark[i] != before->mark[i] || now->fate[i] != before->fate[i]))
            return false;
        if ((lost || i == before->count - 1) && now->fate[i] != ROOM_TRUTH_KEPT)
            return false;
    }
    return true;
}

static void fail_over(struct log_history *h, const struct log_history_op *op)
{
    const struct room_truth_log *before = &h->saved[op->slot].log;
    if (!only_grew(&h->truth.now, before))
        return;
    roomlog_mem_lose_tail(log_there, str_from(h->room), h->truth.now.count - before->count);
    log_history_failed_over(h, op);
}

static void apply_op(struct log_history *h, const struct log_history_op *op)
{
    switch (op->kind) {
    case LOG_HISTORY_ADD:
        add(h, op);
        break;
    case LOG_HISTORY_TRIM_MAXLEN:
        trim(h, op->number);
        break;
    case LOG_HISTORY_DELETE:
        if (roomlog_mem_delete(log_there, str_from(h->room), op->id))
            log_history_deleted(h, op);
        break;
    case LOG_HISTORY_RESET:
        roomlog_mem_reset(log_there, str_from(h->room));
        log_history_was_reset(h);
        break;
    case LOG_HISTORY_SAVE:
        log_history_saved_as(h, op, NULL, 0);
        break;
    case LOG_HISTORY_FAIL_OVER:
        fail_over(h, op);
        break;
    default:
        break;
    }
}

static void apply(struct log_history *histories, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < histories[i].count; k++)
            apply_op(&histories[i], &histories[i].ops[k]);
}

/* --- life ----------------------------------------------------------------------------------- */

static bool run(bool (*done)(void *arg), void *arg)
{
    while (!done(arg))
        if (!fake_loop_step(&loop))
            return false;
    return true;
}

static struct roomlog *open_log(void)
{
    fake_loop_init(&loop, 1);
    log_there = roomlog_mem_create(&loop.loop, &metrics,
                                   &(struct roomlog_mem_limits){.max_entries = 1 << 20,
                                                                .max_bytes = 1 << 30,
                                                                .max_rooms = ROOMS_MAX,
                                                                .max_in_flight = 4096});
    return log_there;
}

static void close_log(void)
{
    roomlog_close(log_there);
    fake_loop_turn(&loop);
    fake_loop_fini(&loop);
}

/* Rooms of earlier histories are forgotten as new ones come. */
static void begin(unsigned node_entries)
{
    (void)node_entries;
}

#define CAN(kind) (1u << LOG_HISTORY_##kind)
const struct log_store log_store_mem = {
    .can = CAN(ADD) | CAN(TRIM_MAXLEN) | CAN(DELETE) | CAN(RESET) | CAN(SAVE) | CAN(FAIL_OVER),
    .open = open_log,
    .close = close_log,
    .begin = begin,
    .apply = apply,
    .run = run,
};
