#include "roomlog/redis_followers.h"

#include "base/xalloc.h"

#include <stdlib.h>

/* A follower's place in a room: its impl. */
struct place {
    struct roomlog_follower *follower;
    void *room;
    struct list link;
};

void redis_followers_init(struct redis_followers *followers)
{
    *followers = (struct redis_followers){.count = 0};
    list_init(&followers->started);
    list_init(&followers->waiting);
}

void redis_followers_add(struct redis_followers *followers, struct roomlog_follower *follower,
                         void *room)
{
    struct place *place = xalloc_zero(sizeof(*place));
    place->follower = follower;
    place->room = room;
    follower->impl = place;
    followers->count++;
    list_push_back(&followers->waiting, &place->link);
}

void *redis_followers_room(const struct roomlog_follower *follower)
{
    const struct place *place = follower->impl;
    return place->room;
}

void redis_followers_remove(struct redis_followers *followers, struct roomlog_follower *follower)
{
    struct place *place = follower->impl;
    follower->impl = NULL;
    followers->count--;
    list_remove(&place->link);
    free(place);
}

/* The next of a walk, now among those started; NULL at its end. A walk is a list of its own, so
 * that whoever is removed meanwhile is out of it, and whoever comes meanwhile isn't in it. */
static struct roomlog_follower *next(struct redis_followers *followers, struct list *walk)
{
    struct list *link = list_pop_front(walk);
    if (link == NULL)
        return NULL;
    list_push_back(&followers->started, link);
    return LIST_ITEM(link, struct place, link)->follower;
}

void redis_followers_start(struct redis_followers *followers, struct stream_id head)
{
    struct list walk;
    list_init(&walk);
    list_move_all(&walk, &followers->waiting);
    followers->walks++;
    for (struct roomlog_follower *at; (at = next(followers, &walk)) != NULL;)
        at->ops->started(at, head);
    followers->walks--;
}

void redis_followers_entries(struct redis_followers *followers, const struct roomlog_entry *entries,
                             size_t count)
{
    struct list walk;
    list_init(&walk);
    list_move_all(&walk, &followers->started);
    followers->walks++;
    for (struct roomlog_follower *at; (at = next(followers, &walk)) != NULL;)
        at->ops->entries(at, entries, count);
    followers->walks--;
}

void redis_followers_broken(struct redis_followers *followers, enum verdict why,
                            struct stream_id head)
{
    struct list walk;
    list_init(&walk);
    list_move_all(&walk, &followers->started);
    followers->walks++;
    for (struct roomlog_follower *at; (at = next(followers, &walk)) != NULL;)
        at->ops->broken(at, why, head);
    followers->walks--;
}
