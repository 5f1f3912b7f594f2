#include "roomlog/redis_node.h"

#include "base/xalloc.h"
#include "roomlog/redis_sweep.h"

#include <assert.h>
#include <stdlib.h>

enum state { UNTOLD, READY, AWAY, STATES };

/* moves[from] has a bit for each state that may follow. */
#define TO(state) (1u << (state))
static const unsigned moves[STATES] = {
    [UNTOLD] = TO(READY) | TO(AWAY),
    [READY] = TO(AWAY),
    [AWAY] = TO(READY),
};
#undef TO

enum { DOUBT_MS = 1000 /* between two probes that were not due */ };

struct redis_node {
    struct loop *loop;
    const struct redis_node_ops *ops;
    void *arg;
    struct redis_feed_lane *lane;
    struct redis_appends *appends;
    struct redis_reads *reads;
    struct redis_sweep *sweep; /* NULL: nothing is cut by age */
    unsigned open;             /* of appends and reads, not yet closed */
    bool closing;
    bool healthy; /* the lane's last word */
    enum state state;
    uint64_t doubted_ms;
};

static void move(struct redis_node *node, enum state state)
{
    assert((moves[node->state] & (1u << state)) != 0);
    node->state = state;
}

/* --- ready or not --------------------------------------------------------------------------- */

static void came(struct redis_node *node)
{
    if (node->closing || node->state == READY || !node->healthy ||
        !redis_appends_up(node->appends) || !redis_reads_up(node->reads))
        return;
    move(node, READY);
    node->ops->told(node->arg, true, "");
}

static void went(struct redis_node *node, const char *reason)
{
    if (node->closing)
        return;
    if (node->state != AWAY)
        move(node, AWAY);
    node->ops->told(node->arg, false, reason);
}

static void on_appends_up(void *arg)
{
    struct redis_node *node = arg;
    if (node->closing)
        return;
    redis_feed_lane_probe(node->lane);
    came(node);
}

/* Is it only that append, or Redis? The next probe that is due may be seconds away. */
static void on_refused(void *arg)
{
    struct redis_node *node = arg;
    uint64_t now = loop_now_ms(node->loop);
    if (node->state != READY || now - node->doubted_ms < DOUBT_MS)
        return;
    node->doubted_ms = now;
    redis_feed_lane_probe(node->lane);
}

static void on_reads_up(void *arg)
{
    came(arg);
}

static void on_down(void *arg, const char *reason)
{
    went(arg, reason);
}

static struct redis_node *redirect(struct redis_node *node, const struct redis_redirect *where);

static void on_health(void *arg, bool ok, const char *reason)
{
    struct redis_node *node = arg;
    struct redis_redirect where;
    /* It is well, but the slot of the probe's key has gone; the next probe takes another key. */
    if (!ok && redis_redirect_parse(reason, &where) && redirect(node, &where) != NULL)
        return;
    node->healthy = ok;
    if (ok)
        came(node);
    else if (redis_appends_up(node->appends)) /* or it says by itself why it isn't */
        went(node, reason);
}

/* --- for the parts -------------------------------------------------------------------------- */

static bool on_write(void *arg, struct redis_command *command, const struct redis_words *words)
{
    struct redis_node *node = arg;
    return !node->closing && redis_appends_send(node->appends, command, words);
}

static bool on_holds(void *arg, struct str key)
{
    struct redis_node *node = arg;
    return node->ops->holds == NULL || node->ops->holds(node->arg, key);
}

static struct redis_node *redirect(struct redis_node *node, const struct redis_redirect *where)
{
    return node->ops->redirect == NULL || node->closing ? NULL
                                                        : node->ops->redirect(node->arg, where);
}

static struct redis_feed_lane *redirect_lane(void *arg, const struct redis_redirect *where)
{
    const struct redis_node *other = redirect(arg, where);
    return other == NULL ? NULL : other->lane;
}

static struct redis_reads *redirect_reads(void *arg, const struct redis_redirect *where)
{
    const struct redis_node *other = redirect(arg, where);
    return other == NULL ? NULL : other->reads;
}

static struct redis_appends *redirect_appends(void *arg, const struct redis_redirect *where)
{
    const struct redis_node *other = redirect(arg, where);
    return other == NULL ? NULL : other->appends;
}

/* --- life ----------------------------------------------------------------------------------- */

static void on_lane_closed(void *arg)
{
    struct redis_node *node = arg;
    const struct redis_node_ops *ops = node->ops;
    void *ops_arg = node->arg;
    redis_sweep_destroy(node->sweep);
    free(node);
    ops->closed(ops_arg);
}

/* The lane goes last: a probe's write may have been on its way through the appends. */
static void on_part_closed(void *arg)
{
    struct redis_node *node = arg;
    if (--node->open == 0)
        redis_feed_lane_close(node->lane);
}

static const struct redis_appends_ops appends_ops = {.up = on_appends_up,
                                                     .down = on_down,
                                                     .refused = on_refused,
                                                     .redirect = redirect_appends,
                                                     .closed = on_part_closed};
static const struct redis_reads_ops reads_ops = {
    .up = on_reads_up, .down = on_down, .redirect = redirect_reads, .closed = on_part_closed};
static const struct redis_feed_lane_ops lane_ops = {.redirect = redirect_lane,
                                                    .closed = on_lane_closed};

struct redis_node *redis_node_open(const struct redis_node_config *config,
                                   const struct redis_node_ops *ops, void *arg)
{
    struct redis_node *node = xalloc_zero(sizeof(*node));
    struct redis_bell_config bell = config->bell;
    struct redis_appends_config appends = config->appends;
    struct redis_reads_config reads = config->reads;
    node->loop = config->loop;
    node->ops = ops;
    node->arg = arg;
    bell.finder = appends.finder = reads.finder = config->finder;
    bell.owner = node;
    bell.health = on_health;
    bell.write = on_write;
    bell.holds = on_holds;
    node->lane = redis_feed_lane_open(config->feed, &bell, &lane_ops, node);
    node->appends = redis_appends_open(config->loop, config->metrics, &appends, &appends_ops, node);
    node->reads =
        redis_reads_open(config->loop, config->metrics, config->feed, &reads, &reads_ops, node);
    node->open = 2;
    if (config->max_age_ms != 0)
        node->sweep = redis_sweep_create(&(struct redis_sweep_config){
            .loop = config->loop,
            .metrics = config->metrics,
            .prefix = config->prefix,
            .max_age_ms = config->max_age_ms,
            .owner = node,
            .send = on_write,
            .holds = on_holds,
        });
    return node;
}

void redis_node_close(struct redis_node *node)
{
    node->closing = true;
    if (node->sweep != NULL)
        redis_sweep_stop(node->sweep);
    redis_appends_close(node->appends);
    redis_reads_close(node->reads);
}

struct redis_feed_lane *redis_node_lane(const struct redis_node *node)
{
    return node->lane;
}

struct redis_appends *redis_node_appends(const struct redis_node *node)
{
    return node->appends;
}

struct redis_reads *redis_node_reads(const struct redis_node *node)
{
    return node->reads;
}

bool redis_node_ready(const struct redis_node *node)
{
    return node->state == READY;
}

bool redis_node_idle(const struct redis_node *node)
{
    return redis_appends_idle(node->appends) && redis_reads_idle(node->reads) &&
           redis_feed_lane_idle(node->lane);
}
