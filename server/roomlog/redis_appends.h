/* redis_appends.h - publishes on their way into their rooms' streams.
 *
 * One connection, pipelined: whatever one turn of the loop appends goes out in one write, and the
 * appends of one client into one room keep their order, whatever happens to them on the way; in a
 * cluster too, where slots move (redis_ways.h). What is sent for each: redis_script.h.
 *
 * While the connection is away, and while something must be answered first, appends wait in a
 * queue, in order: at most wait_ms without a connection, then they are answered with RD_EUNAVAIL.
 *
 * Where an entry must be durable (redis_durable.h) the appends of a turn and one WAIT behind them
 * go out together; their answers are held until it is answered, and what comes meanwhile waits and
 * goes out as the next batch. Where WAIT finds too few, RD_EUNKNOWN: the entry is in the log, but
 * nobody can say for how long; its publisher asks again under the same ref, which waits anew.
 *
 * A Redis that forgets our script (SCRIPT FLUSH), or that turns out to be a master no more while
 * its successor can be found, has not done what it was sent: once all that was sent is answered,
 * the script is loaded again, or the connection made anew, and those are sent once more, ahead of
 * what came later. While the room of a plain XADD has a script under way it goes as a script too,
 * so that both are refused together. (Only where another client loads the script again in the very
 * moment between two of ours may they change places.)
 *
 * Always true: an append that was taken is answered once; RD_EUNKNOWN where it was sent and its
 * connection ended before the answer came. None is taken while max_in_flight are under way, or
 * where their texts would be more than REDIS_CONN_BYTES_MAX together; what another Redis was asked
 * for first may come on top of that.
 */
#ifndef ROOMLOG_REDIS_APPENDS_H
#define ROOMLOG_REDIS_APPENDS_H

#include "roomlog/redis_conn.h"
#include "roomlog/redis_durable.h"
#include "roomlog/redis_redirect.h"
#include "roomlog/redis_script.h"
#include "roomlog/roomlog.h"

struct redis_appends;
struct redis_ways;

struct redis_appends_config {
    const struct redis_url *url; /* kept */
    struct redis_finder *finder; /* kept */
    struct redis_script_config script;
    struct redis_durable durable;
    uint64_t connect_ms, command_ms;
    uint64_t wait_ms; /* without a connection; 0: refused at once */
    size_t max_in_flight;
    bool require_noeviction; /* not up where Redis may evict, or may not say */
    struct redis_ways *ways; /* kept; of all nodes of a cluster; NULL: there is one Redis */
};

/* Each runs from the loop. */
struct redis_appends_ops {
    /* Appends are sent from here on; or not any more, or still not. */
    void (*up)(void *arg);
    void (*down)(void *arg, const char *reason);
    /* Redis refused an append for a reason that may hold for all. The op may be NULL, and is called
     * while requests are being answered. */
    void (*refused)(void *arg);
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
/* Wherever it is by now. */
void redis_appends_cancel(struct roomlog_append *append);

/* What waits for a connection, and whose key is served elsewhere by now, goes there. */
void redis_appends_recall(struct redis_appends *appends);

/* Is nothing under way, cancelled or not? */
bool redis_appends_idle(const struct redis_appends *appends);

bool redis_appends_up(const struct redis_appends *appends);

/* Sends somebody else's command over the same connection, ahead of nothing. False: it is down. */
RD_MUST_USE bool redis_appends_send(struct redis_appends *appends, struct redis_command *command,
                                    const struct redis_words *words);

#endif
