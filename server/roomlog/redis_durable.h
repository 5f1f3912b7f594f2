/* redis_durable.h - what has to be true of an entry before its publisher is told that it is in the
 * log. No I/O.
 *
 *   MEMORY   the master has it
 *   REPLICA  so many replicas have it, too: WAIT
 *   DISK     the master's append-only file has it, flushed: WAITAOF (Redis >= 7.2)
 *
 * One command behind many appends of the same connection speaks for all of them. It holds that
 * connection up until it is answered. None of them is consensus: a failover to a replica that was
 * not asked may still lose what was acknowledged.
 */
#ifndef ROOMLOG_REDIS_DURABLE_H
#define ROOMLOG_REDIS_DURABLE_H

#include "roomlog/redis_conn.h"
#include "roomlog/redis_reply.h"

enum redis_durable_kind { REDIS_DURABLE_MEMORY, REDIS_DURABLE_REPLICA, REDIS_DURABLE_DISK };

struct redis_durable {
    enum redis_durable_kind kind;
    unsigned replicas; /* REPLICA: at least 1 */
    uint64_t wait_ms;  /* at least 1, and below what a command may take */
};

/* The command, not for MEMORY. Points into itself: not to be copied. */
struct redis_durable_ask {
    struct redis_words command;
    struct str words[4];
    char numbers[2][24];
};

void redis_durable_ask(struct redis_durable_ask *ask, const struct redis_durable *durable,
                       uint64_t wait_ms);

/* Does the answer say that it is so? An error doesn't. */
bool redis_durable_holds(const struct redis_durable *durable, const struct redis_reply *reply);

#endif
