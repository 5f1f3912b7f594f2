/* redis_appends.h - publishes on their way into their rooms' streams.
 *
 * One connection, pipelined: whatever one turn of the loop appends goes out in one write, and one
 * client's appends keep their order. (An exception: where Redis has forgotten our script, those
 * with a ref are sent once more, and so may come behind later ones without.)
 *
 * An append without a ref is a plain XADD; its answer is the entry's id. One with a ref, where refs
 * are remembered, is a script: look the ref up, append, remember. In this order, so that an append
 * that Redis refuses leaves no claim behind. What is remembered lies beside the room, in the same
 * cluster slot: {<room's key>}:ref:<length of user>:<user>:<ref>.
 *
 * Always true: an append that was taken is answered once; RD_EUNKNOWN where its connection ended
 * before the answer came. While there is no connection none is taken. No more than max_in_flight
 * are under way, and their texts are no more than REDIS_CONN_BYTES_MAX together.
 */
#ifndef ROOMLOG_REDIS_APPENDS_H
#define ROOMLOG_REDIS_APPENDS_H

#include "roomlog/redis_conn.h"
#include "roomlog/redis_redirect.h"
#include "roomlog/roomlog.h"

struct redis_appends;

struct redis_appends_config {
    const struct redis_url *url; /* kept */
    struct redis_finder *finder; /* kept */
    uint64_t max_entries, max_age_ms, dedupe_ms, connect_ms, command_ms;
    size_t max_in_flight;
};

/* Each runs from the loop. */
struct redis_appends_ops {
    /* Appends are taken from here on; or not any more, or still not. */
    void (*up)(void *arg);
    void (*down)(void *arg, const char *reason);
    /* Another Redis is to be asked for this. Returns that one's, borrowed, which then has the
     * request; NULL: there is none. The op may be NULL. */
    struct redis_appends *(*redirect)(void *arg, const struct redis_redirect *redirect);
    void (*closed)(void *arg);
};

/* Returns owned, until redis_appends_close. Keeps loop, metrics and ops. */
struct redis_appends *redis_appends_open(struct loop *loop, struct metrics *metrics,
                                         const struct redis_appends_config *config,
                                         const struct redis_appends_ops *ops, void *arg);
/* Only cancelled appends may be under way: asserted. `closed` comes later and is the last. */
void redis_appends_close(struct redis_appends *appends);

/* As roomlog_append; key is the room's in Redis. */
RD_MUST_USE enum rd_err redis_appends_add(struct redis_appends *appends, struct str key,
                                          const struct roomlog_publish *what,
                                          struct roomlog_append *append);
void redis_appends_cancel(struct roomlog_append *append);

bool redis_appends_up(const struct redis_appends *appends);
/* May it be closed? */
bool redis_appends_idle(const struct redis_appends *appends);

/* Sends somebody else's command over the same connection, ahead of nothing. False: it is down. */
RD_MUST_USE bool redis_appends_send(struct redis_appends *appends, struct redis_command *command,
                                    const struct redis_words *words);

#endif
