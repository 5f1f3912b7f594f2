#include "roomlog/redis_cluster.h"

#include "base/logger.h"
#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_map.h"
#include "roomlog/redis_ways.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ASK_EVERY_MS = 10000,
    ASK_TROUBLED_MS = 1000, /* while something isn't served */
    ASK_SOON_MS = 100,      /* after a MOVED, however many there are */
    KEEP_MS = 5000,         /* a node that serves nothing any more, until the next map */
    REASON_MAX = 512
};

/* One node, as long as it is open. */
struct member {
    struct redis_cluster *cluster;
    struct redis_place place;
    struct redis_finder_fixed finder;
    struct redis_node *node;
    struct list link;     /* in cluster->members */
    size_t slots;         /* that it serves */
    uint64_t used_ms;     /* when it last served one, or was last asked ahead */
    char why[REASON_MAX]; /* it isn't ready */
};

struct redis_cluster {
    struct redis_node_config config;
    const struct redis_cluster_ops *ops;
    void *arg;
    bool closing;
    size_t open; /* members, and the connection that asks, not yet closed */

    struct member *by_slot[REDIS_SLOTS]; /* NULL: nobody's, as far as we know */
    size_t covered;
    struct strmap map; /* a place's bytes to its member */
    struct list members;
    struct redis_ways *ways;
    struct member *any; /* who is asked where nobody is known */

    struct redis_conn *ask;
    struct redis_finder_turn turn;
    struct redis_place *places; /* owned; what turn goes by */
    struct redis_command question;
    bool asking;
    struct redis_map_info info; /* of whoever is being asked */
    uint64_t epoch;             /* of the map that holds */
    size_t refused;             /* maps in a row, for their epoch */
    struct loop_timer timer;

    bool ready;
    bool told;
};

static struct str bytes_of(const struct redis_place *place)
{
    return (struct str){(const char *)place, sizeof(*place)};
}

/* --- ready or not --------------------------------------------------------------------------- */

enum health { WELL, TROUBLED, PENDING };

/* PENDING: nothing is known to be wrong, but some node, or the map, is still to come. */
static enum health health_of(const struct redis_cluster *cluster, char reason[REASON_MAX])
{
    char text[REDIS_PLACE_TEXT_MAX];
    bool pending = cluster->covered == 0;
    list_for_each_safe (it, after, &cluster->members) {
        const struct member *member = LIST_ITEM(it, struct member, link);
        if (redis_node_ready(member->node) || (member->slots == 0 && cluster->covered != 0))
            continue;
        if (member->why[0] == '\0') {
            pending = true;
            continue;
        }
        (void)snprintf(reason, REASON_MAX, "node %s: %.200s",
                       redis_place_format(&member->place, text), member->why);
        return TROUBLED;
    }
    if (cluster->covered != 0 && cluster->covered != REDIS_SLOTS) {
        (void)snprintf(reason, REASON_MAX, "%zu slots are served by no node",
                       REDIS_SLOTS - cluster->covered);
        return TROUBLED;
    }
    return pending ? PENDING : WELL;
}

static void ask_within(struct redis_cluster *cluster, uint64_t ms);

static void look(struct redis_cluster *cluster)
{
    char reason[REASON_MAX] = "";
    if (cluster->closing)
        return;
    enum health health = health_of(cluster, reason);
    if (health != WELL)
        ask_within(cluster, ASK_TROUBLED_MS);
    if (health == PENDING || (cluster->told && cluster->ready && health == WELL))
        return;
    cluster->ready = health == WELL;
    cluster->told = true;
    cluster->ops->told(cluster->arg, cluster->ready, reason);
}

/* --- members -------------------------------------------------------------------------------- */

static void on_told(void *arg, bool ready, const char *reason)
{
    struct member *member = arg;
    (void)snprintf(member->why, sizeof(member->why), "%s", reason);
    (void)ready;
    look(member->cluster);
}

static bool on_holds(void *arg, struct str key)
{
    const struct member *member = arg;
    const struct redis_cluster *cluster = member->cluster;
    return cluster->covered == 0 || cluster->by_slot[redis_slot_of(key)] == member;
}

static struct redis_node *on_redirect(void *arg, const struct redis_redirect *redirect);
static void on_closed(void *arg);

static const struct redis_node_ops node_ops = {
    .told = on_told, .redirect = on_redirect, .holds = on_holds, .closed = on_closed};

/* NULL: there are too many. */
static struct member *member_at(struct redis_cluster *cluster, const struct redis_place *place)
{
    struct member *member = strmap_find(&cluster->map, bytes_of(place));
    if (member != NULL)
        return member;
    if (cluster->map.count == REDIS_MAP_PLACES_MAX) {
        metrics_inc(cluster->config.metrics, M_LOG_NODES_REFUSED);
        return NULL;
    }
    member = xalloc_zero(sizeof(*member));
    member->cluster = cluster;
    member->place = *place;
    member->used_ms = loop_now_ms(cluster->config.loop);
    list_init(&member->link);
    list_push_back(&cluster->members, &member->link);
    strmap_put(&cluster->map, bytes_of(&member->place), member);
    cluster->open++;
    redis_finder_fixed_init(&member->finder, place);
    struct redis_node_config config = cluster->config;
    config.finder = &member->finder.finder;
    member->node = redis_node_open(&config, &node_ops, member);
    metrics_set(cluster->config.metrics, M_LOG_NODES, cluster->map.count);
    return member;
}

static void member_close(struct member *member)
{
    struct redis_cluster *cluster = member->cluster;
    list_remove(&member->link);
    (void)strmap_remove(&cluster->map, bytes_of(&member->place));
    metrics_set(cluster->config.metrics, M_LOG_NODES, cluster->map.count);
    redis_node_close(member->node);
}

static void serve(struct redis_cluster *cluster, unsigned slot, struct member *member)
{
    struct member *before = cluster->by_slot[slot];
    if (before == member)
        return;
    if (before != NULL) {
        before->slots--;
        before->used_ms = loop_now_ms(cluster->config.loop);
        cluster->covered--;
    }
    if (member != NULL) {
        member->slots++;
        cluster->covered++;
    }
    cluster->by_slot[slot] = member;
    metrics_set(cluster->config.metrics, M_LOG_SLOTS, cluster->covered);
}

static struct member *owner_of(const struct redis_cluster *cluster, struct str key)
{
    struct member *member = cluster->by_slot[redis_slot_of(key)];
    return member != NULL ? member : cluster->any;
}

static struct redis_feed_lane *lane_of(void *arg, struct str key)
{
    return redis_node_lane(owner_of(arg, key)->node);
}

static struct redis_appends *appends_of(void *arg, struct str key)
{
    return redis_node_appends(owner_of(arg, key)->node);
}

static struct redis_node *on_redirect(void *arg, const struct redis_redirect *redirect)
{
    struct member *from = arg;
    struct redis_cluster *cluster = from->cluster;
    struct redis_place place = redirect->place;
    metrics_inc(cluster->config.metrics, M_LOG_REDIRECTS);
    if (cluster->closing || redirect->kind == REDIS_REDIRECT_TRYAGAIN)
        return NULL;
    if (place.host[0] == '\0')
        (void)snprintf(place.host, sizeof(place.host), "%s", from->place.host);
    struct member *member = member_at(cluster, &place);
    if (member == NULL)
        return NULL;
    member->used_ms = loop_now_ms(cluster->config.loop);
    if (redirect->kind == REDIS_REDIRECT_MOVED) {
        serve(cluster, redirect->slot, member);
        ask_within(cluster, ASK_SOON_MS);
    } else {
        ask_within(cluster, ASK_TROUBLED_MS); /* the slot should arrive soon */
    }
    return member->node;
}

/* --- maps ----------------------------------------------------------------------------------- */

/* From here on the connection that asks goes by these; where it is connected now stands first. */
static void take_places(struct redis_cluster *cluster, const struct redis_map *map)
{
    const struct redis_place here = cluster->turn.places[cluster->turn.at];
    struct redis_place *places = xalloc_array(NULL, map->count + 1, sizeof(*places));
    size_t count = 0;
    places[count++] = here;
    for (size_t i = 0; i < map->count; i++)
        if (!redis_place_eq(&map->places[i], &here))
            places[count++] = map->places[i];
    free(cluster->places);
    cluster->places = places;
    redis_finder_turn_init(&cluster->turn, places, count);
}

static void close_unused(struct redis_cluster *cluster)
{
    uint64_t now = loop_now_ms(cluster->config.loop);
    list_for_each_safe (it, after, &cluster->members) {
        struct member *member = LIST_ITEM(it, struct member, link);
        if (member != cluster->any && member->slots == 0 && now - member->used_ms >= KEEP_MS &&
            redis_node_idle(member->node))
            member_close(member);
    }
}

static void apply(struct redis_cluster *cluster, const struct redis_map *map)
{
    struct member *of[REDIS_MAP_PLACES_MAX + 1] = {NULL};
    for (size_t i = 0; i < map->masters; i++)
        of[i + 1] = member_at(cluster, &map->places[i]);
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        serve(cluster, slot, of[map->owner[slot]]);
    if (cluster->any->slots == 0 && map->masters != 0 && of[1] != NULL)
        cluster->any = of[1];
    metrics_add(cluster->config.metrics, M_LOG_NODES_REFUSED, map->left_out);
    redis_feed_route(cluster->config.feed, lane_of, cluster);
    list_for_each_safe (it, after, &cluster->members) {
        struct member *member = LIST_ITEM(it, struct member, link);
        redis_appends_recall(redis_node_appends(member->node));
        if (!redis_node_ready(member->node))
            redis_feed_lane_probe(redis_node_lane(member->node)); /* it knows its own keys now */
    }
    close_unused(cluster);
}

/* Whoever was asked won't do: `down` goes on with the next. */
static void go_on(struct redis_cluster *cluster, const char *reason)
{
    redis_conn_drop(cluster->ask, reason);
}

/* A cluster that began anew counts its epochs anew, so once all were asked the lower one counts. */
static bool out_of_date(struct redis_cluster *cluster)
{
    if (cluster->info.epoch < cluster->epoch && ++cluster->refused < cluster->turn.count)
        return true;
    cluster->refused = 0;
    cluster->epoch = cluster->info.epoch;
    return false;
}

static void on_slots(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_cluster *cluster = RD_CONTAINER(command, struct redis_cluster, question);
    struct redis_map map;
    char text[REASON_MAX] = "CLUSTER SLOTS got an answer that it does not have";
    cluster->asking = false;
    if (reply == NULL || cluster->closing)
        return;
    if (!redis_map_parse(reply, &cluster->turn.places[cluster->turn.at], &map)) {
        (void)redis_reply_error_text(reply, text, sizeof(text));
        go_on(cluster, text);
        return;
    }
    if (out_of_date(cluster)) {
        go_on(cluster, "it knows an older cluster than another node did");
    } else {
        apply(cluster, &map);
        take_places(cluster, &map);
    }
    redis_map_fini(&map);
    look(cluster);
}

static bool send(struct redis_cluster *cluster, const char *what, redis_command_fn done)
{
    const struct str words[] = {STR("CLUSTER"), str_from(what)};
    cluster->question.done = done;
    cluster->asking =
        redis_conn_send(cluster->ask, &cluster->question, &(struct redis_words){words, 2}, 1);
    return cluster->asking;
}

static void on_info(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_cluster *cluster = RD_CONTAINER(command, struct redis_cluster, question);
    struct str info;
    char text[REASON_MAX] = "it sees no cluster that works";
    cluster->asking = false;
    if (reply == NULL || cluster->closing)
        return;
    if (redis_reply_text(reply, &info) && redis_map_parse_info(info, &cluster->info) &&
        cluster->info.ok) {
        (void)send(cluster, "SLOTS", on_slots);
        return;
    }
    (void)redis_reply_error_text(reply, text, sizeof(text));
    go_on(cluster, text);
}

static void on_timer(void *arg)
{
    struct redis_cluster *cluster = arg;
    loop_timer_start(cluster->config.loop, &cluster->timer,
                     cluster->ready ? ASK_EVERY_MS : ASK_TROUBLED_MS, on_timer, cluster);
    if (!cluster->asking)
        (void)send(cluster, "INFO", on_info); /* not up: on_ask_up asks */
}

static void ask_within(struct redis_cluster *cluster, uint64_t ms)
{
    uint64_t due = loop_now_ms(cluster->config.loop) + ms;
    if (cluster->closing || (loop_timer_running(&cluster->timer) && cluster->timer.due_ms <= due))
        return;
    loop_timer_start(cluster->config.loop, &cluster->timer, ms, on_timer, cluster);
}

static void on_ask_up(void *arg)
{
    on_timer(arg);
}

static void on_ask_down(void *arg, const char *reason)
{
    struct redis_cluster *cluster = arg;
    if (cluster->closing)
        return;
    redis_finder_turn_next(&cluster->turn);
    if (cluster->covered != 0)
        return;
    /* So far this is all that we know of the cluster. */
    (void)snprintf(cluster->any->why, sizeof(cluster->any->why), "%s", reason);
    look(cluster);
}

/* --- life ----------------------------------------------------------------------------------- */

static void part_closed(struct redis_cluster *cluster)
{
    if (--cluster->open != 0)
        return;
    const struct redis_cluster_ops *ops = cluster->ops;
    void *ops_arg = cluster->arg;
    redis_ways_destroy(cluster->ways);
    strmap_fini(&cluster->map);
    free(cluster->places);
    free(cluster);
    ops->closed(ops_arg);
}

static void on_closed(void *arg)
{
    struct member *member = arg;
    struct redis_cluster *cluster = member->cluster;
    free(member);
    part_closed(cluster);
}

static void on_ask_closed(void *arg)
{
    part_closed(arg);
}

static const struct redis_conn_ops ask_ops = {
    .up = on_ask_up, .down = on_ask_down, .closed = on_ask_closed};

struct redis_cluster *redis_cluster_open(const struct redis_node_config *config,
                                         const struct redis_cluster_ops *ops, void *arg)
{
    struct redis_cluster *cluster = xalloc_zero(sizeof(*cluster));
    const struct redis_url *url = config->bell.url;
    cluster->config = *config;
    cluster->ops = ops;
    cluster->arg = arg;
    strmap_init(&cluster->map, loop_random(config->loop), loop_random(config->loop));
    list_init(&cluster->members);
    cluster->ways = redis_ways_create(&(struct redis_ways_config){
        .loop = config->loop,
        .metrics = config->metrics,
        .wait_ms = config->appends.wait_ms,
        .command_ms = config->appends.command_ms,
        .route = appends_of,
        .arg = cluster,
    });
    cluster->config.appends.ways = cluster->ways;
    redis_finder_turn_init(&cluster->turn, url->places, url->count);
    const struct redis_conn_config conn = {.url = url,
                                           .finder = &cluster->turn.finder,
                                           .name = "roomd-map",
                                           .connect_ms = config->bell.connect_ms,
                                           .command_ms = config->bell.command_ms};
    cluster->ask = redis_conn_open(config->loop, config->metrics, &conn, &ask_ops, cluster);
    cluster->open = 1;
    cluster->any = member_at(cluster, &url->places[0]);
    return cluster;
}

void redis_cluster_close(struct redis_cluster *cluster)
{
    cluster->closing = true;
    loop_timer_stop(cluster->config.loop, &cluster->timer);
    redis_conn_close(cluster->ask);
    redis_ways_close(cluster->ways);
    list_for_each_safe (it, after, &cluster->members)
        member_close(LIST_ITEM(it, struct member, link));
}

struct redis_node *redis_cluster_node(const struct redis_cluster *cluster, struct str key)
{
    return owner_of(cluster, key)->node;
}
