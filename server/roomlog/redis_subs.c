#include "roomlog/redis_subs.h"

#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_reply.h"

#include <stdlib.h>

enum { WINDOW = 512 }; /* questions under way */

struct redis_subs {
    struct redis_conn *conn;
    const struct redis_subs_ops *ops;
    void *arg;
    struct str prefix; /* owned */
    struct strmap map; /* key to sub */
    struct list todo;  /* subs to be asked for, in this order */
    size_t asking;     /* questions under way */
};

/* One room's. */
struct sub {
    struct redis_subs *subs; /* NULL: destroyed while Redis was asked */
    struct list link;        /* in todo, or alone */
    struct redis_command command;
    bool wanted;
    bool held;   /* as Redis said last */
    bool asking; /* to make held what wanted was then */
    struct str channel;
    struct str key; /* the end of it */
    char bytes[];
};

static struct sub *sub_create(struct redis_subs *subs, struct str key)
{
    size_t len = subs->prefix.len + key.len;
    struct sub *sub = xalloc(sizeof(*sub) + len);
    *sub = (struct sub){.subs = subs, .channel = {sub->bytes, len}};
    sub->key = (struct str){sub->bytes + subs->prefix.len, key.len};
    if (subs->prefix.len != 0)
        memcpy(sub->bytes, subs->prefix.p, subs->prefix.len);
    memcpy(sub->bytes + subs->prefix.len, key.p, key.len);
    list_init(&sub->link);
    strmap_put(&subs->map, sub->key, sub);
    return sub;
}

static void pump(struct redis_subs *subs);

static void on_answer(struct redis_command *command, const struct redis_reply *reply);

/* Does what is wanted differ from what is? Then Redis is asked, now or later. */
static void settle(struct sub *sub)
{
    struct redis_subs *subs = sub->subs;
    list_remove(&sub->link);
    if (sub->asking)
        return; /* the answer comes back here */
    if (sub->wanted != sub->held) {
        list_push_back(&subs->todo, &sub->link);
    } else if (!sub->wanted) {
        (void)strmap_remove(&subs->map, sub->key);
        free(sub);
    }
    pump(subs);
}

static void pump(struct redis_subs *subs)
{
    while (subs->asking < WINDOW && !list_empty(&subs->todo)) {
        struct sub *sub = LIST_ITEM(subs->todo.next, struct sub, link);
        const struct str words[] = {sub->held ? STR("UNSUBSCRIBE") : STR("SUBSCRIBE"),
                                    sub->channel};
        sub->command.done = on_answer;
        if (!redis_conn_send(subs->conn, &sub->command, &(struct redis_words){words, 2}, 1))
            return; /* the connection is lost, and with it all of this */
        list_remove(&sub->link);
        sub->asking = true;
        subs->asking++;
    }
}

static void on_answer(struct redis_command *command, const struct redis_reply *reply)
{
    struct sub *sub = RD_CONTAINER(command, struct sub, command);
    struct redis_subs *subs = sub->subs;
    if (subs == NULL) {
        free(sub);
        return;
    }
    sub->asking = false;
    subs->asking--;
    if (reply == NULL)
        return; /* redis_subs_destroy comes */
    if (redis_reply_err(reply) != RD_OK) {
        subs->ops->refused(subs->arg, reply);
        return;
    }
    sub->held = !sub->held;
    if (!sub->held || !sub->wanted) {
        settle(sub);
        return;
    }
    pump(subs);
    subs->ops->held(subs->arg, sub->key);
}

void redis_subs_add(struct redis_subs *subs, struct str key)
{
    struct sub *sub = strmap_find(&subs->map, key);
    if (sub == NULL)
        sub = sub_create(subs, key);
    if (sub->wanted)
        return;
    sub->wanted = true;
    settle(sub);
}

void redis_subs_remove(struct redis_subs *subs, struct str key)
{
    struct sub *sub = strmap_find(&subs->map, key);
    if (sub == NULL || !sub->wanted)
        return;
    sub->wanted = false;
    settle(sub);
}

struct redis_subs *redis_subs_create(struct loop *loop, struct redis_conn *conn, struct str prefix,
                                     const struct redis_subs_ops *ops, void *arg)
{
    struct redis_subs *subs = xalloc_zero(sizeof(*subs));
    subs->conn = conn;
    subs->ops = ops;
    subs->arg = arg;
    subs->prefix = (struct str){xalloc_str(prefix), prefix.len};
    strmap_init(&subs->map, loop_random(loop), loop_random(loop));
    list_init(&subs->todo);
    return subs;
}

void redis_subs_destroy(struct redis_subs *subs)
{
    if (subs == NULL)
        return;
    size_t at = 0;
    for (struct sub *sub; (sub = strmap_next(&subs->map, &at)) != NULL;) {
        sub->subs = NULL;
        if (!sub->asking)
            free(sub);
    }
    strmap_fini(&subs->map);
    free((char *)subs->prefix.p);
    free(subs);
}
