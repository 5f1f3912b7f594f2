/* redis_bell.h - a pair of connections of which one reads and the other hears what changed.
 *
 * LIVE is where rooms are read. It is tracked (CLIENT TRACKING ON REDIRECT): reading a key arms it,
 * and the next change of it, by whomever, rings one bell on BELL, which is subscribed to
 * __redis__:invalidate and does nothing else. Bells say when, reads say what.
 *
 *         both up            tracking is on        a probe was heard
 *   DOWN ---------> LINKING ----------------> LINKED ----------------> PROVEN
 *    ^                 |   refused                                        |
 *    |                 +----------------> DEAF (auto), or DOWN            |
 *    +-- either connection lost, or a bell not heard ---------------------+
 *
 * Neither connection notices that the other is gone (in RESP2), so the loss of either ends both.
 * And silence proves nothing, so a probe goes round every few seconds: LIVE reads a key, the
 * connection for appends writes it, BELL must hear that.
 *
 * Always true: only in PROVEN may one rely on bells; in LINKED and DEAF (`poll`, and `auto` where
 * Redis won't have it) whoever wants to know must read again and again.
 */
#ifndef ROOMLOG_REDIS_BELL_H
#define ROOMLOG_REDIS_BELL_H

#include "roomlog/redis_conn.h"
#include "roomlog/roomlog_redis.h"

struct redis_bell;

/* Each runs from the loop. */
struct redis_bell_ops {
    /* LIVE takes reads from here on. Nothing is armed yet: all that is followed must be read now.
     */
    void (*open)(void *arg);
    /* This key, or any, may have changed. */
    void (*rung)(void *arg, struct str key);
    void (*rung_all)(void *arg);
    void (*closed)(void *arg);
};

struct redis_bell_config {
    const struct redis_url *url; /* kept */
    struct redis_finder *finder; /* kept */
    enum roomlog_redis_live live;
    uint64_t connect_ms, command_ms;

    /* Of whoever owns the whole log; each runs from the loop. */
    void *owner;
    /* What the last probe, or the loss of a connection, said: can the log be read and written? */
    void (*health)(void *owner, bool ok, const char *reason);
    /* Sends the probe's write through the connection for appends. False: it is down. */
    bool (*write)(void *owner, struct redis_command *command, const struct redis_words *words);
};

/* Returns owned, until redis_bell_close. Keeps loop, metrics and ops. */
struct redis_bell *redis_bell_open(struct loop *loop, struct metrics *metrics,
                                   const struct redis_bell_config *config,
                                   const struct redis_bell_ops *ops, void *arg);

/* `closed` comes later and is the last. A probe's write may not be under way any more: close the
 * connection for appends first. */
void redis_bell_close(struct redis_bell *bell);

/* Sends a read through LIVE. False: it is down; `open` will come. */
RD_MUST_USE bool redis_bell_read(struct redis_bell *bell, struct redis_command *command,
                                 const struct redis_words *commands, size_t count);

bool redis_bell_proven(const struct redis_bell *bell);

/* Probes now, where no probe is under way: the connection for appends has come up. */
void redis_bell_probe(struct redis_bell *bell);

#endif
