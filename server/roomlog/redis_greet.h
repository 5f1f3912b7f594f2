/* redis_greet.h - what a connection says first: who we are, which database, and whether this Redis
 * serves us.
 *
 *   AUTH (where the URL has a password), ROLE (where only a master will do), SELECT (where it isn't
 *   database 0), CLIENT SETNAME and PING
 *
 * One after the other, each judged before the next. Whether we may have a name doesn't matter;
 * whether Redis serves us (no NOAUTH, no LOADING, no MASTERDOWN) does. No I/O.
 */
#ifndef ROOMLOG_REDIS_GREET_H
#define ROOMLOG_REDIS_GREET_H

#include "roomlog/redis_conn.h"

enum { REDIS_GREET_REASON_MAX = 192 };

/* Embedded in redis_conn; zeroed: nothing was said. The fields are redis_greet.c's. */
struct redis_greet {
    unsigned said;      /* steps that are behind us */
    bool master;        /* ROLE is the one under way */
    const char *secret; /* AUTH's password, while that is; never in a reason. NULL: none */
    struct str words[3];
    struct str ping;
    struct redis_words commands[2];
    char db[16];
};

/* Commands that go together, pointing into greet. Sets *out_count; 0: all was said. */
const struct redis_words *redis_greet_next(struct redis_greet *greet, const struct redis_url *url,
                                           const char *name, bool wants_master, size_t *out_count);

enum redis_greet_verdict {
    REDIS_GREET_FINE,
    REDIS_GREET_NOT_YET,  /* it is loading, or the like: that passes */
    REDIS_GREET_REFUSED,  /* a wrong password stays wrong */
    REDIS_GREET_ELSEWHERE /* it is no master */
};

/* Judges their last answer. reason: why it isn't fine. */
enum redis_greet_verdict redis_greet_judge(const struct redis_greet *greet,
                                           const struct redis_reply *reply,
                                           char reason[REDIS_GREET_REASON_MAX]);

#endif
