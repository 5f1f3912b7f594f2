/* redis_appends_impl.h - what redis_appends.c shares with redis_appends_request.c.
 *
 * redis_appends.c has the connection: what is sent over it when, and what its answers mean.
 * redis_appends_request.c has the requests: what they are made of, where they are counted, and how
 * long they wait.
 */
#ifndef ROOMLOG_REDIS_APPENDS_IMPL_H
#define ROOMLOG_REDIS_APPENDS_IMPL_H

#include "roomlog/redis_appends.h"
#include "roomlog/redis_ready.h"

enum { REDIS_APPENDS_BUCKETS = 1024 /* of rooms */ };

/*      DOWN --> GETTING_READY --> OPEN <--> HALTED
 *       ^             |            |           |
 *       +-------------+------------+-----------+
 *
 * HALTED: Redis has not done some of what it was sent. Nothing is sent until all of that is
 * answered; then what isn't so is put right. */
enum redis_appends_phase {
    REDIS_APPENDS_DOWN,
    REDIS_APPENDS_GETTING_READY,
    REDIS_APPENDS_OPEN,
    REDIS_APPENDS_HALTED,
    REDIS_APPENDS_PHASES
};

/*   NEW --> WAITING --> SENT --> (answered)
 *    |      ^ | ^  ^     | |\--> HELD, until WAIT is answered --> (answered)
 *    |      | | |  +-----+ | another Redis is to be asked
 *    |      | | +- AGAIN --+ until all that was sent is answered
 *    |      | v            |
 *    +--> HELD_UP <--------+ in a cluster, behind others of its room (redis_ways.h)
 */
enum redis_appends_stage {
    REDIS_APPENDS_NEW,
    REDIS_APPENDS_WAITING,
    REDIS_APPENDS_SENT,
    REDIS_APPENDS_HELD,
    REDIS_APPENDS_AGAIN,
    REDIS_APPENDS_HELD_UP,
    REDIS_APPENDS_STAGES
};

struct redis_appends {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_appends_config config;
    const struct redis_appends_ops *ops;
    void *arg;
    struct redis_conn *conn;
    struct redis_ready ready;

    enum redis_appends_phase phase;
    bool leave; /* HALTED: for another connection; else for the script */
    bool closing;
    struct list waiting, held, again; /* each in order */
    size_t sent;
    size_t in_flight; /* all of them */
    size_t bytes;     /* of their texts */
    size_t asked_for; /* of these, not cancelled */
    uint64_t seed[2];
    uint32_t scripted[REDIS_APPENDS_BUCKETS]; /* of each bucket of rooms: sent as scripts */

    struct loop_timer expiry;
    struct loop_task commit;
    struct redis_command wait;
    bool committing; /* WAIT is not answered yet */
    bool undurable;  /* the last answer to it was too few */
};

/* The texts are copies: it may have to be sent twice. */
struct redis_appends_request {
    struct redis_command command;
    struct list link;
    struct redis_appends *appends;
    struct roomlog_append *append; /* NULL: cancelled */
    struct roomlog_publish what;
    struct str key;
    struct redis_way *way; /* of a cluster's: while it is out, or held up; or NULL */
    uint64_t place;        /* among all that went this way */
    enum redis_appends_stage stage;
    unsigned bucket;
    unsigned tries, redirects;
    bool scripted, asking;
    uint64_t due_ms; /* of waiting without a connection, or held up; 0: that hasn't been */
    struct redis_script_answer answer; /* HELD */
    char bytes[];
};

/* Returns owned, until redis_appends_finish; counted here, in no list. Copies the texts. */
struct redis_appends_request *redis_appends_create(struct redis_appends *appends, struct str key,
                                                   const struct roomlog_publish *what,
                                                   struct roomlog_append *append);
/* Answers it, and frees it. */
void redis_appends_finish(struct redis_appends_request *request, enum rd_err err);

/* New or held up: from here on it is this connection's. */
void redis_appends_hand(struct redis_appends_request *request, bool asking);

/* Takes it out of its list. */
void redis_appends_move(struct redis_appends_request *request, enum redis_appends_stage stage);
/* The last of those that wait: it is WAITING. */
void redis_appends_wait(struct redis_appends_request *request);

/* Where it is counted, with its bytes; in between it is nowhere. */
void redis_appends_enter(struct redis_appends *appends, struct redis_appends_request *request);
void redis_appends_leave(struct redis_appends_request *request);

size_t redis_appends_text_bytes(const struct roomlog_publish *what);

bool redis_appends_connected(const struct redis_appends *appends);

/* Those that wait and have not begun to expire do so from now on. */
void redis_appends_begin_expiry(struct redis_appends *appends);
/* Nothing expires while there is a connection. */
void redis_appends_arm_expiry(struct redis_appends *appends);

#endif
