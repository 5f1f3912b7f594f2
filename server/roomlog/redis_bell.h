/* redis_bell.h - a connection that reads, and something that tells when reading is worth while.
 *
 * LIVE is where rooms are read. BELL is a second connection, on which a *source* hears of changes:
 * bells say when, reads say what. Which source it is, whoever reads needn't know:
 *
 *   tracking   reading a key through LIVE arms it (CLIENT TRACKING ON REDIRECT); its next change
 *              rings once. Nothing to subscribe room by room, nothing to configure in Redis
 *   keyspace   a subscription to each room's keyspace events
 *   xread      one XREAD BLOCK over all rooms
 *   pubsub     a subscription to each room's announcements, which carry the entry: a hint
 *   (none)     nobody rings: whoever wants to know must read again and again
 *
 *              LIVE is up          the source is linked         a probe was heard
 *       DOWN ------------> LINKING --------------------> LINKED ----------------> PROVEN
 *        ^                    |                           ^  |                      |
 *        |                    | auto: not at once,        |  | auto: not heard,     |
 *        |                    v or nothing left to try    |  v or BELL was lost     |
 *        |                   DEAF ------------------------+-----                    |
 *        |                    |    linked after all                                 |
 *        +--------------------+-----------------------------------------------------+
 *          LIVE was lost; in PROVEN, BELL was lost or did not ring. Where the source isn't ours to
 *          choose, the loss of either at any time: then both end and are made anew
 *
 * Silence proves nothing, so a probe goes round every few seconds: the connection for appends
 * writes, and BELL must hear that. It is the heartbeat of all three connections.
 *
 * `auto` takes the first of tracking, keyspace and none that hears its probe. What Redis refuses,
 * and what twice wasn't heard, or lost its connection, on a LIVE that was well meanwhile (a proxy
 * that swallows what it doesn't know), leads to the next. With a new LIVE it begins with the best
 * again, and so it does once a minute where it found none.
 *
 * Always true: only in PROVEN may one rely on bells. In LINKED and DEAF whoever wants to know must
 * read again and again.
 */
#ifndef ROOMLOG_REDIS_BELL_H
#define ROOMLOG_REDIS_BELL_H

#include "roomlog/redis_conn.h"
#include "roomlog/roomlog_redis.h"

struct redis_bell;

/* Each runs from the loop; none from inside a call of this header. */
struct redis_bell_ops {
    /* LIVE takes reads, and nothing is armed (any more): all that is followed must be armed and
     * read now. Comes again whenever that is so again. */
    void (*open)(void *arg);
    /* This key, or any, may have changed. */
    void (*rung)(void *arg, struct str key);
    void (*rung_all)(void *arg);
    /* This entry was announced to be in the key's log, entry->prev before it. Borrowed. Whoever
     * doesn't stand at prev takes it as a bell. */
    void (*hint)(void *arg, struct str key, const struct roomlog_entry *entry);
    /* How far has this key been read? False: that isn't known, or it is to be read anyway. */
    bool (*cursor)(void *arg, struct str key, struct stream_id *out_id);
    void (*closed)(void *arg);
};

struct redis_bell_config {
    const struct redis_url *url; /* kept */
    struct redis_finder *finder; /* kept */
    enum roomlog_redis_live live;
    uint64_t connect_ms, command_ms;
    uint64_t probe_ms; /* between two probes */

    /* Of whoever owns the whole log; each runs from the loop. */
    void *owner;
    /* What the last probe, or the loss of a connection, said: can the log be read and written? */
    void (*health)(void *owner, bool ok, const char *reason);
    /* Sends the probe's write through the connection for appends. False: it is down. */
    bool (*write)(void *owner, struct redis_command *command, const struct redis_words *words);
    /* Does this Redis hold the key? Of a cluster's node only some will do for a probe. */
    bool (*holds)(void *owner, struct str key);
};

/* Returns owned, until redis_bell_close. Keeps loop, metrics and ops. */
struct redis_bell *redis_bell_open(struct loop *loop, struct metrics *metrics,
                                   const struct redis_bell_config *config,
                                   const struct redis_bell_ops *ops, void *arg);

/* `closed` comes later and is the last. A probe's write may not be under way any more: close the
 * connection for appends first. */
void redis_bell_close(struct redis_bell *bell);

/* May LIVE be read? Where it may, Redis serves reads, for all that the last probe knows. */
bool redis_bell_readable(const struct redis_bell *bell);

/* Sends a read through LIVE. False: it is down; `open` will come. */
RD_MUST_USE bool redis_bell_read(struct redis_bell *bell, struct redis_command *command,
                                 const struct redis_words *commands, size_t count);

/* This key is followed from here on. A source that must subscribe to it rings it once that is
 * done: what is read then is what counts. Arming what is armed says that its cursor went back. */
void redis_bell_arm(struct redis_bell *bell, struct str key);
/* No more. Stray bells may come yet. Harmless where it isn't armed. */
void redis_bell_disarm(struct redis_bell *bell, struct str key);

/* Everything that rang has been read. */
void redis_bell_idle(struct redis_bell *bell);

/* In how many ms all that is followed should be read once, because bells may miss something. 0: no
 * bell can be relied on at all. */
uint64_t redis_bell_audit_ms(const struct redis_bell *bell);

/* Probes now, where no probe is under way: the connection for appends has come up. */
void redis_bell_probe(struct redis_bell *bell);

#endif
