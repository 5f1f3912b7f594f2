/* publish.h - the way in: bound, append, answer.
 *
 * A publisher owns a struct publish_set: its publishes that the log has not answered yet, bounded.
 * It may abandon them all at once (its client is gone): what was sent to the log may still be done,
 * but nobody is told.
 *
 * Always true: each publish that was accepted is answered once, or never after publish_abandon.
 */
#ifndef SESSION_PUBLISH_H
#define SESSION_PUBLISH_H

#include "base/list.h"
#include "roomlog/roomlog.h"

/* room and ref are borrowed for the call. err, id, duplicate: as roomlog_append_fn has them. */
typedef void (*publish_done_fn)(void *arg, struct str room, struct str ref, enum rd_err err,
                                struct stream_id id, bool duplicate);

/* The fields are publish.c's. */
struct publish_set {
    struct roomlog *log;
    struct list under_way;
    size_t count;
    size_t max;
    publish_done_fn done;
    void *arg;
};

/* Keeps log and arg. done is called from the loop, never from publish_start; it may start another
 * publish or abandon the set. */
void publish_init(struct publish_set *set, struct roomlog *log, size_t max, publish_done_fn done,
                  void *arg);

/* RD_EBUSY: max are under way. Others as roomlog_append. Borrows room and what. */
RD_MUST_USE enum rd_err publish_start(struct publish_set *set, struct str room,
                                      const struct roomlog_publish *what);

/* Nothing is answered any more. The set may be used again. */
void publish_abandon(struct publish_set *set);

#endif
