#include "session/publish.h"

#include "base/xalloc.h"

#include <stdlib.h>

/* One publish under way. Its room and ref live behind it. */
struct publish {
    struct roomlog_append append;
    struct list link;
    struct publish_set *set;
    struct str room;
    struct str ref;
    char text[];
};

void publish_init(struct publish_set *set, struct roomlog *log, size_t max, publish_done_fn done,
                  void *arg)
{
    *set = (struct publish_set){.log = log, .max = max, .done = done, .arg = arg};
    list_init(&set->under_way);
}

static void drop(struct publish *publish)
{
    list_remove(&publish->link);
    publish->set->count--;
}

static void on_appended(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                        bool duplicate)
{
    struct publish *publish = RD_CONTAINER(append, struct publish, append);
    struct publish_set *set = publish->set;
    drop(publish);
    set->done(set->arg, publish->room, publish->ref, err, id, duplicate);
    free(publish);
}

static struct publish *create(struct publish_set *set, struct str room, struct str ref)
{
    struct publish *publish = xalloc(sizeof(*publish) + room.len + ref.len);
    *publish = (struct publish){.append = {.done = on_appended}, .set = set};
    publish->room = (struct str){publish->text, room.len};
    memcpy(publish->text, room.p, room.len);
    if (str_present(ref)) {
        publish->ref = (struct str){publish->text + room.len, ref.len};
        memcpy(publish->text + room.len, ref.p, ref.len);
    }
    return publish;
}

enum rd_err publish_start(struct publish_set *set, struct str room,
                          const struct roomlog_publish *what)
{
    if (set->count >= set->max)
        return RD_EBUSY;
    struct publish *publish = create(set, room, what->ref);
    enum rd_err err = roomlog_append(set->log, room, what, &publish->append);
    if (err != RD_OK) {
        free(publish);
        return err;
    }
    list_push_back(&set->under_way, &publish->link);
    set->count++;
    return RD_OK;
}

void publish_abandon(struct publish_set *set)
{
    for (struct list *link; (link = set->under_way.next) != &set->under_way;) {
        struct publish *publish = LIST_ITEM(link, struct publish, link);
        roomlog_cancel_append(set->log, &publish->append);
        drop(publish);
        free(publish);
    }
}
