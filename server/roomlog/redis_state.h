/* redis_state.h - a room's state in Redis: what it lies in, how it is asked for, what comes.
 *
 * A hash beside the room, in the same cluster slot: {<room's key>}:state. A field a key, its value
 * as state_value.h has it. Two more fields can't be anybody's key: "\0id" is the position,
 * "\0bytes" what all keys cost together. redis_script.h writes them.
 *
 * It is asked for in two steps. First a small script says whether it belongs to the log that is
 * there now, and how large it is; only then HGETALL, which is one moment by itself. (By a script
 * alone it would cost several times as much.)
 *
 * Where other programs write there, it may be twice as large as our bounds and is still read; more
 * is refused. Fields that aren't as we write them are left out.
 */
#ifndef ROOMLOG_REDIS_STATE_H
#define ROOMLOG_REDIS_STATE_H

#include "roomlog/redis_conn.h"
#include "roomlog/redis_reply.h"

struct redis_state_limits {
    size_t max_keys; /* 0: no state is kept */
    size_t max_bytes;
};

/* Fields that are not keys. */
#define REDIS_STATE_ID "\0id"
#define REDIS_STATE_BYTES "\0bytes"

/* A script: what it does, behind function gone(room, state), given the keys of a room that has a
 * state. Does the state belong to a log that is no more? It does where the stream is missing, ends
 * below the position, or never lost an entry and yet doesn't hold the position's. Where entries
 * were removed the position's may be one of them, and the state counts. Returns owned. */
struct str redis_state_script(const char *what_it_does);

/* {<key>}:state. Returns owned. */
struct str redis_state_key(struct str key);

enum redis_state_step { REDIS_STATE_GUARD, REDIS_STATE_ALL };

/* Ready to be sent: one command. Points into itself: not to be copied. */
struct redis_state_ask {
    struct redis_words command;
    struct str words[5];
    struct str key; /* owned */
    struct str script;
};

void redis_state_ask(struct redis_state_ask *ask, enum redis_state_step step, struct str room);
void redis_state_ask_fini(struct redis_state_ask *ask);

enum redis_state_verdict {
    REDIS_STATE_EMPTY,
    REDIS_STATE_READ,  /* read all of it */
    REDIS_STATE_LARGE, /* too large to be read */
    REDIS_STATE_BAD    /* an error, or of another shape */
};

/* The answer to the first step. */
enum redis_state_verdict redis_state_guard(const struct redis_reply *reply,
                                           const struct redis_state_limits *limits);

/* What the second brought. Its items borrow from the reply, and from scratch. Zeroed: empty. */
struct redis_state {
    struct roomlog_state_view view;
    struct roomlog_entry *items;
    char *scratch;
    size_t odd; /* fields that were left out */
};

/* False: no such answer. redis_state_fini must follow, whatever this returns. */
bool redis_state_take(const struct redis_reply *reply, struct redis_state *out);
void redis_state_fini(struct redis_state *state);

#endif
