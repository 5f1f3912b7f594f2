#include "tests/model/room_truth.h"

#include <assert.h>

bool room_truth_has_room(const struct room_truth *truth, size_t n)
{
    return truth->marks + n <= ROOM_TRUTH_MARKS && truth->now.count + n <= ROOM_TRUTH_LINE;
}

/* --- what is done to a log ------------------------------------------------------------------ */

static void append(struct room_truth *truth, struct stream_id id, enum room_truth_fate fate)
{
    struct room_truth_log *log = &truth->now;
    assert(room_truth_has_room(truth, 1));
    truth->id[truth->marks] = id;
    log->mark[log->count] = (uint16_t)truth->marks++;
    log->fate[log->count++] = (uint8_t)fate;
    log->last = id;
}

void room_truth_add(struct room_truth *truth, struct stream_id id)
{
    append(truth, id, ROOM_TRUTH_KEPT);
    truth->now.exists = true;
    truth->now.added++;
}

void room_truth_trim(struct room_truth *truth, size_t removed)
{
    struct room_truth_log *log = &truth->now;
    for (size_t i = 0; i < log->count && removed != 0; i++) {
        if (log->fate[i] != ROOM_TRUTH_KEPT)
            continue;
        log->fate[i] = ROOM_TRUTH_TRIMMED;
        removed--;
    }
    assert(removed == 0);
}

void room_truth_delete(struct room_truth *truth, struct stream_id id)
{
    struct room_truth_log *log = &truth->now;
    for (size_t i = 0; i < log->count; i++) {
        if (log->fate[i] != ROOM_TRUTH_KEPT || !stream_id_eq(truth->id[log->mark[i]], id))
            continue;
        log->fate[i] = ROOM_TRUTH_DELETED;
        if (stream_id_cmp(id, log->max_deleted) > 0)
            log->max_deleted = id;
        return;
    }
    assert(!"deleted, but it wasn't there");
}

void room_truth_set_id(struct room_truth *truth, struct stream_id id)
{
    append(truth, id, ROOM_TRUTH_SET);
}

void room_truth_reset(struct room_truth *truth)
{
    truth->forgotten = truth->forgotten || truth->now.added != 0;
    truth->now = (struct room_truth_log){.exists = false};
}

void room_truth_fail_over(struct room_truth *truth, const struct room_truth_log *to)
{
    if (!to->exists)
        room_truth_reset(truth);
    else
        truth->now = *to;
}

/* --- what there is -------------------------------------------------------------------------- */

struct verdict_info room_truth_info(const struct room_truth *truth)
{
    const struct room_truth_log *log = &truth->now;
    struct verdict_info info = {.exists = log->exists,
                                .added = log->added,
                                .last = log->last,
                                .max_deleted = log->max_deleted};
    for (size_t i = 0; i < log->count; i++)
        if (log->fate[i] == ROOM_TRUTH_KEPT && info.length++ == 0)
            info.first = truth->id[log->mark[i]];
    return info;
}

size_t room_truth_after(const struct room_truth *truth, struct stream_id id, uint16_t *marks,
                        size_t cap)
{
    const struct room_truth_log *log = &truth->now;
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++) {
        if (log->fate[i] != ROOM_TRUTH_KEPT || stream_id_cmp(truth->id[log->mark[i]], id) <= 0)
            continue;
        if (count < cap)
            marks[count] = log->mark[i];
        count++;
    }
    return count;
}

struct room_truth_place room_truth_end(const struct room_truth *truth)
{
    const struct room_truth_log *log = &truth->now;
    if (log->count == 0)
        return (struct room_truth_place){.mark = ROOM_TRUTH_NOWHERE};
    return (struct room_truth_place){log->last, log->mark[log->count - 1]};
}

/* --- judging -------------------------------------------------------------------------------- */

/* What became of what a client at a place is owed. */
struct owed {
    bool on_line; /* its place is on the log's line */
    enum room_truth_fate own;
    size_t trimmed, deleted; /* of what came after it */
    bool put_back; /* an XSETID went back behind it, so ids around it are given out again */
};

static struct owed owed_to(const struct room_truth *truth, struct room_truth_place place)
{
    const struct room_truth_log *log = &truth->now;
    struct owed owed = {.on_line = place.mark == ROOM_TRUTH_NOWHERE, .own = ROOM_TRUTH_SET};
    bool by_id = owed.on_line; /* nobody knows more of a place that is none */
    for (size_t i = 0; i < log->count; i++) {
        if (log->mark[i] == place.mark) {
            owed = (struct owed){.on_line = true, .own = log->fate[i]};
            continue;
        }
        if (!owed.on_line || (by_id && stream_id_cmp(truth->id[log->mark[i]], place.id) <= 0))
            continue;
        owed.trimmed += log->fate[i] == ROOM_TRUTH_TRIMMED;
        owed.deleted += log->fate[i] == ROOM_TRUTH_DELETED;
        if (log->fate[i] == ROOM_TRUTH_SET && stream_id_cmp(truth->id[log->mark[i]], place.id) < 0)
            owed.put_back = true;
    }
    return owed;
}

static bool used_twice(const struct room_truth *truth, struct stream_id id)
{
    size_t uses = 0;
    for (size_t i = 0; i < truth->marks; i++)
        uses += stream_id_eq(truth->id[i], id);
    return uses > 1;
}

static enum room_truth_worth judge_honoured(const struct room_truth *truth,
                                            struct room_truth_place place, const struct owed *owed)
{
    if (stream_id_is_zero(place.id)) {
        if (owed->trimmed + owed->deleted != 0)
            return ROOM_TRUTH_LOSS;
        return truth->forgotten ? ROOM_TRUTH_BLIND_ZERO : ROOM_TRUTH_RIGHT;
    }
    if (owed->on_line && owed->trimmed == 0)
        return ROOM_TRUTH_RIGHT;
    bool blind = owed->put_back || used_twice(truth, place.id);
    return blind ? ROOM_TRUTH_BLIND_REUSED : ROOM_TRUTH_LOSS;
}

/* Needless it is where nothing after the client's place was trimmed. What the log can show must
 * then have been shown: its entry, or that it is the last or the highest that was deleted. */
static enum room_truth_worth judge_refused(const struct room_truth *truth,
                                           struct room_truth_place place, const struct owed *owed)
{
    if (!owed->on_line || owed->trimmed != 0)
        return ROOM_TRUTH_RIGHT;
    if (stream_id_is_zero(place.id))
        return owed->deleted != 0 ? ROOM_TRUTH_HOLE : ROOM_TRUTH_NEEDLESS;
    if (place.mark == ROOM_TRUTH_NOWHERE)
        return ROOM_TRUTH_RIGHT; /* made up */

    const struct verdict_info info = room_truth_info(truth);
    if (owed->own == ROOM_TRUTH_KEPT || stream_id_eq(place.id, info.last))
        return ROOM_TRUTH_NEEDLESS;
    if (owed->own == ROOM_TRUTH_TRIMMED)
        return ROOM_TRUTH_LAST_TRIMMED;
    /* Its own entry was deleted, and is the highest that was: that shows it, unless it lies before
     * the first that is there, or beyond a last id that XSETID put back. */
    bool outside = info.length == 0 || stream_id_cmp(place.id, info.first) < 0 ||
                   stream_id_cmp(place.id, info.last) > 0;
    if (!outside && stream_id_eq(place.id, info.max_deleted))
        return ROOM_TRUTH_NEEDLESS;
    return ROOM_TRUTH_HOLE;
}

enum room_truth_worth room_truth_judge(const struct room_truth *truth,
                                       struct room_truth_place place, enum verdict verdict)
{
    struct owed owed = owed_to(truth, place);
    return verdict == VERDICT_OK ? judge_honoured(truth, place, &owed)
                                 : judge_refused(truth, place, &owed);
}

const char *room_truth_worth_text(enum room_truth_worth worth)
{
    static const char *const texts[ROOM_TRUTH_WORTHS] = {
        [ROOM_TRUTH_RIGHT] = "right",
        [ROOM_TRUTH_BLIND_ZERO] = "blind: 0-0 across a DEL",
        [ROOM_TRUTH_BLIND_REUSED] = "blind: an id used twice",
        [ROOM_TRUTH_LAST_TRIMMED] = "needless: the last trimmed",
        [ROOM_TRUTH_HOLE] = "needless: undecidable hole",
        [ROOM_TRUTH_LOSS] = "A LOSS THAT WASN'T TOLD",
        [ROOM_TRUTH_NEEDLESS] = "A NEEDLESS RESYNC",
    };
    return texts[worth];
}
