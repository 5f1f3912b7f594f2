/* check_verdict_fuzz.c - "nothing was lost" is never said where something was.
 *
 * Random histories of rooms' logs (log_history.h) happen to a real Redis, and to the log in the
 * process. After each round clients read on from wherever they stand, or from cursors that are
 * real, deleted, trimmed, lost, made up, from the future, or 0-0; and feeds follow. All of it goes
 * through the code that serves users, and is held against what has really been (room_truth.h):
 *
 * - A cursor that is honoured is given every entry after it: none was trimmed away, and its own
 *   place is in this log's past. Two blind spots are known, counted, and allowed: 0-0 where a DEL
 *   took what nobody had seen, and ids that were used twice.
 * - A cursor that isn't honoured lost something, or could not be told from one that did: it is the
 *   last that was trimmed, or its own entry isn't there and others were deleted.
 *
 * ROOMD_MODEL_HISTORIES (default 2000) says how many, ROOMD_MODEL_SEED which comes first. A failure
 * prints its seed, and ROOMD_MODEL_HISTORIES=1 ROOMD_MODEL_SEED=<it> plays it again, with every
 * step printed.
 */
#include "base/logger.h"
#include "base/xalloc.h"
#include "tests/lib/suite.h"
#include "tests/model/log_store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { BATCH = 128, CLIENTS = 3, ROUNDS_MAX = 9, VERDICTS = VERDICT_HOLE + 1, TAG_MAX = 24 };

struct tally {
    uint64_t reads, feed_tellings;
    uint64_t verdicts[VERDICTS];
    uint64_t worths[ROOM_TRUTH_WORTHS];
    uint64_t feed_worths[ROOM_TRUTH_WORTHS];
};

struct fuzz {
    const struct log_store *store;
    struct roomlog *log;
    bool trace;
    struct log_history histories[BATCH];
    struct seat *seats; /* one for each history */
    size_t count;
    size_t reading; /* reads not yet answered */
    size_t settled; /* feeds of the seats below this one have told what they must */
    struct tally tally;
};

/* Who looks at one history's room. */
struct seat {
    struct fuzz *fuzz;
    struct log_history *history;
    struct client {
        struct roomlog_read read;
        struct seat *seat;
        struct room_truth_place place;
    } clients[CLIENTS];

    struct roomlog_follower follower;
    struct room_truth_place place; /* where the feed stands */
    bool started;
    unsigned breaks;
    unsigned breaks_due;        /* when the feed has told what it must */
    struct stream_id place_due; /* and where it stands then */
    bool due;
};

static void broke(const struct seat *seat, const char *fmt, ...) RD_PRINTF(2, 3);

static void broke(const struct seat *seat, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    ck_abort_msg("seed %" PRIu64 ": %s", seat->history->seed, text);
}

static void trace(const struct fuzz *fuzz, const char *fmt, ...) RD_PRINTF(2, 3);

static void trace(const struct fuzz *fuzz, const char *fmt, ...)
{
    if (!fuzz->trace)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

/* An id's text. One of two places, in turn. */
static const char *text_of(struct stream_id id)
{
    static char texts[2][STREAM_ID_TEXT_MAX + 1];
    static unsigned turn;
    char *text = texts[turn++ % 2];
    text[stream_id_format(id, text)] = '\0';
    return text;
}

static const char *verdict_text(enum verdict verdict)
{
    static const char *const texts[VERDICTS] = {"ok",    "trimmed",  "reset",
                                                "ahead", "diverged", "hole"};
    return texts[verdict];
}

/* --- judging -------------------------------------------------------------------------------- */

static void judge(struct seat *seat, struct room_truth_place place, enum verdict verdict,
                  uint64_t worths[ROOM_TRUTH_WORTHS])
{
    struct log_history *h = seat->history;
    enum room_truth_worth worth = room_truth_judge(&h->truth, place, verdict);
    worths[worth]++;
    trace(seat->fuzz, "  %s from %s: %s", verdict_text(verdict), text_of(place.id),
          room_truth_worth_text(worth));
    if (worth >= ROOM_TRUTH_LOSS || (worth == ROOM_TRUTH_BLIND_REUSED && h->once))
        broke(seat, "%s: a cursor %s (mark %zu) was answered \"%s\"", room_truth_worth_text(worth),
              text_of(place.id), place.mark, verdict_text(verdict));
    if ((verdict == VERDICT_RESET) != (verdict != VERDICT_OK && !h->truth.now.exists))
        broke(seat, "a cursor %s was answered \"%s\"", text_of(place.id), verdict_text(verdict));
}

/* What came must be what comes next after a place. Returns the new place. */
static struct room_truth_place check_entries(const struct seat *seat, struct room_truth_place place,
                                             const struct roomlog_entry *entries, size_t count,
                                             bool at_end)
{
    const struct log_history *h = seat->history;
    uint16_t marks[ROOM_TRUTH_LINE];
    size_t there = room_truth_after(&h->truth, place.id, marks, ROOM_TRUTH_LINE);
    if (count > there || (at_end && count != there) || (count == 0 && there != 0))
        broke(seat, "after %s there are %zu entries, and %zu came%s", text_of(place.id), there,
              count, at_end ? " as all" : "");
    for (size_t i = 0; i < count; i++) {
        struct room_truth_place next = {h->truth.id[marks[i]], marks[i]};
        char tag[TAG_MAX];
        (void)snprintf(tag, sizeof(tag), "%" PRIu32, h->tag[marks[i]]);
        if (!stream_id_eq(entries[i].id, next.id) || !str_eq(entries[i].data, str_from(tag)))
            broke(seat, "after %s came %s", text_of(place.id), text_of(entries[i].id));
        if (!entries[i].prev_known || !stream_id_eq(entries[i].prev, place.id))
            broke(seat, "%s isn't chained to %s", text_of(next.id), text_of(place.id));
        place = next;
    }
    return place;
}

static void check_info(const struct seat *seat, const struct verdict_info *info)
{
    struct verdict_info want = room_truth_info(&seat->history->truth);
    if (info->exists != want.exists || info->length != want.length || info->added != want.added ||
        !stream_id_eq(info->first, want.first) || !stream_id_eq(info->last, want.last) ||
        !stream_id_eq(info->max_deleted, want.max_deleted))
        broke(seat,
              "the log says of itself %d %" PRIu64 " %" PRIu64 " %s, and is %d %" PRIu64 " %" PRIu64
              " %s",
              info->exists, info->length, info->added, text_of(info->last), want.exists,
              want.length, want.added, text_of(want.last));
}

/* --- clients -------------------------------------------------------------------------------- */

static void on_read(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct client *client = RD_CONTAINER(read, struct client, read);
    struct seat *seat = client->seat;
    struct fuzz *fuzz = seat->fuzz;
    fuzz->reading--;
    if (err != RD_OK)
        broke(seat, "a read failed: %s", rd_err_text(err));
    fuzz->tally.reads++;
    fuzz->tally.verdicts[page->verdict]++;
    judge(seat, client->place, page->verdict, fuzz->tally.worths);
    if (read->want_info || page->verdict != VERDICT_OK)
        check_info(seat, &page->info);
    if (page->verdict == VERDICT_OK) {
        client->place =
            check_entries(seat, client->place, page->entries, page->count, page->at_end);
        return;
    }
    if (page->count != 0)
        broke(seat, "entries beside a verdict");
    client->place = room_truth_end(&seat->history->truth);
}

static void read_on(struct client *client)
{
    struct seat *seat = client->seat;
    struct rng *rng = &seat->history->rng;
    if (!rng_chance(rng, 50))
        client->place = log_history_place(seat->history);
    client->read = (struct roomlog_read){
        .from = ROOMLOG_AFTER,
        .after = client->place.id,
        .want_info = rng_chance(rng, 20),
        .max_entries = 1 + (size_t)rng_below(rng, rng_chance(rng, 70) ? 200 : 4),
        .max_bytes = 1 << 20,
        .done = on_read};
    if (roomlog_read(seat->fuzz->log, str_from(seat->history->room), &client->read) != RD_OK)
        broke(seat, "a read was refused");
    seat->fuzz->reading++;
}

/* --- feeds ---------------------------------------------------------------------------------- */

static struct seat *seat_of(struct roomlog_follower *follower)
{
    struct seat *seat = RD_CONTAINER(follower, struct seat, follower);
    seat->fuzz->tally.feed_tellings++;
    return seat;
}

static void on_started(struct roomlog_follower *follower, struct stream_id head)
{
    struct seat *seat = seat_of(follower);
    seat->place = room_truth_end(&seat->history->truth);
    seat->started = true;
    if (!stream_id_eq(seat->place.id, head))
        broke(seat, "a feed starts at %s, not %s", text_of(head), text_of(seat->place.id));
}

static void on_entries(struct roomlog_follower *follower, const struct roomlog_entry *entries,
                       size_t count)
{
    struct seat *seat = seat_of(follower);
    judge(seat, seat->place, VERDICT_OK, seat->fuzz->tally.feed_worths);
    seat->place = check_entries(seat, seat->place, entries, count, false);
}

static void on_broken(struct roomlog_follower *follower, enum verdict why, struct stream_id head)
{
    struct seat *seat = seat_of(follower);
    judge(seat, seat->place, why, seat->fuzz->tally.feed_worths);
    seat->breaks++;
    seat->place = room_truth_end(&seat->history->truth);
    if (!stream_id_eq(seat->place.id, head))
        broke(seat, "a feed goes on at %s, not %s", text_of(head), text_of(seat->place.id));
}

static const struct roomlog_follower_ops FEED = {
    .started = on_started, .entries = on_entries, .broken = on_broken};

/* What the feed must tell, by the table, of what it will find. Whether that is honest is judged
 * when it does. */
static void expect(struct seat *seat)
{
    const struct room_truth *truth = &seat->history->truth;
    struct verdict_info info = room_truth_info(truth);
    uint16_t marks[ROOM_TRUTH_LINE];
    seat->due = seat->started && seat->history->rang;
    seat->breaks_due = seat->breaks;
    seat->place_due = seat->place.id;
    if (!seat->due)
        return;
    /* The first at or above the cursor, as an inclusive read has it. */
    struct stream_id below = seat->place.id;
    bool zero = stream_id_is_zero(below);
    if (!zero)
        below = below.seq != 0 ? (struct stream_id){below.ms, below.seq - 1}
                               : (struct stream_id){below.ms - 1, UINT64_MAX};
    size_t there = room_truth_after(truth, below, marks, ROOM_TRUTH_LINE);
    const struct stream_id *first = there != 0 ? &truth->id[marks[0]] : NULL;
    if (verdict_of(seat->place.id, first, &info) != VERDICT_OK) {
        seat->breaks_due++;
        seat->place_due = info.last;
    } else if (there != 0) {
        seat->place_due = truth->id[marks[there - 1]];
    }
}

static bool is_settled(const struct seat *seat)
{
    if (seat->follower.impl != NULL && !seat->started)
        return false;
    return !seat->due ||
           (seat->breaks == seat->breaks_due && stream_id_eq(seat->place.id, seat->place_due));
}

static bool all_answered(void *arg)
{
    struct fuzz *fuzz = arg;
    if (fuzz->reading != 0)
        return false;
    while (fuzz->settled < fuzz->count && is_settled(&fuzz->seats[fuzz->settled]))
        fuzz->settled++;
    return fuzz->settled == fuzz->count;
}

/* --- histories ------------------------------------------------------------------------------ */

static void draw_round(struct fuzz *fuzz)
{
    for (size_t i = 0; i < fuzz->count; i++) {
        struct log_history *h = &fuzz->histories[i];
        h->count = 0;
        h->rang = false;
        if (room_truth_has_room(&h->truth, LOG_HISTORY_OPS))
            log_history_draw(h, fuzz->store->can);
        for (size_t k = 0; k < h->count; k++)
            trace(fuzz, "%s", log_history_op_text(&h->ops[k]));
    }
}

static void ask_round(struct fuzz *fuzz)
{
    fuzz->settled = 0;
    for (size_t i = 0; i < fuzz->count; i++) {
        struct seat *seat = &fuzz->seats[i];
        struct log_history *h = seat->history;
        expect(seat);
        if (h->followed && fuzz->store->can_follow && seat->follower.impl == NULL &&
            rng_chance(&h->rng, 60)) {
            seat->follower.ops = &FEED;
            roomlog_follow(fuzz->log, str_from(h->room), &seat->follower);
        }
        for (size_t k = 0; k < CLIENTS; k++)
            if (rng_chance(&h->rng, 60))
                read_on(&seat->clients[k]);
    }
}

static void wait_round(struct fuzz *fuzz)
{
    if (fuzz->store->run(all_answered, fuzz))
        return;
    const struct seat *seat = &fuzz->seats[fuzz->settled < fuzz->count ? fuzz->settled : 0];
    broke(seat, "the feed stands at %s, not %s, after %u breaks, not %u", text_of(seat->place.id),
          text_of(seat->place_due), seat->breaks, seat->breaks_due);
}

/* A feed that holds its tongue says that nothing was lost. */
static void judge_silence(struct fuzz *fuzz)
{
    for (size_t i = 0; i < fuzz->count; i++) {
        struct seat *seat = &fuzz->seats[i];
        if (seat->started && seat->due)
            judge(seat, seat->place, VERDICT_OK, fuzz->tally.feed_worths);
    }
}

static void play(struct fuzz *fuzz, uint64_t first, size_t count)
{
    struct rng rng;
    rng_init(&rng, first / BATCH);
    fuzz->store->begin(1 + (unsigned)rng_below(&rng, 100));
    fuzz->count = count;
    fuzz->seats = xalloc_zero(count * sizeof(*fuzz->seats));
    for (size_t i = 0; i < count; i++) {
        struct seat *seat = &fuzz->seats[i];
        seat->fuzz = fuzz;
        seat->history = &fuzz->histories[i];
        log_history_init(seat->history, first + i);
        for (size_t k = 0; k < CLIENTS; k++) {
            seat->clients[k].seat = seat;
            seat->clients[k].place.mark = ROOM_TRUTH_NOWHERE;
        }
    }
    for (int round = 0; round < ROUNDS_MAX; round++) {
        draw_round(fuzz);
        fuzz->store->apply(fuzz->histories, count);
        ask_round(fuzz);
        wait_round(fuzz);
        judge_silence(fuzz);
    }
    for (size_t i = 0; i < count; i++) {
        roomlog_unfollow(fuzz->log, &fuzz->seats[i].follower);
        log_history_fini(&fuzz->histories[i]);
    }
    free(fuzz->seats);
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void report(const struct tally *tally, uint64_t histories, uint64_t first)
{
    (void)printf("%" PRIu64 " histories from seed %" PRIu64 " on: %" PRIu64 " reads (", histories,
                 first, tally->reads);
    for (int i = 0; i < VERDICTS; i++)
        (void)printf("%s%" PRIu64 " %s", i == 0 ? "" : ", ", tally->verdicts[i],
                     verdict_text((enum verdict)i));
    (void)printf("), feeds told %" PRIu64 " times\n", tally->feed_tellings);
    for (int i = 0; i < ROOM_TRUTH_WORTHS; i++)
        (void)printf("  %s: %" PRIu64 " reads, %" PRIu64 " feeds\n",
                     room_truth_worth_text((enum room_truth_worth)i), tally->worths[i],
                     tally->feed_worths[i]);
    (void)fflush(stdout);
}

/* A fuzz that never meets these proves nothing about them. */
static void must_have_met(const struct tally *tally, const struct log_store *store)
{
    for (int i = 0; i < VERDICTS; i++)
        ck_assert_uint_ne(tally->verdicts[i], 0);
    for (int i = 0; i < ROOM_TRUTH_LOSS; i++) {
        ck_assert_uint_ne(tally->worths[i], 0);
        if (store->can_follow)
            ck_assert_uint_ne(tally->feed_worths[i], 0);
    }
}

static void run_histories(const struct log_store *store)
{
    uint64_t histories = from_env("ROOMD_MODEL_HISTORIES", 2000);
    uint64_t first = from_env("ROOMD_MODEL_SEED", 1);
    logger_setup(LOGGER_ERROR, LOGGER_LOGFMT);
    struct fuzz *fuzz = xalloc_zero(sizeof(*fuzz));
    fuzz->store = store;
    fuzz->trace = histories == 1;
    fuzz->log = store->open();
    for (uint64_t at = first; at < first + histories;) {
        /* Those of one batch share what is asked of Redis, so a seed's batch is always the same. */
        uint64_t left = BATCH - at % BATCH;
        if (left > first + histories - at)
            left = first + histories - at;
        play(fuzz, at, (size_t)left);
        at += left;
    }
    store->close();
    report(&fuzz->tally, histories, first);
    if (histories >= 1000)
        must_have_met(&fuzz->tally, store);
    free(fuzz);
}

START_TEST(redis_never_hides_a_loss)
{
    run_histories(&log_store_redis);
}
END_TEST

START_TEST(the_log_in_the_process_never_hides_a_loss)
{
    run_histories(&log_store_mem);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("verdict_fuzz");
    TCase *tc = tcase_create("histories");
    tcase_set_timeout(tc, 1800);
    tcase_add_test(tc, redis_never_hides_a_loss);
    tcase_add_test(tc, the_log_in_the_process_never_hides_a_loss);
    suite_add_tcase(suite, tc);
    return suite;
}
