/* redis_reads.h - pages of rooms' histories, for those who replay.
 *
 * One connection of its own, never tracked, so that long pages don't hold live reads up. A page
 * after a cursor is one inclusive XRANGE; where that can't prove itself, or where the verdict's
 * info or more than that is wanted, it is MULTI, XINFO STREAM, XRANGE, EXEC: one moment of the log
 * either way.
 *
 * Redis can bound a page by entries but not by bytes, so COUNT is chosen by what the room's entries
 * took lately (redis_feed knows), and what comes is cut to the bytes that were asked for. The
 * newest are one page, so they are asked for again, and for more, where they were held to be larger
 * than they are. Where so many were more than a reply may be (RD_ETOOBIG), one is asked for.
 *
 * A room's state is read here too: see redis_state.h.
 *
 * Always true: a read that was taken is answered once; RD_EUNAVAIL where its connection ended
 * before.
 */
#ifndef ROOMLOG_REDIS_READS_H
#define ROOMLOG_REDIS_READS_H

#include "roomlog/redis_conn.h"
#include "roomlog/redis_feed.h"
#include "roomlog/redis_redirect.h"
#include "roomlog/redis_state.h"
#include "roomlog/roomlog.h"

struct redis_reads;

struct redis_reads_config {
    const struct redis_url *url; /* kept */
    struct redis_finder *finder; /* kept */
    uint64_t connect_ms, command_ms;
    size_t max_in_flight; /* states included */
    struct redis_state_limits state;
};

/* Each runs from the loop. */
struct redis_reads_ops {
    void (*up)(void *arg);
    void (*down)(void *arg, const char *reason);
    /* Another Redis is to be asked for this. Returns that one's, borrowed, which then has the
     * request; NULL: there is none. The op may be NULL. */
    struct redis_reads *(*redirect)(void *arg, const struct redis_redirect *redirect);
    void (*closed)(void *arg);
};

/* Returns owned, until redis_reads_close. Keeps loop, metrics, feed and ops; feed must live until
 * closed. */
struct redis_reads *redis_reads_open(struct loop *loop, struct metrics *metrics,
                                     struct redis_feed *feed,
                                     const struct redis_reads_config *config,
                                     const struct redis_reads_ops *ops, void *arg);
/* Only cancelled reads may be under way: asserted. `closed` comes later and is the last. */
void redis_reads_close(struct redis_reads *reads);

/* As roomlog_read; key is the room's in Redis. */
RD_MUST_USE enum rd_err redis_reads_add(struct redis_reads *reads, struct str key,
                                        struct roomlog_read *read);
void redis_reads_cancel(struct roomlog_read *read);

/* As roomlog_state. */
RD_MUST_USE enum rd_err redis_reads_state(struct redis_reads *reads, struct str key,
                                          struct roomlog_state *state);
void redis_reads_cancel_state(struct roomlog_state *state);

bool redis_reads_up(const struct redis_reads *reads);
/* May it be closed? */
bool redis_reads_idle(const struct redis_reads *reads);

#endif
