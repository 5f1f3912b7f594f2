#include "roomlog/redis_sweep.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "protocol/stream_id.h"
#include "roomlog/redis_reply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FIRST_INTERVAL_MS = 1000,
    LONGEST_INTERVAL_MS = 60 * 1000,
    LEASE_MS = 30 * 1000, /* of the lock, while sweeping */
    PAUSE_MS = 100,
    NAMES_MAX = 1000, /* that are tried for the lock: see name_lock */
    NAME_MAX_LEN = 32,
    TOKEN_MAX = 20,
    NUMBER_MAX = 24,
    REASON_MAX = 192
};

#define LOOK_AT STR("200") /* keys in a step, about */

enum state { RESTING, LOCKING, LOOKING, CUTTING, STATES };

/* moves[from] has a bit for each state that may follow. */
#define TO(state) (1u << (state))
static const unsigned moves[STATES] = {
    [RESTING] = TO(LOCKING),
    [LOCKING] = TO(LOOKING) | TO(RESTING),
    [LOOKING] = TO(CUTTING) | TO(RESTING),
    [CUTTING] = TO(LOOKING) | TO(RESTING),
};
#undef TO

struct redis_sweep {
    struct redis_sweep_config config;
    enum state state;
    bool stopped;
    struct loop_timer timer;
    struct redis_command command;
    struct str pattern;      /* owned */
    char lock[NAME_MAX_LEN]; /* the key */
    char token[TOKEN_MAX];   /* what only we write there */
    char cursor[NUMBER_MAX];
    size_t cutting; /* not yet answered */
};

/* One room that is being cut. */
struct cut {
    struct redis_command command;
    struct redis_sweep *sweep;
};

static void on_timer(void *arg);

static void move(struct redis_sweep *sweep, enum state state)
{
    assert((moves[sweep->state] & (1u << state)) != 0);
    sweep->state = state;
}

static uint64_t interval_ms(const struct redis_sweep *sweep)
{
    uint64_t tenth = sweep->config.max_age_ms / 10;
    return tenth < FIRST_INTERVAL_MS     ? FIRST_INTERVAL_MS
           : tenth > LONGEST_INTERVAL_MS ? LONGEST_INTERVAL_MS
                                         : tenth;
}

static void wait(struct redis_sweep *sweep, uint64_t ms)
{
    if (!sweep->stopped)
        loop_timer_start(sweep->config.loop, &sweep->timer, ms, on_timer, sweep);
}

static void rest(struct redis_sweep *sweep)
{
    move(sweep, RESTING);
    wait(sweep, interval_ms(sweep));
}

/* An error is said, and ends the sweep. */
static bool failed(struct redis_sweep *sweep, const struct redis_reply *reply)
{
    char text[REASON_MAX];
    if (reply != NULL && !redis_reply_error_text(reply, text, sizeof(text)))
        return false;
    if (reply != NULL)
        logger_warn("redis refused to have idle rooms cut", KV_TEXT("reason", text));
    rest(sweep);
    return true;
}

static void send(struct redis_sweep *sweep, redis_command_fn done, const struct str *words,
                 size_t count)
{
    sweep->command.done = done;
    if (sweep->stopped || !sweep->config.send(sweep->config.owner, &sweep->command,
                                              &(struct redis_words){words, count}))
        rest(sweep);
}

/* --- the lock ------------------------------------------------------------------------------- */

/* All processes come to the same name; in a cluster each node has one of its own. */
static bool name_lock(struct redis_sweep *sweep)
{
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        (void)snprintf(sweep->lock, sizeof(sweep->lock), "roomd:sweep:%u", i);
        if (sweep->config.holds(sweep->config.owner, str_from(sweep->lock)))
            return true;
    }
    return false;
}

static void look(struct redis_sweep *sweep);

static void on_locked(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_sweep *sweep = RD_CONTAINER(command, struct redis_sweep, command);
    if (failed(sweep, reply))
        return;
    if (redis_reply_nil(reply)) { /* somebody else does it */
        rest(sweep);
        return;
    }
    metrics_inc(sweep->config.metrics, M_SWEEPS);
    (void)snprintf(sweep->cursor, sizeof(sweep->cursor), "0");
    look(sweep);
}

static void take_lock(struct redis_sweep *sweep)
{
    char lease[NUMBER_MAX];
    if (!name_lock(sweep)) {
        wait(sweep, interval_ms(sweep));
        return;
    }
    (void)snprintf(lease, sizeof(lease), "%d", LEASE_MS);
    const struct str words[] = {
        STR("SET"), str_from(sweep->lock), str_from(sweep->token), STR("NX"),
        STR("PX"),  str_from(lease)};
    move(sweep, LOCKING);
    send(sweep, on_locked, words, 6);
}

/* Nil: our lease had run out, and somebody else took it, or may. */
static void on_kept(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_sweep *sweep = RD_CONTAINER(command, struct redis_sweep, command);
    if (failed(sweep, reply))
        return;
    if (redis_reply_nil(reply) || str_eq(str_from(sweep->cursor), STR("0")))
        rest(sweep);
    else
        look(sweep);
}

static void keep_lock(struct redis_sweep *sweep, uint64_t ms)
{
    static const char keep[] = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end\n"
                               "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n";
    char lease[NUMBER_MAX];
    (void)snprintf(lease, sizeof(lease), "%" PRIu64, ms);
    const struct str words[] = {
        STR("EVAL"),    STR(keep), STR("1"), str_from(sweep->lock), str_from(sweep->token),
        str_from(lease)};
    send(sweep, on_kept, words, 6);
}

/* --- looking and cutting -------------------------------------------------------------------- */

/* All that was found is cut. */
static void on_step_over(struct redis_sweep *sweep)
{
    if (sweep->stopped)
        return;
    if (str_eq(str_from(sweep->cursor), STR("0")))
        keep_lock(sweep, interval_ms(sweep)); /* that was all: nobody need look before then */
    else
        wait(sweep, PAUSE_MS);
}

static void on_cut(struct redis_command *command, const struct redis_reply *reply)
{
    struct cut *cut = RD_CONTAINER(command, struct cut, command);
    struct redis_sweep *sweep = cut->sweep;
    long long removed = 0;
    free(cut);
    /* What is no stream any more, or has moved to another node, is somebody else's business. */
    if (reply != NULL && redis_reply_integer(reply, &removed) && removed > 0)
        metrics_add(sweep->config.metrics, M_SWEPT, (uint64_t)removed);
    if (--sweep->cutting == 0)
        on_step_over(sweep);
}

static void cut_room(struct redis_sweep *sweep, struct str key, struct str oldest)
{
    const struct str words[] = {STR("XTRIM"), key, STR("MINID"), STR("~"), oldest};
    struct cut *cut = xalloc_zero(sizeof(*cut));
    cut->sweep = sweep;
    cut->command.done = on_cut;
    if (sweep->config.send(sweep->config.owner, &cut->command, &(struct redis_words){words, 5}))
        sweep->cutting++;
    else
        free(cut);
}

/* [cursor, [key, ...]] */
static void on_looked(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_sweep *sweep = RD_CONTAINER(command, struct redis_sweep, command);
    struct redis_reply_parts parts, keys;
    struct redis_reply part;
    struct str cursor, key;
    if (failed(sweep, reply) || sweep->stopped)
        return;
    if (!redis_reply_array(reply, &parts) || !redis_reply_part(&parts, &part) ||
        !redis_reply_text(&part, &cursor) || cursor.len >= sizeof(sweep->cursor) ||
        !redis_reply_part(&parts, &part) || !redis_reply_array(&part, &keys)) {
        rest(sweep);
        return;
    }
    memcpy(sweep->cursor, cursor.p, cursor.len);
    sweep->cursor[cursor.len] = '\0';

    char id[STREAM_ID_TEXT_MAX];
    uint64_t now = loop_wall_ms(sweep->config.loop);
    uint64_t oldest = now > sweep->config.max_age_ms ? now - sweep->config.max_age_ms : 0;
    struct str text = {id, stream_id_format((struct stream_id){oldest, 0}, id)};
    move(sweep, CUTTING);
    while (redis_reply_part(&keys, &part))
        if (redis_reply_text(&part, &key))
            cut_room(sweep, key, text);
    if (sweep->cutting == 0)
        on_step_over(sweep);
}

static void look(struct redis_sweep *sweep)
{
    const struct str words[] = {STR("SCAN"),  str_from(sweep->cursor),
                                STR("MATCH"), sweep->pattern,
                                STR("COUNT"), LOOK_AT,
                                STR("TYPE"),  STR("stream")};
    move(sweep, LOOKING);
    send(sweep, on_looked, words, 8);
}

static void on_timer(void *arg)
{
    struct redis_sweep *sweep = arg;
    if (sweep->state == RESTING)
        take_lock(sweep);
    else
        keep_lock(sweep, LEASE_MS);
}

/* --- life ----------------------------------------------------------------------------------- */

/* The prefix as it stands, and anything behind it. Returns owned. */
static struct str pattern_of(struct str prefix)
{
    char *text = xalloc(2 * prefix.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < prefix.len; i++) {
        if (memchr("*?[]^-\\", prefix.p[i], 7) != NULL)
            text[len++] = '\\';
        text[len++] = prefix.p[i];
    }
    text[len++] = '*';
    return (struct str){text, len};
}

struct redis_sweep *redis_sweep_create(const struct redis_sweep_config *config)
{
    struct redis_sweep *sweep = xalloc_zero(sizeof(*sweep));
    assert(config->max_age_ms != 0);
    sweep->config = *config;
    sweep->pattern = pattern_of(config->prefix);
    (void)snprintf(sweep->token, sizeof(sweep->token), "%016" PRIx64, loop_random(config->loop));
    wait(sweep, interval_ms(sweep));
    return sweep;
}

void redis_sweep_stop(struct redis_sweep *sweep)
{
    sweep->stopped = true;
    loop_timer_stop(sweep->config.loop, &sweep->timer);
}

void redis_sweep_destroy(struct redis_sweep *sweep)
{
    if (sweep == NULL)
        return;
    assert(sweep->stopped && sweep->cutting == 0);
    free((char *)sweep->pattern.p);
    free(sweep);
}
