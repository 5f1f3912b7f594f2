/* check_ordering.c - the promise, held against random histories.
 *
 * The real registry, rooms, replay, sessions and memory log run in one process with a fake clock
 * and fake sockets, behind a log line that delays answers and live entries at random
 * (delayed_roomlog.h). Clients follow the protocol: each applies what it is sent by the client's
 * rule, strictly, so that an entry sent twice or out of chain is a failure, and not forgiven.
 * Histories are random interleavings of joins, appends, page replies, trims, deletions, resets,
 * lost tails, stalls, drains, closes and rejoins.
 *
 * At the end everything is let through, and each client must be live and have applied exactly the
 * log after its cursor: every entry that anybody appended after the place where it began, but for
 * those that were deleted, in order, once, and none that the log has lost since; or it was told
 * `resync`, and that holds from there. Whoever began with a snapshot has the room's exact state.
 *
 * ROOMD_MODEL_HISTORIES (default 2000) says how many, ROOMD_MODEL_SEED which comes first. A failure
 * prints its seed, and ROOMD_MODEL_HISTORIES=1 ROOMD_MODEL_SEED=<it> plays it again, with every
 * step printed.
 */
#include "base/logger.h"
#include "base/xalloc.h"
#include "protocol/frame.h"
#include "room/registry.h"
#include "roomlog/roomlog_mem.h"
#include "tests/lib/delayed_roomlog.h"
#include "tests/lib/fake_conn.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/suite.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    ROOMS = 2,
    CLIENTS = 3,
    KEYS = 3,
    TRUTH_MAX = 1024,
    APPENDS_MAX = 64,
    SETTLE_ROUNDS = 4000,
    DRAWS = 100
};

enum fate { KEPT, TRIMMED, DELETED, LOST };

/* Every entry that was ever appended to a room, in order. */
struct truth {
    struct stream_id id[TRUTH_MAX];
    enum fate fate[TRUTH_MAX];
    int key[TRUTH_MAX]; /* -1: none */
    bool taken_out[TRUTH_MAX];
    size_t count;
};

/* Of each key the entry that stands in a room's state. */
struct state {
    struct stream_id id[KEYS]; /* of the newest that is known, one that took it out included */
    bool is_set[KEYS];
};

/* A client has one join or leave of a room under way at a time, and drops what comes meanwhile. */
enum seat_state { SEAT_OUT, SEAT_ASKED, SEAT_LEAVING, SEAT_IN, SEAT_LIVE };

/* A client's place in one room, by the client's rule. */
struct seat {
    enum seat_state state;
    bool has_cursor;
    struct stream_id cursor;
    struct stream_id applied[TRUTH_MAX]; /* since the last fresh start */
    size_t count;
    bool has_base; /* the cursor it began from; none: it began with applied[0] */
    struct stream_id base;
    enum frame_start asked; /* how the last join asked for a fresh start */
    enum frame_start start; /* how the last fresh start began */
    uint32_t newest;
    uint32_t bound;    /* `last` of the join: what a resync begins with, 0: everything */
    size_t live_since; /* truth.count when it went live after that */
    bool fresh_live;
    bool wants_state;  /* said the last join */
    bool fresh;        /* since then it began afresh, */
    bool has_snapshot; /* and with a snapshot */
    struct state keyed;
};

struct client {
    struct world *world;
    struct fake_conn conn;
    bool stalled;
    struct seat seats[ROOMS];
};

struct world {
    uint64_t seed;
    bool trace;
    struct rng rng;
    struct fake_loop loop;
    struct metrics metrics;
    struct roomlog *mem;
    struct roomlog *log;
    struct registry registry;
    struct session_host host;
    struct truth truth[ROOMS];
    bool may_resync[ROOMS];
    bool deleted[ROOMS];
    bool tail_lost[ROOMS];
    struct client clients[CLIENTS];
    struct pending_append {
        struct roomlog_append append;
        struct world *world;
        int room;
        int key;
        bool takes_out;
        bool busy;
    } appends[APPENDS_MAX];
    struct stream_id retained[TRUTH_MAX];
    size_t retained_count;
};

static const char *const NAMES[ROOMS] = {"red", "blue"};

static void broke(const struct world *w, const char *fmt, ...) RD_PRINTF(2, 3);

static void broke(const struct world *w, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    ck_abort_msg("seed %" PRIu64 ": %s", w->seed, text);
}

static void trace(const struct world *w, const char *fmt, ...) RD_PRINTF(2, 3);

static void trace(const struct world *w, const char *fmt, ...)
{
    if (!w->trace)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

/* Check's own assertions write a file each: too dear here. */
static void need(bool truth)
{
    if (!truth)
        ck_abort_msg("what must hold does not");
}

static unsigned draw(struct world *w, unsigned bound)
{
    return (unsigned)rng_below(&w->rng, bound);
}

/* --- frames, as a client reads them --------------------------------------------------------- */

/* The text of a string member, NULL where it is null or absent. Our own frames, whose data holds no
 * such member. */
static bool member(const char *frame, const char *name, char *out, size_t cap)
{
    char wanted[32];
    (void)snprintf(wanted, sizeof(wanted), "\"%s\":\"", name);
    const char *at = strstr(frame, wanted);
    if (at == NULL)
        return false;
    at += strlen(wanted);
    size_t len = strcspn(at, "\"");
    need(len < cap);
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

static bool id_member(const char *frame, const char *name, struct stream_id *out)
{
    char text[64];
    if (!member(frame, name, text, sizeof(text)))
        return false;
    need(stream_id_parse(str_from(text), out));
    return true;
}

static void begin_afresh(struct seat *seat)
{
    seat->fresh = true;
    seat->has_snapshot = false;
    seat->keyed = (struct state){0};
    seat->has_cursor = false;
    seat->has_base = false;
    seat->count = 0;
    seat->fresh_live = false;
}

/* A resync that was under way when the client asked looks like its answer. The real answer then
 * names a cursor that is the client's no more, and the client joins once again with the one it has.
 */
static void on_joined_frame(struct seat *seat, const char *frame)
{
    struct stream_id from;
    seat->state = SEAT_IN;
    if (!id_member(frame, "from", &from)) {
        begin_afresh(seat);
        seat->start = seat->asked;
        seat->newest = seat->bound;
    } else if (!seat->has_cursor || !stream_id_eq(from, seat->cursor)) {
        seat->state = SEAT_OUT;
    }
}

/* Of an entry, or of one in a snapshot. What is older than what is known changes nothing. */
static void fold(struct state *state, const char *entry)
{
    char key[8];
    struct stream_id id = STREAM_ID_ZERO;
    if (!member(entry, "key", key, sizeof(key)))
        return;
    size_t which = (size_t)(key[1] - '0');
    need(which < KEYS && id_member(entry, "id", &id));
    if (stream_id_cmp(id, state->id[which]) <= 0)
        return;
    state->id[which] = id;
    state->is_set[which] = strstr(entry, "\"data\":null") == NULL;
}

/* Our entries hold no bracket but their own. */
static void on_snapshot_frame(struct client *c, struct seat *seat, char *frame)
{
    struct stream_id id;
    if (seat->state < SEAT_IN)
        return; /* of the join before */
    if (seat->state == SEAT_LIVE || !seat->wants_state || seat->has_cursor || seat->has_snapshot)
        broke(c->world, "a snapshot out of turn: %s", frame);
    char *entries = strchr(frame, '[');
    need(entries != NULL);
    for (char *entry = entries + 1; *entry == '{';) {
        char *end = strchr(entry, '}');
        if (strstr(entry, "{\"n\"") != NULL && strstr(entry, "{\"n\"") < end)
            end++; /* that was data's */
        char next = end[1];
        end[1] = '\0';
        fold(&seat->keyed, entry);
        end[1] = next;
        entry = end + (next == ',' ? 2 : 1);
    }
    if (strstr(entries, "\"more\":true") != NULL)
        return;
    seat->has_snapshot = true;
    *entries = '\0';
    if (!id_member(frame, "id", &id))
        return;
    seat->has_cursor = seat->has_base = true;
    seat->cursor = seat->base = id;
}

/* The client's rule, but that nothing is forgiven: what follows an answer must chain. */
static void on_entry_frame(struct client *c, struct seat *seat, const char *frame)
{
    struct stream_id id;
    struct stream_id prev;
    if (seat->state < SEAT_IN)
        return; /* of the join before */
    need(id_member(frame, "id", &id));
    bool has_prev = id_member(frame, "prev", &prev);
    if (seat->has_cursor && stream_id_cmp(id, seat->cursor) <= 0)
        broke(c->world, "sent twice or out of order: %s", frame);
    if (seat->has_cursor && (!has_prev || !stream_id_eq(prev, seat->cursor)))
        broke(c->world, "sent out of chain: %s", frame);
    seat->has_cursor = true;
    seat->cursor = id;
    need(seat->count < TRUTH_MAX);
    seat->applied[seat->count++] = id;
    fold(&seat->keyed, frame);
}

static void on_live_frame(struct client *c, struct seat *seat, int room, const char *frame)
{
    struct stream_id cursor;
    need(id_member(frame, "cursor", &cursor));
    if (seat->state < SEAT_IN)
        return; /* of the join before */
    if (seat->state != SEAT_IN)
        broke(c->world, "live out of turn: %s", frame);
    if (seat->wants_state && seat->fresh && !seat->has_snapshot)
        broke(c->world, "live without a snapshot: %s", frame);
    if (!seat->has_cursor) {
        seat->has_cursor = seat->has_base = true;
        seat->cursor = seat->base = cursor;
    } else if (!stream_id_eq(cursor, seat->cursor)) {
        broke(c->world, "live at a place that is not the client's: %s", frame);
    }
    if (!seat->fresh_live)
        seat->live_since = c->world->truth[room].count;
    seat->fresh_live = true;
    seat->state = SEAT_LIVE;
}

static void on_text(void *arg, struct str text)
{
    struct client *c = arg;
    char frame[2048];
    char op[16];
    char name[16];
    need(text.len < sizeof(frame));
    memcpy(frame, text.p, text.len);
    frame[text.len] = '\0';
    need(member(frame, "op", op, sizeof(op)));
    if (!member(frame, "room", name, sizeof(name)))
        return;
    int room = strcmp(name, NAMES[0]) == 0 ? 0 : 1;
    struct seat *seat = &c->seats[room];
    trace(c->world, "    client %td < %s", c - c->world->clients, frame);

    if (strcmp(op, "joined") == 0) {
        on_joined_frame(seat, frame);
    } else if (strcmp(op, "resync") == 0) {
        if (!c->world->may_resync[room])
            broke(c->world, "a needless resync: %s", frame);
        if (seat->state == SEAT_LEAVING)
            return; /* under way when the client left */
        begin_afresh(seat);
        seat->start = seat->bound == 0 ? FRAME_START_ALL : FRAME_START_LAST;
        seat->newest = seat->bound;
        seat->state = SEAT_IN;
    } else if (strcmp(op, "snapshot") == 0) {
        on_snapshot_frame(c, seat, frame);
    } else if (strcmp(op, "entry") == 0) {
        on_entry_frame(c, seat, frame);
    } else if (strcmp(op, "live") == 0) {
        on_live_frame(c, seat, room, frame);
    } else if (strcmp(op, "left") == 0) {
        seat->state = SEAT_OUT;
    } else if (strcmp(op, "reject") == 0 || strcmp(op, "error") == 0) {
        broke(c->world, "refused: %s", frame);
    }
}

/* --- steps ---------------------------------------------------------------------------------- */

static void on_appended(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                        bool duplicate)
{
    struct pending_append *pending = RD_CONTAINER(append, struct pending_append, append);
    struct truth *truth = &pending->world->truth[pending->room];
    need(err == RD_OK && !duplicate && truth->count < TRUTH_MAX);
    truth->id[truth->count] = id;
    truth->key[truth->count] = pending->key;
    truth->taken_out[truth->count] = pending->takes_out;
    truth->fate[truth->count++] = KEPT;
    pending->busy = false;
}

static void append(struct world *w, int room)
{
    for (int i = 0; i < APPENDS_MAX; i++) {
        struct pending_append *pending = &w->appends[i];
        if (pending->busy)
            continue;
        static const char *const KEY_NAMES[KEYS] = {"k0", "k1", "k2"};
        *pending = (struct pending_append){
            .append = {.done = on_appended}, .world = w, .room = room, .key = -1, .busy = true};
        struct roomlog_publish what = {.type = STR("t"), .data = STR("{\"n\":1}")};
        if (rng_chance(&w->rng, 50)) {
            pending->key = (int)draw(w, KEYS);
            what.key = str_from(KEY_NAMES[pending->key]);
            pending->takes_out = rng_chance(&w->rng, 25);
            if (pending->takes_out)
                what.data = STR("null");
        }
        need(roomlog_append(w->log, str_from(NAMES[room]), &what, &pending->append) == RD_OK);
        return;
    }
}

static void disconnect(struct client *c)
{
    fake_conn_close(&c->conn);
    for (int i = 0; i < ROOMS; i++)
        c->seats[i].state = SEAT_OUT;
}

static void connect_client(struct world *w, struct client *c)
{
    c->world = w;
    if (c->conn.session == NULL)
        fake_conn_open(&c->conn, &w->host, NULL, on_text, c);
}

static void ask_fresh(struct world *w, struct client *c, struct seat *seat, int room)
{
    static const char *const HOW[] = {"", ",\"cursor\":\"0-0\"", ",\"cursor\":\"$\"",
                                      ",\"last\":3"};
    static const enum frame_start START[] = {FRAME_START_ALL, FRAME_START_ALL, FRAME_START_NEW,
                                             FRAME_START_LAST};
    unsigned how = draw(w, 4);
    const char *state = seat->wants_state ? ",\"state\":true" : "";
    seat->asked = START[how];
    seat->bound = how == 3 ? 3 : 0;
    fake_conn_send(&c->conn, "{\"op\":\"join\",\"room\":\"%s\"%s%s}", NAMES[room], HOW[how], state);
}

static void join(struct world *w, struct client *c, int room)
{
    struct seat *seat = &c->seats[room];
    connect_client(w, c);
    if (session_closing(c->conn.session) || seat->state == SEAT_ASKED ||
        seat->state == SEAT_LEAVING)
        return;
    seat->state = SEAT_ASKED;
    seat->wants_state = rng_chance(&w->rng, 50);
    seat->fresh = false;
    if (!seat->has_cursor || stream_id_is_zero(seat->cursor) || rng_chance(&w->rng, 5)) {
        begin_afresh(seat);
        ask_fresh(w, c, seat, room);
        return;
    }
    char id[STREAM_ID_TEXT_MAX];
    int len = (int)stream_id_format(seat->cursor, id);
    bool bounded = rng_chance(&w->rng, 30);
    fake_conn_send(&c->conn, "{\"op\":\"join\",\"room\":\"%s\",\"cursor\":\"%.*s\"%s%s}",
                   NAMES[room], len, id, bounded ? ",\"last\":2" : "",
                   seat->wants_state ? ",\"state\":true" : "");
    seat->bound = bounded ? 2 : 0;
}

static void leave(struct client *c, int room)
{
    if (c->conn.session == NULL || session_closing(c->conn.session))
        return;
    if (c->seats[room].state < SEAT_IN)
        return;
    c->seats[room].state = SEAT_LEAVING;
    fake_conn_send(&c->conn, "{\"op\":\"leave\",\"room\":\"%s\"}", NAMES[room]);
}

static void read_some(struct world *w, struct client *c, size_t max_bytes)
{
    if (c->conn.session == NULL)
        return;
    (void)fake_conn_read(&c->conn, max_bytes);
    if (c->conn.close_code != 0 && c->conn.close_code != CLOSE_SLOW)
        broke(w, "closed with %u", c->conn.close_code);
    if (c->conn.close_code != 0 || c->conn.aborted)
        disconnect(c);
    else if (c->conn.session != NULL && max_bytes != 0)
        session_alive(c->conn.session);
}

static void trim(struct world *w, int room, size_t keep)
{
    struct truth *truth = &w->truth[room];
    size_t kept = 0;
    for (size_t i = truth->count; i-- > 0;)
        if (truth->fate[i] == KEPT && kept++ >= keep)
            truth->fate[i] = TRIMMED;
    w->may_resync[room] = true;
    roomlog_mem_trim(w->mem, str_from(NAMES[room]), keep);
}

static void delete_one(struct world *w, int room)
{
    struct truth *truth = &w->truth[room];
    if (truth->count == 0)
        return;
    /* The newest more often: that is where cursors are. */
    size_t back = rng_chance(&w->rng, 50) ? 0 : draw(w, 5);
    if (back >= truth->count)
        return;
    size_t which = truth->count - 1 - back;
    w->may_resync[room] = true;
    if (roomlog_mem_delete(w->mem, str_from(NAMES[room]), truth->id[which])) {
        truth->fate[which] = DELETED;
        w->deleted[room] = true;
    }
}

/* Time moves on, so that no id of the old log is minted again: that would be seen by nobody. */
static void lose(struct world *w, int room, size_t lost)
{
    struct truth *truth = &w->truth[room];
    w->may_resync[room] = true;
    for (size_t i = truth->count; i-- > 0 && lost != 0;) {
        if (truth->fate[i] != KEPT)
            continue;
        truth->fate[i] = LOST;
        lost--;
    }
    fake_loop_set_wall(&w->loop, w->loop.wall_ms + 1000);
}

static void reset(struct world *w, int room)
{
    struct truth *truth = &w->truth[room];
    for (size_t i = 0; i < truth->count; i++)
        truth->fate[i] = LOST;
    lose(w, room, 0);
    w->deleted[room] = w->tail_lost[room] = false;
    roomlog_mem_reset(w->mem, str_from(NAMES[room]));
}

static void lose_tail(struct world *w, int room)
{
    /* A replica that lost the tail has not seen deletions of it either: the memory log can't play
     * that. */
    if (w->deleted[room])
        return;
    size_t retained = 0;
    size_t lost = 1 + draw(w, 4);
    const struct truth *truth = &w->truth[room];
    for (size_t i = 0; i < truth->count; i++)
        retained += truth->fate[i] == KEPT;
    if (retained <= lost)
        return;
    lose(w, room, lost);
    w->tail_lost[room] = true;
    roomlog_mem_lose_tail(w->mem, str_from(NAMES[room]), lost);
}

static void step(struct world *w, bool destructive)
{
    struct client *c = &w->clients[draw(w, CLIENTS)];
    int room = (int)draw(w, ROOMS);
    unsigned drawn = draw(w, DRAWS);

    trace(w, "  %u client %td room %s", drawn, c - w->clients, NAMES[room]);
    if (drawn < 18)
        append(w, room);
    else if (drawn < 21)
        for (unsigned n = draw(w, 15); n > 0; n--)
            append(w, room);
    else if (drawn < 33)
        join(w, c, room);
    else if (drawn < 36)
        leave(c, room);
    else if (drawn < 52)
        (void)delayed_roomlog_step(w->log, &w->rng);
    else if (drawn < 66)
        (void)fake_loop_step(&w->loop);
    else if (drawn < 82)
        read_some(w, c, c->stalled ? 0 : 1 + draw(w, 1500));
    else if (drawn < 86)
        c->stalled = !c->stalled;
    else if (drawn < 90)
        disconnect(c);
    else if (drawn < 92)
        fake_loop_advance(&w->loop, draw(w, 4000));
    else if (!destructive)
        fake_loop_advance(&w->loop, draw(w, 3));
    else if (drawn < 95)
        trim(w, room, draw(w, 8));
    else if (drawn < 97)
        delete_one(w, room);
    else if (drawn < 99)
        lose_tail(w, room);
    else
        reset(w, room);
}

/* --- the end -------------------------------------------------------------------------------- */

static bool settled(const struct world *w)
{
    for (int i = 0; i < CLIENTS; i++)
        for (int room = 0; room < ROOMS; room++)
            if (w->clients[i].seats[room].state != SEAT_LIVE)
                return false;
    return true;
}

/* Lets everything through; whoever isn't in a room joins it with the cursor it has. */
static void settle(struct world *w)
{
    for (int round = 0; round < SETTLE_ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            struct client *c = &w->clients[i];
            c->stalled = false;
            for (int room = 0; room < ROOMS; room++)
                if (c->seats[room].state == SEAT_OUT)
                    join(w, c, room);
            read_some(w, c, SIZE_MAX);
        }
        bool moved = delayed_roomlog_step(w->log, &w->rng);
        moved |= fake_loop_step(&w->loop);
        if (!moved && settled(w))
            return;
        if (!moved)
            fake_loop_advance(&w->loop, 100);
    }
    broke(w, "somebody never got live");
}

static bool applied(const struct seat *seat, struct stream_id id)
{
    for (size_t i = 0; i < seat->count; i++)
        if (stream_id_eq(seat->applied[i], id))
            return true;
    return false;
}

static void on_retained(struct roomlog_read *read, enum rd_err err,
                        const struct roomlog_page *page);

struct retained_read {
    struct roomlog_read read;
    struct world *world;
};

static void on_retained(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    struct world *w = RD_CONTAINER(read, struct retained_read, read)->world;
    need(err == RD_OK && page->at_end);
    w->retained_count = page->count;
    for (size_t i = 0; i < page->count; i++)
        w->retained[i] = page->entries[i].id;
}

static void read_retained(struct world *w, int room)
{
    struct retained_read r = {.world = w,
                              .read = {.from = ROOMLOG_ALL,
                                       .max_entries = TRUTH_MAX,
                                       .max_bytes = SIZE_MAX,
                                       .done = on_retained}};
    need(roomlog_read(w->mem, str_from(NAMES[room]), &r.read) == RD_OK);
    fake_loop_turn(&w->loop);
    need(r.read.impl == NULL);
}

static void check_fresh_start(const struct world *w, int who, int room)
{
    const struct seat *seat = &w->clients[who].seats[room];
    size_t need = w->retained_count;
    if (seat->start == FRAME_START_LAST && need > seat->newest)
        need = seat->newest;
    if (seat->start == FRAME_START_NEW)
        return;
    if (seat->start == FRAME_START_LAST && (w->deleted[room] || w->tail_lost[room]))
        return; /* the newest of then need not be the newest of now */
    for (size_t i = w->retained_count - need; i < w->retained_count; i++)
        if (!applied(seat, w->retained[i]) &&
            (!seat->has_base || stream_id_cmp(w->retained[i], seat->base) > 0))
            broke(w, "a fresh start of client %d in %s without %" PRIu64 "-%" PRIu64, who,
                  NAMES[room], w->retained[i].ms, w->retained[i].seq);
}

static void check_seat(const struct world *w, int who, int room, bool phantoms_too)
{
    const struct seat *seat = &w->clients[who].seats[room];
    const struct truth *truth = &w->truth[room];
    size_t found = 0;
    for (size_t i = 0; i < truth->count; i++) {
        struct stream_id id = truth->id[i];
        bool has = applied(seat, id);
        found += has;
        if (has && truth->fate[i] == LOST && phantoms_too)
            broke(w, "client %d in %s kept %" PRIu64 "-%" PRIu64 " that the log has lost", who,
                  NAMES[room], id.ms, id.seq);
        bool after = seat->has_base     ? stream_id_cmp(id, seat->base) > 0
                     : seat->count != 0 ? stream_id_cmp(id, seat->applied[0]) >= 0
                                        : false;
        /* Whoever missed one that was trimmed must have been told, too. */
        if (!has && truth->fate[i] <= TRIMMED &&
            (after || (seat->fresh_live && i >= seat->live_since)))
            broke(w, "client %d in %s missed %" PRIu64 "-%" PRIu64, who, NAMES[room], id.ms,
                  id.seq);
    }
    if (found != seat->count)
        broke(w, "client %d in %s applied what nobody appended", who, NAMES[room]);
    if (phantoms_too)
        check_fresh_start(w, who, room);
}

/* Is what it made of the snapshot and the entries since what the log makes of all? Deletions and
 * lost tails leave that open. */
static void check_state(const struct world *w, int who, int room)
{
    const struct seat *seat = &w->clients[who].seats[room];
    const struct truth *truth = &w->truth[room];
    struct state want = {0};
    if (!seat->has_snapshot || w->deleted[room] || w->tail_lost[room])
        return;
    for (size_t i = 0; i < truth->count; i++) {
        if (truth->fate[i] == LOST || truth->key[i] < 0)
            continue;
        want.id[truth->key[i]] = truth->id[i];
        want.is_set[truth->key[i]] = !truth->taken_out[i];
    }
    for (int key = 0; key < KEYS; key++)
        if (seat->keyed.is_set[key] != want.is_set[key] ||
            (want.is_set[key] && !stream_id_eq(seat->keyed.id[key], want.id[key])))
            broke(w, "client %d in %s has another state of k%d", who, NAMES[room], key);
}

static void check(struct world *w, bool phantoms_too)
{
    for (int room = 0; room < ROOMS; room++) {
        read_retained(w, room);
        for (int who = 0; who < CLIENTS; who++) {
            check_seat(w, who, room, phantoms_too);
            if (phantoms_too)
                check_state(w, who, room);
        }
    }
}

/* --- a history ------------------------------------------------------------------------------ */

static void build(struct world *w)
{
    struct rng *rng = &w->rng;
    fake_loop_init(&w->loop, rng_next(rng));
    /* Near a power of ten, so that ids of different lengths meet. */
    fake_loop_set_wall(&w->loop, UINT64_C(999999999999) - rng_below(rng, 3));
    const struct roomlog_mem_limits mem = {.max_entries = TRUTH_MAX,
                                           .max_bytes = 1 << 20,
                                           .max_rooms = 8,
                                           .max_refs = 8,
                                           .max_state_keys = KEYS,
                                           .max_state_bytes = 1 << 16,
                                           .max_states_bytes = 1 << 20,
                                           .max_in_flight = 1024};
    w->mem = roomlog_mem_create(&w->loop.loop, &w->metrics, &mem);
    w->log = delayed_roomlog_create(w->mem);
    const struct registry_limits registry = {
        .max_rooms = ROOMS,
        .linger_ms = rng_below(rng, 2) * 500,
        .ring = {.max_entries = (size_t)rng_below(rng, 12),
                 .max_bytes = 200 + (size_t)rng_below(rng, 2500),
                 .total_bytes = 300 + (size_t)rng_below(rng, 4000)},
        .replay = {.page_entries = 1 + (size_t)rng_below(rng, 5),
                   .page_bytes = 20 + (size_t)rng_below(rng, 200),
                   .frame_bytes = (size_t)rng_below(rng, 400),
                   .in_flight = 1 + (size_t)rng_below(rng, 3),
                   .start_limit_ms = 60000}};
    registry_init(&w->registry, &w->loop.loop, w->log, &w->metrics, &registry);
    const struct session_limits limits = {.high_water = 1500 + (size_t)rng_below(rng, 2000),
                                          .low_water = 1 + (size_t)rng_below(rng, 1000),
                                          .pending_bytes = (size_t)rng_below(rng, 900),
                                          .max_rooms = ROOMS,
                                          .max_publishes = 4,
                                          .max_frame_bytes = 65536,
                                          .packet_budget = 1 << 20,
                                          .max_errors = 4,
                                          .heartbeat_ms = 25000,
                                          .close_ms = 5000,
                                          .patience_ms = rng_below(rng, 2) * 300};
    session_host_init(&w->host, &w->loop.loop, w->log, &w->registry, &w->registry.packets,
                      &w->metrics, &limits);
}

static void take_down(struct world *w)
{
    for (int i = 0; i < CLIENTS; i++)
        disconnect(&w->clients[i]);
    fake_loop_turn(&w->loop);
    session_host_fini(&w->host);
    registry_fini(&w->registry);
    roomlog_close(w->log);
    roomlog_close(w->mem);
    fake_loop_turn(&w->loop);
    fake_loop_fini(&w->loop);
}

static void play(uint64_t seed, bool with_trace, struct metrics *sum)
{
    struct world *w = xalloc_zero(sizeof(*w));
    w->seed = seed;
    w->trace = with_trace;
    rng_init(&w->rng, seed);
    build(w);
    bool destructive = rng_chance(&w->rng, 60);
    for (unsigned steps = 20 + draw(w, 120); steps > 0; steps--)
        step(w, destructive);
    trace(w, "settling");
    settle(w);
    check(w, false);
    /* A page read just before the log lost its tail shows what the feed never saw: that is told
     * with the room's next entry, which doesn't chain. */
    for (int room = 0; room < ROOMS; room++)
        append(w, room);
    fake_loop_turn(&w->loop);
    settle(w);
    check(w, true);
    for (int i = 0; i < METRICS_COUNT; i++)
        sum->v[i] += w->metrics.v[i];
    take_down(w);
    free(w);
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

START_TEST(every_client_has_exactly_the_log_or_was_told)
{
    uint64_t histories = from_env("ROOMD_MODEL_HISTORIES", 2000);
    uint64_t first = from_env("ROOMD_MODEL_SEED", 1);
    struct metrics sum = {0};
    logger_setup(LOGGER_ERROR, LOGGER_LOGFMT);
    for (uint64_t i = 0; i < histories; i++)
        play(first + i, histories == 1, &sum);

    (void)printf(
        "%" PRIu64 " histories from seed %" PRIu64 ": %" PRIu64 " live, %" PRIu64
        " replayed, %" PRIu64 " resyncs, %" PRIu64 " spills, %" PRIu64 " chain breaks, %" PRIu64
        " shared pages, %" PRIu64 " slow, %" PRIu64 " feed breaks, %" PRIu64 " from rings, %" PRIu64
        " warmed, %" PRIu64 " evicted, %" PRIu64 " snapshots\n",
        histories, first, sum.v[M_ENTRIES_LIVE], sum.v[M_ENTRIES_REPLAYED], sum.v[M_RESYNCS],
        sum.v[M_PENDING_SPILLS], sum.v[M_CHAIN_BREAKS], sum.v[M_PAGES_SHARED], sum.v[M_SLOW_CLOSED],
        sum.v[M_FEED_BREAKS], sum.v[M_RING_HITS], sum.v[M_RING_WARMINGS], sum.v[M_RING_EVICTIONS],
        sum.v[M_SNAPSHOTS]);
    /* A model that never meets these proves nothing about them. */
    if (histories >= 1000) {
        ck_assert_uint_ne(sum.v[M_RESYNCS], 0);
        ck_assert_uint_ne(sum.v[M_PENDING_SPILLS], 0);
        ck_assert_uint_ne(sum.v[M_CHAIN_BREAKS], 0);
        ck_assert_uint_ne(sum.v[M_PAGES_SHARED], 0);
        ck_assert_uint_ne(sum.v[M_SLOW_CLOSED], 0);
        ck_assert_uint_ne(sum.v[M_FEED_BREAKS], 0);
        ck_assert_uint_ne(sum.v[M_SNAPSHOTS], 0);
        ck_assert_uint_ne(sum.v[M_RING_HITS], 0);
        ck_assert_uint_ne(sum.v[M_RING_WARMINGS], 0);
        ck_assert_uint_ne(sum.v[M_RING_EVICTIONS], 0);
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("ordering");
    TCase *tc = tcase_create("histories");
    tcase_set_timeout(tc, 1800);
    tcase_add_test(tc, every_client_has_exactly_the_log_or_was_told);
    suite_add_tcase(suite, tc);
    return suite;
}
