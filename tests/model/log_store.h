/* log_store.h - a real log that random histories happen to: Redis, or the one in the process.
 *
 * Many histories at once, each in a room of its own, so that Redis is asked for hundreds of things
 * in one go.
 */
#ifndef TESTS_MODEL_LOG_STORE_H
#define TESTS_MODEL_LOG_STORE_H

#include "roomlog/roomlog.h"
#include "tests/model/log_history.h"

struct log_store {
    unsigned can; /* a bit for each log_history_kind */
    bool can_follow;
    struct roomlog *(*open)(void);
    /* Waits until all of it is gone. Nothing may be under way. */
    void (*close)(void);
    /* Before the first round of some histories. node_entries: of a stream's node, which is what `~`
     * trims. */
    void (*begin)(unsigned node_entries);
    /* Does each history's ops, one history's all at once, and tells what came of them. */
    void (*apply)(struct log_history *histories, size_t count);
    /* Turns the loop until done(arg). False: not within some seconds. */
    bool (*run)(bool (*done)(void *arg), void *arg);
};

extern const struct log_store log_store_redis;
extern const struct log_store log_store_mem;

#endif
