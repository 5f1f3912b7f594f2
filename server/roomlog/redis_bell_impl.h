/* redis_bell_impl.h - what redis_bell.c shares with its probe and with its sources.
 *
 * A source is a table of functions, one file each. It lives on BELL, from `link` until `unlink`,
 * and says what it hears through the functions below.
 */
#ifndef ROOMLOG_REDIS_BELL_IMPL_H
#define ROOMLOG_REDIS_BELL_IMPL_H

#include "roomlog/redis_bell.h"
#include "roomlog/redis_reply.h"
#include "roomlog/redis_subs.h"

enum {
    REDIS_BELL_REASON_MAX = 192,
    REDIS_BELL_KEY_MAX = 48,
    REDIS_BELL_CHANNELS_MAX = 32,
    REDIS_BELL_PROBE_WORDS = 8
};

/* In the order of the metric's numbers. */
enum redis_bell_kind {
    REDIS_BELL_NONE,
    REDIS_BELL_POLL,
    REDIS_BELL_TRACKING,
    REDIS_BELL_KEYSPACE,
    REDIS_BELL_XREAD,
    REDIS_BELL_PUBSUB
};

typedef void (*redis_bell_fn)(struct redis_bell *bell, const struct redis_reply *reply);

/* A command of the probe, as it is put together. */
struct redis_bell_words {
    struct str p[REDIS_BELL_PROBE_WORDS];
    size_t count;
};

struct redis_bell_source {
    const char *name;
    enum redis_bell_kind kind;
    uint64_t audit_ms; /* see redis_bell_audit_ms */

    /* Both connections are up. Ends later in redis_bell_linked or redis_bell_refused, unless a
     * connection is lost before. */
    void (*link)(struct redis_bell *bell);
    /* Or NULL. The link, or what was under way of it, has ended, and BELL is being dropped. */
    void (*unlink)(struct redis_bell *bell);

    /* Or NULL: it needn't know. Only while linked. */
    void (*arm)(struct redis_bell *bell, struct str key);
    void (*disarm)(struct redis_bell *bell, struct str key);
    void (*idle)(struct redis_bell *bell);

    /* Something came on BELL that answers nothing. */
    void (*push)(struct redis_bell *bell, const struct redis_reply *reply);

    /* What BELL must hear: a read through LIVE, then a write through the connection for appends.
     * number is the write's payload. Words live as long as the bell, or are number. */
    void (*probe_read)(struct redis_bell *bell, struct redis_bell_words *out);
    void (*probe_write)(struct redis_bell *bell, struct str number, struct redis_bell_words *out);
    /* Or NULL: it needn't know. The probe's keys are others now. The next round comes a little
     * later. */
    void (*aimed)(struct redis_bell *bell);
};

extern const struct redis_bell_source redis_bell_tracking;
extern const struct redis_bell_source redis_bell_keyspace;
extern const struct redis_bell_source redis_bell_xread;
extern const struct redis_bell_source redis_bell_pubsub;

enum redis_bell_state {
    REDIS_BELL_DOWN,
    REDIS_BELL_LINKING,
    REDIS_BELL_DEAF,
    REDIS_BELL_LINKED,
    REDIS_BELL_PROVEN,
    REDIS_BELL_STATES
};

enum redis_bell_probe_step {
    REDIS_BELL_IDLE,
    REDIS_BELL_READS,
    REDIS_BELL_WRITES,
    REDIS_BELL_LISTENS
};

/* One round of the probe. */
struct redis_bell_probe {
    enum redis_bell_probe_step step;
    uint64_t link; /* the one that it began on */
    bool heard;    /* since it began */
    bool astray;   /* its keys were drawn anew since they were held here */
    unsigned ticks;
    uint64_t count; /* of all that were begun */
    struct redis_command command;
    struct loop_timer timer;         /* IDLE: the next one; LISTENS: a tick */
    char key[REDIS_BELL_KEY_MAX];    /* a text, or a channel */
    char stream[REDIS_BELL_KEY_MAX]; /* in the same slot of a cluster; as the source likes it */
};

struct redis_bell {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_bell_config config;
    const struct redis_bell_ops *ops;
    void *arg;

    enum redis_bell_state state;
    struct redis_conn *live;
    struct redis_conn *bell; /* NULL where we poll */
    unsigned open_conns;     /* not yet closed */
    bool closing;

    const struct redis_bell_source *const *sources; /* the best first, ended by NULL */
    const struct redis_bell_source *const *source;  /* among them; *source is NULL: none is left */
    bool linking;                                   /* *source is at it */
    unsigned failures;                              /* in a row, of *source */
    bool unheard;                                   /* a probe of this link was not heard */
    uint64_t links;                                 /* how often `open` was told */
    uint64_t tries;                                 /* how often a source began to link */
    struct loop_timer patience; /* LINKING: until we read without. No source is left: until we begin
                                   with the best again */
    enum redis_bell_kind told;  /* what the logger was told to be in use */

    struct redis_bell_probe probe;

    /* What a source keeps. */
    uint64_t bell_id;        /* what Redis calls BELL */
    struct redis_subs *subs; /* NULL unless linked */
    struct redis_bell_xread *xread;
    char channels[REDIS_BELL_CHANNELS_MAX]; /* what a room's channel begins with */
    bool warned;                            /* that Redis makes too few events */
};

/* --- for sources ---------------------------------------------------------------------------- */

/* Bells ring from here on. */
void redis_bell_linked(struct redis_bell *bell);
/* Redis won't have it (an error, or an answer of another shape), at once or later. */
void redis_bell_refused(struct redis_bell *bell, const struct redis_reply *reply);
/* The probe's write was heard. */
void redis_bell_hear(struct redis_bell *bell);
/* Sends a command through conn, LIVE or BELL. done gets its answer, unless the link that is there
 * now, or under way, has ended before. */
void redis_bell_errand(struct redis_bell *bell, struct redis_conn *conn,
                       const struct redis_words *words, redis_bell_fn done);
/* An errand: asks what Redis calls BELL. done begins with redis_bell_take_id. */
void redis_bell_ask_id(struct redis_bell *bell, redis_bell_fn done);
/* Keeps it. False: it isn't told, and the link is refused. */
bool redis_bell_take_id(struct redis_bell *bell, const struct redis_reply *reply);

/* --- for those that subscribe: redis_bell_subscribe.c --------------------------------------- */

/* Links, with the channel of what the probe writes first. A channel is prefix and key. */
void redis_bell_subscribe(struct redis_bell *bell, const char *prefix, const char *probed);
/* The probe writes something else now. */
void redis_bell_subscribe_again(struct redis_bell *bell, const char *probed);
void redis_bell_unsubscribe(struct redis_bell *bell);
void redis_bell_subscribe_arm(struct redis_bell *bell, struct str key);
void redis_bell_subscribe_disarm(struct redis_bell *bell, struct str key);
/* Is it a message on one of these channels? */
bool redis_bell_subscribe_message(const struct redis_bell *bell, const struct redis_reply *reply,
                                  struct str *out_key, struct str *out_payload);

/* --- for those whose probe is a stream ------------------------------------------------------ */

/* One entry, whose field n is the number. */
void redis_bell_probe_read_stream(struct redis_bell *bell, struct redis_bell_words *out);
void redis_bell_probe_write_stream(struct redis_bell *bell, struct str number,
                                   struct redis_bell_words *out);
/* It was heard: it goes when we do. */
void redis_bell_probe_expire_stream(struct redis_bell *bell);

/* --- between redis_bell.c and redis_bell_probe.c -------------------------------------------- */

/* Draws the probe's keys. */
void redis_bell_probe_init(struct redis_bell *bell);
enum redis_bell_aim { REDIS_BELL_SAME, REDIS_BELL_OTHER, REDIS_BELL_NOWHERE };
/* Keys that this Redis holds: those that we had if it does, or others. NOWHERE: none, as it seems.
 */
enum redis_bell_aim redis_bell_probe_aim(struct redis_bell *bell);
void redis_bell_probe_stop(struct redis_bell *bell);
/* How a probe ended that was answered. */
void redis_bell_was_heard(struct redis_bell *bell);
void redis_bell_was_not_heard(struct redis_bell *bell);

#endif
