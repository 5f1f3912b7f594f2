#include "tests/fault/traffic.h"

#include "roomlog/roomlog_redis.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURN_MS = 2, AGAIN_MS = 20, KEY_MAX = 48, PAGE = 40 };

struct roomlog *traffic_log(struct poll_loop *loop, struct metrics *metrics, const char *url)
{
    const struct roomlog_redis_config config = {
        .url = url,
        .prefix = "room:",
        .live = ROOMLOG_REDIS_AUTO,
        .poll_ms = 60000, /* polling must not hide what bells should have said */
        .max_entries = 10000,
        .dedupe_ms = 60000,
        .connect_ms = 1000,
        .command_ms = 1000,
        .max_appends = 1000,
        .publish_wait_ms = 1000,
        .max_reads = 1000,
    };
    struct roomlog *log = roomlog_redis_create(&loop->loop, metrics, &config);
    ck_assert_ptr_nonnull(log);
    return log;
}

/* --- writing -------------------------------------------------------------------------------- */

static void write_next(struct traffic *t, struct traffic_room *room)
{
    char data[24];
    char ref[24];
    (void)snprintf(data, sizeof(data), "%lu", room->next);
    (void)snprintf(ref, sizeof(ref), "r%lu", room->next);
    struct roomlog_publish what = {.type = STR("n"), .data = str_from(data)};
    if (t->refs) {
        what.from = STR("ann");
        what.ref = str_from(ref);
    }
    enum rd_err err = witness_append(t->log, &room->append, str_from(room->name), &what);
    room->busy = err == RD_OK;
    if (err == RD_OK)
        return;
    ck_assert_int_eq(err, RD_EUNAVAIL);
    room->refused++;
    room->again_ms = loop_now_ms(&t->loop->loop) + AGAIN_MS;
}

static void written(struct traffic *t, struct traffic_room *room)
{
    room->busy = false;
    room->again_ms = loop_now_ms(&t->loop->loop) + t->pace_ms;
    if (room->append.err == RD_OK) {
        ck_assert(room->append.duplicate || stream_id_cmp(room->append.id, room->last) > 0);
        room->last = room->append.id;
        room->next++;
        return;
    }
    room->again_ms = loop_now_ms(&t->loop->loop) + AGAIN_MS;
    room->unknown += room->append.err == RD_EUNKNOWN ? 1 : 0;
    room->refused += room->append.err == RD_EUNKNOWN ? 0 : 1;
    ck_assert_msg(room->append.err == RD_EUNKNOWN || room->append.err == RD_EUNAVAIL ||
                      room->append.err == RD_EREADONLY,
                  "refused: %s", rd_err_text(room->append.err));
    ck_assert_msg(t->refs || room->append.err != RD_EUNKNOWN, "unknown without a ref");
}

/* --- joining -------------------------------------------------------------------------------- */

/* Page after page, each chained to the one before, up to the end; then from the beginning. */
static void join(struct traffic *t, struct traffic_room *room)
{
    struct witness_read *w = &room->joiner;
    if (room->joining && w->answers == 0)
        return;
    bool again = !room->joining || w->err != RD_OK || w->verdict != VERDICT_OK || w->at_end;
    if (room->joining && w->err == RD_OK && w->verdict == VERDICT_OK && w->at_end)
        room->joined++;
    struct stream_id after = again || w->count == 0 ? STREAM_ID_ZERO : w->entries[w->count - 1].id;
    room->joining = false;
    if (t->stopping || loop_now_ms(&t->loop->loop) < room->again_ms)
        return;
    w->read = (struct roomlog_read){
        .from = ROOMLOG_AFTER, .after = after, .max_entries = PAGE, .max_bytes = 1 << 20};
    room->joining = witness_read(t->log, w, str_from(room->name)) == RD_OK;
}

static void on_turn(void *arg)
{
    struct traffic *t = arg;
    loop_timer_start(&t->loop->loop, &t->timer, TURN_MS, on_turn, t);
    for (size_t i = 0; i < t->count; i++) {
        struct traffic_room *room = &t->room[i];
        join(t, room);
        if (room->busy && room->append.answers != 0)
            written(t, room);
        bool owed = room->refused + room->unknown != 0 && room->append.err != RD_OK;
        if (!room->busy && !room->muted && (!t->stopping || owed) &&
            loop_now_ms(&t->loop->loop) >= room->again_ms)
            write_next(t, room);
    }
}

/* --- life ----------------------------------------------------------------------------------- */

static bool all_started(void *arg)
{
    const struct traffic *t = arg;
    for (size_t i = 0; i < t->count; i++)
        if (t->room[i].follower.started == 0)
            return false;
    return true;
}

void traffic_open(struct traffic *t, struct poll_loop *loop, struct roomlog *log, size_t count,
                  bool refs)
{
    ck_assert_uint_le(count, TRAFFIC_ROOMS_MAX);
    *t = (struct traffic){.loop = loop, .log = log, .count = count, .refs = refs, .pace_ms = 10};
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(t->room[i].name, TRAFFIC_NAME_MAX, "r%zu", i);
        witness_follow(log, &t->room[i].follower, str_from(t->room[i].name));
    }
    ck_assert(poll_loop_run(loop, 5000, all_started, t));
}

void traffic_start(struct traffic *t)
{
    t->stopping = false;
    on_turn(t);
}

static bool all_quiet(void *arg)
{
    const struct traffic *t = arg;
    for (size_t i = 0; i < t->count; i++) {
        const struct traffic_room *room = &t->room[i];
        bool owed = room->append.answers != 0 && room->append.err != RD_OK && !room->muted;
        if (room->busy || room->joining || owed)
            return false;
    }
    return true;
}

void traffic_stop(struct traffic *t, uint64_t limit_ms)
{
    t->stopping = true;
    ck_assert_msg(poll_loop_run(t->loop, limit_ms, all_quiet, t),
                  "an append is never acknowledged");
    loop_timer_stop(&t->loop->loop, &t->timer);
}

void traffic_close(struct traffic *t)
{
    for (size_t i = 0; i < t->count; i++) {
        roomlog_unfollow(t->log, &t->room[i].follower.follower);
        witness_follower_fini(&t->room[i].follower);
        witness_read_fini(&t->room[i].joiner);
    }
}

struct goal {
    const struct traffic *t;
    unsigned long next[TRAFFIC_ROOMS_MAX];
};

static bool reached(void *arg)
{
    const struct goal *goal = arg;
    for (size_t i = 0; i < goal->t->count; i++)
        if (!goal->t->room[i].muted && goal->t->room[i].next < goal->next[i])
            return false;
    return true;
}

void traffic_more(struct traffic *t, unsigned long count, uint64_t limit_ms)
{
    struct goal goal = {.t = t};
    for (size_t i = 0; i < t->count; i++)
        goal.next[i] = t->room[i].next + count;
    if (poll_loop_run(t->loop, limit_ms, reached, &goal))
        return;
    for (size_t i = 0; i < t->count; i++)
        if (!t->room[i].muted && t->room[i].next < goal.next[i])
            ck_abort_msg("room %s: %lu of %lu, refused %lu, unknown %lu, busy %d: %s",
                         t->room[i].name, t->room[i].next, goal.next[i], t->room[i].refused,
                         t->room[i].unknown, t->room[i].busy, rd_err_text(t->room[i].append.err));
}

/* --- checking ------------------------------------------------------------------------------- */

static redisReply *range_of(struct redis_server *server, const char *key)
{
    const char *words[] = {"XRANGE", key, "-", "+"};
    redisReply *range = redis_server_ask(server, 4, words, NULL);
    ck_assert_int_eq(range->type, REDIS_REPLY_ARRAY);
    return range;
}

/* The text of entry i of an XRANGE: fields type, data, ... */
static unsigned long data_of(const redisReply *range, size_t i)
{
    const redisReply *fields = range->element[i]->element[1];
    ck_assert_uint_ge(fields->elements, 4);
    ck_assert_str_eq(fields->element[2]->str, "data");
    return strtoul(fields->element[3]->str, NULL, 10);
}

static struct stream_id id_of(const redisReply *range, size_t i)
{
    struct stream_id id;
    ck_assert(stream_id_parse(str_from(range->element[i]->element[0]->str), &id));
    return id;
}

struct place {
    const struct witness_follower *w;
    struct stream_id id;
};

static bool stands_at(void *arg)
{
    const struct place *place = arg;
    return stream_id_eq(place->w->place, place->id);
}

unsigned long traffic_check_lossy(struct traffic *t, size_t i, traffic_server_fn server_of)
{
    struct traffic_room *room = &t->room[i];
    char key[KEY_MAX];
    (void)snprintf(key, sizeof(key), "room:%s", room->name);
    redisReply *range = range_of(server_of(key), key);
    size_t held = range->elements;
    for (size_t k = 1; k < held; k++)
        ck_assert_msg(data_of(range, k) > data_of(range, k - 1), "%s: %lu behind %lu", room->name,
                      data_of(range, k), data_of(range, k - 1));
    struct place end = {&room->follower, held == 0 ? STREAM_ID_ZERO : id_of(range, held - 1)};
    ck_assert_msg(poll_loop_run(t->loop, 10000, stands_at, &end),
                  "%s: the follower has heard %zu, the log holds %zu", room->name,
                  room->follower.count, held);
    if (room->follower.broken == 0) {
        ck_assert_uint_eq(room->follower.count, held);
        for (size_t k = 0; k < held; k++)
            ck_assert(stream_id_eq(room->follower.entries[k].id, id_of(range, k)));
    }
    freeReplyObject(range);
    ck_assert_uint_le(held, room->next);
    return room->next - held;
}

void traffic_check(struct traffic *t, size_t i, traffic_server_fn server_of)
{
    ck_assert_uint_eq(traffic_check_lossy(t, i, server_of), 0);
    ck_assert_uint_eq(t->room[i].follower.broken, 0);
}
