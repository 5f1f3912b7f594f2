/* redis_followers.h - who follows one room, and telling them.
 *
 * Embedded in a redis_feed's room. Followers are told one after the other, and any of them may
 * unfollow, or be unfollowed, or follow again, from inside its callback.
 *
 * Always true: a follower hears `started` first, and once.
 */
#ifndef ROOMLOG_REDIS_FOLLOWERS_H
#define ROOMLOG_REDIS_FOLLOWERS_H

#include "roomlog/roomlog.h"

struct redis_followers {
    struct list started; /* or in a walk */
    struct list waiting; /* have not been told where they start */
    size_t count;
    unsigned walks; /* callbacks on the stack: the owner must not be freed meanwhile */
};

void redis_followers_init(struct redis_followers *followers);

/* The follower's impl is ours from here on; room is what redis_followers_room gives back. */
void redis_followers_add(struct redis_followers *followers, struct roomlog_follower *follower,
                         void *room);
void *redis_followers_room(const struct roomlog_follower *follower);
void redis_followers_remove(struct redis_followers *followers, struct roomlog_follower *follower);

/* Tells those who wait that it starts at head. */
void redis_followers_start(struct redis_followers *followers, struct stream_id head);
/* Tell those who were started. */
void redis_followers_entries(struct redis_followers *followers, const struct roomlog_entry *entries,
                             size_t count);
void redis_followers_broken(struct redis_followers *followers, enum verdict why,
                            struct stream_id head);

#endif
