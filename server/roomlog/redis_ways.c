#include "roomlog/redis_ways.h"

#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_appends_impl.h"

#include <assert.h>
#include <stdlib.h>

enum { PAUSE_MS = 20 /* after TRYAGAIN; MIGRATE takes a few */ };

struct redis_ways {
    struct redis_ways_config config;
    struct strmap map; /* a key to its way */
};

struct redis_way {
    struct redis_ways *ways;
    struct str key;
    struct redis_appends *from; /* where those that are out are; while any is */
    struct redis_appends *to;   /* where those in the queue go, and are counted; while any is */
    bool asking;                /* behind ASKING */
    bool trying;                /* TRYAGAIN was the last word */
    size_t out;
    uint64_t count;    /* of all that came, for their order */
    uint64_t pause_ms; /* none is handed on before */
    struct list queue; /* in the order in which they came */
    struct loop_timer timer;
    char bytes[];
};

static struct redis_appends_request *first_of(const struct redis_way *way)
{
    return LIST_ITEM(way->queue.next, struct redis_appends_request, link);
}

/* --- ways ----------------------------------------------------------------------------------- */

static struct redis_way *way_create(struct redis_ways *ways, struct str key)
{
    struct redis_way *way = xalloc(sizeof(*way) + key.len);
    *way = (struct redis_way){.ways = ways, .key = {way->bytes, key.len}};
    memcpy(way->bytes, key.p, key.len);
    list_init(&way->queue);
    strmap_put(&ways->map, way->key, way);
    return way;
}

static void way_destroy(struct redis_way *way)
{
    loop_timer_stop(way->ways->config.loop, &way->timer);
    (void)strmap_remove(&way->ways->map, way->key);
    free(way);
}

/* From here on the queue goes there. */
static void aim(struct redis_way *way, struct redis_appends *to, bool asking)
{
    way->asking = asking;
    if (way->to == to)
        return;
    way->to = to;
    list_for_each_safe (it, after, &way->queue) {
        struct redis_appends_request *request = LIST_ITEM(it, struct redis_appends_request, link);
        redis_appends_leave(request);
        redis_appends_enter(to, request);
    }
}

static void hand(struct redis_way *way, struct redis_appends_request *request)
{
    way->from = way->to;
    way->out++;
    redis_appends_hand(request, way->asking);
}

/* In its place; those that were refused come first, and in order. */
static void park(struct redis_way *way, struct redis_appends_request *request)
{
    const struct redis_ways_config *config = &way->ways->config;
    redis_appends_move(request, REDIS_APPENDS_HELD_UP);
    if (request->due_ms == 0)
        request->due_ms = loop_now_ms(config->loop) +
                          (config->wait_ms != 0 ? config->wait_ms : config->command_ms);
    struct list *next = &way->queue;
    while (next->prev != &way->queue &&
           LIST_ITEM(next->prev, struct redis_appends_request, link)->place > request->place)
        next = next->prev;
    list_push_back(next, &request->link);
}

/* --- going on ------------------------------------------------------------------------------- */

static void on_timer(void *arg);

static void arm(struct redis_way *way)
{
    struct loop *loop = way->ways->config.loop;
    if (list_empty(&way->queue)) {
        loop_timer_stop(loop, &way->timer);
        return;
    }
    uint64_t now = loop_now_ms(loop);
    uint64_t due = first_of(way)->due_ms;
    if (way->out == 0 && way->pause_ms < due)
        due = way->pause_ms;
    loop_timer_start(loop, &way->timer, due > now ? due - now : 0, on_timer, way);
}

static void send_on(struct redis_way *way)
{
    const struct redis_ways_config *config = &way->ways->config;
    struct redis_appends *routed = config->route(config->arg, way->key);
    if (routed == way->to || (!way->asking && !redis_appends_up(way->to)))
        aim(way, routed, false);
    bool one = way->asking || way->trying;
    do
        hand(way, first_of(way));
    while (!one && !list_empty(&way->queue));
}

/* Hands on what may be; the way may be gone afterwards. */
static void go_on(struct redis_way *way)
{
    if (way->out == 0 && list_empty(&way->queue)) {
        way_destroy(way);
        return;
    }
    if (way->out == 0 && way->pause_ms <= loop_now_ms(way->ways->config.loop))
        send_on(way);
    arm(way);
}

/* A pause is over, or some have waited too long. */
static void on_timer(void *arg)
{
    struct redis_way *way = arg;
    struct metrics *metrics = way->ways->config.metrics;
    uint64_t now = loop_now_ms(way->ways->config.loop);
    struct list expired;
    list_init(&expired);
    while (!list_empty(&way->queue) && first_of(way)->due_ms <= now) {
        struct redis_appends_request *request = first_of(way);
        request->way = NULL;
        list_remove(&request->link);
        list_push_back(&expired, &request->link);
    }
    go_on(way);
    while (!list_empty(&expired)) {
        metrics_inc(metrics, M_PUBLISHES_EXPIRED);
        redis_appends_finish(LIST_ITEM(expired.next, struct redis_appends_request, link),
                             RD_EUNAVAIL);
    }
}

/* --- from outside --------------------------------------------------------------------------- */

struct redis_ways *redis_ways_create(const struct redis_ways_config *config)
{
    struct redis_ways *ways = xalloc_zero(sizeof(*ways));
    ways->config = *config;
    strmap_init(&ways->map, loop_random(config->loop), loop_random(config->loop));
    return ways;
}

void redis_ways_destroy(struct redis_ways *ways)
{
    assert(ways->map.count == 0);
    strmap_fini(&ways->map);
    free(ways);
}

void redis_ways_close(struct redis_ways *ways)
{
    struct list dropped;
    list_init(&dropped);
    struct redis_way *way;
    for (size_t at = 0; (way = strmap_next(&ways->map, &at)) != NULL;) {
        loop_timer_stop(ways->config.loop, &way->timer);
        for (struct list *it = way->queue.next; it != &way->queue; it = it->next)
            LIST_ITEM(it, struct redis_appends_request, link)->way = NULL;
        list_move_all(&dropped, &way->queue);
        if (way->out != 0)
            continue;
        way_destroy(way);
        at = 0;
    }
    while (!list_empty(&dropped)) {
        struct redis_appends_request *request =
            LIST_ITEM(dropped.next, struct redis_appends_request, link);
        assert(request->append == NULL);
        redis_appends_finish(request, RD_EUNAVAIL);
    }
}

struct redis_way *redis_ways_find(const struct redis_ways *ways, struct str key)
{
    return strmap_find(&ways->map, key);
}

struct redis_appends *redis_ways_at(const struct redis_way *way, struct redis_appends *routed)
{
    if (way == NULL)
        return routed;
    if (!list_empty(&way->queue))
        return way->to;
    return way->asking || way->trying ? way->from : routed;
}

void redis_ways_add(struct redis_ways *ways, struct redis_way *way,
                    struct redis_appends_request *request)
{
    if (way == NULL)
        way = way_create(ways, request->key);
    request->way = way;
    request->place = way->count++;
    if (list_empty(&way->queue))
        way->to = request->appends;
    bool open = way->out == 0 || (way->from == way->to && !way->asking && !way->trying);
    if (list_empty(&way->queue) && open) {
        hand(way, request);
        return;
    }
    park(way, request);
    arm(way);
}

/* Out no more, but to be sent there. */
static void back(struct redis_appends_request *request, struct redis_appends *to, bool asking)
{
    struct redis_way *way = request->way;
    way->out--;
    park(way, request);
    aim(way, to, asking);
    if (request->appends != to) { /* the queue was there already */
        redis_appends_leave(request);
        redis_appends_enter(to, request);
    }
    go_on(way);
}

bool redis_ways_turn(struct redis_appends_request *request, enum redis_redirect_kind kind,
                     struct redis_appends *to)
{
    struct redis_way *way = request->way;
    const struct redis_ways_config *config = &way->ways->config;
    bool trying = kind == REDIS_REDIRECT_TRYAGAIN;
    if (trying && config->wait_ms == 0)
        return false;
    way->trying = trying;
    way->pause_ms = trying ? loop_now_ms(config->loop) + PAUSE_MS : 0;
    back(request, to, trying ? request->asking : kind == REDIS_REDIRECT_ASK);
    return true;
}

void redis_ways_recall(struct redis_appends_request *request)
{
    const struct redis_ways_config *config = &request->way->ways->config;
    struct redis_appends *routed = config->route(config->arg, request->key);
    if (routed == request->appends)
        return;
    request->way->trying = false;
    request->way->pause_ms = 0;
    back(request, routed, false);
}

void redis_ways_leave(struct redis_appends_request *request)
{
    struct redis_way *way = request->way;
    request->way = NULL;
    way->out--;
    /* What was tried again was taken, or refused for good. */
    if (way->pause_ms <= loop_now_ms(way->ways->config.loop))
        way->trying = false;
    go_on(way);
}
