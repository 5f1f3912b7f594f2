#include "roomlog/roomlog.h"

#include <assert.h>

enum rd_err roomlog_append(struct roomlog *log, struct str room, const struct roomlog_publish *what,
                           struct roomlog_append *append)
{
    assert(append->impl == NULL && append->done != NULL);
    enum rd_err err = log->ops->append(log, room, what, append);
    assert((err == RD_OK) == (append->impl != NULL));
    return err;
}

void roomlog_cancel_append(struct roomlog *log, struct roomlog_append *append)
{
    if (append->impl == NULL)
        return;
    log->ops->cancel_append(log, append);
    assert(append->impl == NULL);
}

enum rd_err roomlog_read(struct roomlog *log, struct str room, struct roomlog_read *read)
{
    assert(read->impl == NULL && read->done != NULL && read->max_entries != 0);
    assert(read->from != ROOMLOG_NEWEST || read->newest != 0);
    enum rd_err err = log->ops->read(log, room, read);
    assert((err == RD_OK) == (read->impl != NULL));
    return err;
}

void roomlog_cancel_read(struct roomlog *log, struct roomlog_read *read)
{
    if (read->impl == NULL)
        return;
    log->ops->cancel_read(log, read);
    assert(read->impl == NULL);
}

enum rd_err roomlog_state(struct roomlog *log, struct str room, struct roomlog_state *state)
{
    assert(state->impl == NULL && state->done != NULL);
    enum rd_err err = log->ops->state(log, room, state);
    assert((err == RD_OK) == (state->impl != NULL));
    return err;
}

void roomlog_cancel_state(struct roomlog *log, struct roomlog_state *state)
{
    if (state->impl == NULL)
        return;
    log->ops->cancel_state(log, state);
    assert(state->impl == NULL);
}

void roomlog_follow(struct roomlog *log, struct str room, struct roomlog_follower *follower)
{
    assert(follower->impl == NULL && follower->ops != NULL);
    log->ops->follow(log, room, follower);
    assert(follower->impl != NULL);
}

void roomlog_unfollow(struct roomlog *log, struct roomlog_follower *follower)
{
    if (follower->impl == NULL)
        return;
    log->ops->unfollow(log, follower);
    assert(follower->impl == NULL);
}

bool roomlog_readable(struct roomlog *log, struct str room)
{
    return log->ops->readable(log, room);
}

bool roomlog_ready(struct roomlog *log)
{
    return log->ops->ready(log);
}

void roomlog_close(struct roomlog *log)
{
    if (log != NULL)
        log->ops->close(log);
}
