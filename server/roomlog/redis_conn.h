/* redis_conn.h - one connection to Redis that is made again and again until it is closed.
 *
 * hiredis connects (redis_dial); the bytes are redis_wire's, and who waits for which answer is kept
 * here. (hiredis' own asynchronous layer has no timeouts, ends the process where a reply comes that
 * nobody asked for, and can't be freed inside its callbacks; its replies are trees of allocations.)
 * Everybody else sees a reply only as a struct redis_reply that redis_reply.h can read.
 *
 *      +----------------- the pause is over ------------------+
 *      v                                                      |
 *   DIALING --> (SECURING) --> GREETING --> UP             WAITING
 *      |             |             |        |                 ^
 *      +-------------+-------------+--------+--> LOST --------+
 *                                                  on a later turn
 *                                        (commands finished, `down` told)
 *   from anywhere: redis_conn_close --> CLOSING --> freed, `closed` told
 *
 * Always true:
 * - Each command that was taken is finished exactly once, later: with its answer, or with NULL
 * where the connection ended before, so that its outcome is unknown. In the order they were sent.
 * - A command that isn't answered within command_ms ends the connection. (A pause of our own
 * process doesn't count: the answer gets one more look before it is given up.)
 * - One on which nothing is being asked is asked every command_ms whether it is still there (but
 * for a subscriber's).
 * - Memory is freed only on a turn of its own: any function may be called from any callback here.
 * - A turn reads at most 256 KiB, and what a turn sends goes out together at its end.
 *
 * The pause grows from 50 ms to 1 s, half of it drawn at random. It starts small again once a
 * connection has held for some seconds.
 */
#ifndef ROOMLOG_REDIS_CONN_H
#define ROOMLOG_REDIS_CONN_H

#include "base/loop.h"
#include "base/metrics.h"
#include "protocol/str.h"
#include "roomlog/redis_finder.h"
#include "roomlog/redis_url.h"

struct redis_reply;
struct redis_conn;
struct redis_command;

enum {
    REDIS_CONN_WORDS_MAX = 32,       /* of one command; only XREAD's may have more */
    REDIS_CONN_BYTES_MAX = 128 << 20 /* of one command's words together */
};

/* reply: the answer, which may be an error, borrowed; NULL: the outcome is unknown. The command may
 * be freed or sent again from here. */
typedef void (*redis_command_fn)(struct redis_command *command, const struct redis_reply *reply);

/* One command under way, embedded in whoever sends it. Its owner fills in done and leaves the rest
 * alone. */
struct redis_command {
    redis_command_fn done;
    struct list link;
    uint64_t due_ms;
    uint64_t sent; /* the number of its last answer on this connection */
};

/* The words of one command, the name first. */
struct redis_words {
    const struct str *p;
    size_t count;
};

/* Each runs from the loop. reason is for people and borrowed. */
struct redis_conn_ops {
    /* Connected, known to Redis, database chosen: commands are taken from here on. */
    void (*up)(void *arg);
    /* An attempt failed, or the connection is gone; its commands are finished. Another will be
     * made. */
    void (*down)(void *arg, const char *reason);
    /* A reply that answers nothing, as subscribers get them: a message, whatever has been asked
     * (see redis_reply_push), and anything while nothing has. NULL: this is no subscriber, and a
     * reply that answers nothing ends the connection.
     *
     * Redis answers a SUBSCRIBE once for each channel that it names, so let it name one. */
    void (*push)(void *arg, const struct redis_reply *reply);
    /* After redis_conn_close, once: nothing is left. */
    void (*closed)(void *arg);
};

struct redis_conn_config {
    const struct redis_url *url; /* kept: as whom, and how; where is the finder's business */
    struct redis_finder *finder; /* kept */
    const char *name;            /* kept; what Redis' CLIENT LIST calls us */
    uint64_t connect_ms, command_ms;
};

/* Returns owned, until redis_conn_close. Keeps loop, metrics and ops. The first attempt is made in
 * the next turn. */
struct redis_conn *redis_conn_open(struct loop *loop, struct metrics *metrics,
                                   const struct redis_conn_config *config,
                                   const struct redis_conn_ops *ops, void *arg);

/* Gives everything under way up; `closed` comes later and is the last. */
void redis_conn_close(struct redis_conn *conn);

bool redis_conn_is_up(const struct redis_conn *conn);

/* Sends commands in one go; command is finished with the last one's answer, those of the others are
 * dropped (an error inside MULTI comes back with EXEC). Words are borrowed for the call. False: not
 * up, or too large; nothing was sent. */
RD_MUST_USE bool redis_conn_send(struct redis_conn *conn, struct redis_command *command,
                                 const struct redis_words *commands, size_t count);

/* Ends the connection, as if it had been lost for this reason, and makes another. Harmless where it
 * is not up. */
void redis_conn_drop(struct redis_conn *conn, const char *reason);

#endif
