/* roomlog.h - a room's history, whoever stores it.
 *
 * The interface between the server and its log, and its promises. There are two backends:
 * roomlog_mem (lives with the process) and roomlog_redis (a Redis Stream a room). The core never
 * knows which it has; one contract suite holds both to this header.
 *
 * Promises:
 * - Ids of a room's log only grow. An append that was acknowledged is in the log under its id.
 * - Answers come later (never from inside the call that asked), exactly once, or never after
 *   roomlog_cancel. A refusal is the return value, and then no answer comes.
 * - A read's verdict and entries belong to one moment of the log; so does a state.
 * - A follower is told of every entry after the place where it started, in order, each chained to
 *   the one before it (prev), or is told that the feed broke and where it goes on.
 *
 * Callbacks may call back into the log: append, read, cancel, follow; a follower may be unfollowed
 * from its own callback. Entries and their texts are borrowed for the callback.
 *
 * Room names handed in are borrowed for the call.
 */
#ifndef ROOMLOG_ROOMLOG_H
#define ROOMLOG_ROOMLOG_H

#include "base/list.h"
#include "base/rd.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"
#include "roomlog/verdict.h"

struct roomlog;

struct roomlog_entry {
    struct stream_id id;
    struct stream_id prev; /* of the entry before it in the log */
    bool prev_known; /* false: that entry is no longer known; only at the head of a fresh start */
    struct str type, data, from, ref, key; /* absent, or any bytes: others write into Redis too */
};

/* The bytes of an entry's texts: what a page is bounded by. */
static inline size_t roomlog_entry_bytes(const struct roomlog_entry *entry)
{
    return entry->type.len + entry->data.len + entry->from.len + entry->ref.len + entry->key.len;
}

/* --- append --------------------------------------------------------------------------------- */

/* What to append. Borrowed for the call. */
struct roomlog_publish {
    struct str type;
    struct str data; /* JSON text */
    struct str from; /* user, or absent */
    struct str ref;  /* or absent: then nothing is deduplicated */
    struct str key;  /* or absent; where there is one the entry becomes the key's in the room's
                        state, or with the data `null` takes the key out of it. (Not where it begins
                        with a NUL.) */
};

struct roomlog_append;

/* Runs once, later. err RD_OK: id is the entry's, and duplicate says that an earlier publish of the
 * same ref (and user, in this room, within the window) has put it there. RD_EUNKNOWN: it may or may
 * not be in the log. Any other: it is not in the log. The request may be freed or used again from
 * here. */
typedef void (*roomlog_append_fn)(struct roomlog_append *append, enum rd_err err,
                                  struct stream_id id, bool duplicate);

/* One append under way, embedded in whoever asked. */
struct roomlog_append {
    roomlog_append_fn done;
    void *impl; /* the backend's while under way; NULL otherwise */
};

/* --- read ----------------------------------------------------------------------------------- */

enum roomlog_from {
    ROOMLOG_AFTER,  /* entries after `after`, if the log can show that it holds them all */
    ROOMLOG_ALL,    /* everything that is retained, from the oldest */
    ROOMLOG_NEWEST, /* the newest `newest`, or as many of them as fit max_bytes, oldest of them
                       first, in one page: what lies before it can't be asked for */
    ROOMLOG_HEAD    /* no entries: only where the log stands */
};

/* What a read found, at one moment. */
struct roomlog_page {
    enum verdict verdict; /* of a read AFTER; else VERDICT_OK. Not OK: no entries */
    const struct roomlog_entry *entries;
    size_t count;
    bool at_end; /* nothing came after the last of entries (or after `after`, where there are none)
                  */
    /* Only where the read asked want_info, or the verdict is not OK: */
    struct verdict_info info;
};

struct roomlog_read;

/* Runs once, later. page is NULL unless err is RD_OK. The request may be freed or used again from
 * here. */
typedef void (*roomlog_read_fn)(struct roomlog_read *read, enum rd_err err,
                                const struct roomlog_page *page);

/* One read under way, embedded in whoever asks, who fills in everything but impl. */
struct roomlog_read {
    enum roomlog_from from;
    struct stream_id
        after; /* ROOMLOG_AFTER; 0-0 is a cursor too: honoured where nothing was ever removed */
    uint32_t newest; /* ROOMLOG_NEWEST */
    bool want_info;
    size_t max_entries; /* a page ends here; at least 1. newest may be above it */
    size_t max_bytes;   /* or where the entries' texts are above this; always at least one entry.
                           NEWEST leaves out the oldest, any other the newest, of what doesn't fit.
                           Other pages than NEWEST's may be smaller than they could be */
    roomlog_read_fn done;
    void *impl;
};

/* --- state ---------------------------------------------------------------------------------- */

/* A room's state: of each key the newest entry, without its ref. It is bounded in keys and bytes;
 * an append with a key that would pass the bound is answered with RD_ESTATEFULL. */
struct roomlog_state_view {
    /* The newest entry with a key that was appended through this interface, one that took its key
     * out included; 0-0: there was none, or the log began anew since. What lies after it in the log
     * is not in the state yet: entries without a key, and whatever other programs added. */
    struct stream_id position;
    const struct roomlog_entry *items; /* by id, ascending; prev is unknown */
    size_t count;
};

struct roomlog_state;

/* Runs once, later. view is NULL unless err is RD_OK. The request may be freed or used again from
 * here. RD_ETOOBIG: other programs have made the state too large to be read. */
typedef void (*roomlog_state_fn)(struct roomlog_state *state, enum rd_err err,
                                 const struct roomlog_state_view *view);

/* One read of a state under way, embedded in whoever asks. */
struct roomlog_state {
    roomlog_state_fn done;
    void *impl;
};

/* --- follow --------------------------------------------------------------------------------- */

struct roomlog_follower;

struct roomlog_follower_ops {
    /* The feed holds from here on: every entry above head will come. Once, first. */
    void (*started)(struct roomlog_follower *follower, struct stream_id head);
    /* New entries, in order; entries[0].prev is where the feed stood. */
    void (*entries)(struct roomlog_follower *follower, const struct roomlog_entry *entries,
                    size_t count);
    /* The feed lost its place (the log was cut, reset, or lost its tail) or may not read the log
     * any more: it goes on after head, which may be below what went before. What lies between is
     * for each member to read. */
    void (*broken)(struct roomlog_follower *follower, enum verdict why, struct stream_id head);
};

/* Embedded in whoever follows, who fills in ops. */
struct roomlog_follower {
    const struct roomlog_follower_ops *ops;
    void *impl; /* the backend's; NULL: not following */
};

/* --- the interface -------------------------------------------------------------------------- */

struct roomlog_ops {
    enum rd_err (*append)(struct roomlog *log, struct str room, const struct roomlog_publish *what,
                          struct roomlog_append *append);
    void (*cancel_append)(struct roomlog *log, struct roomlog_append *append);
    enum rd_err (*read)(struct roomlog *log, struct str room, struct roomlog_read *read);
    void (*cancel_read)(struct roomlog *log, struct roomlog_read *read);
    enum rd_err (*state)(struct roomlog *log, struct str room, struct roomlog_state *state);
    void (*cancel_state)(struct roomlog *log, struct roomlog_state *state);
    void (*follow)(struct roomlog *log, struct str room, struct roomlog_follower *follower);
    void (*unfollow)(struct roomlog *log, struct roomlog_follower *follower);
    bool (*readable)(struct roomlog *log, struct str room);
    bool (*ready)(struct roomlog *log);
    void (*close)(struct roomlog *log);
};

/* A backend embeds this first. */
struct roomlog {
    const struct roomlog_ops *ops;
    uint64_t max_entries; /* what retention promises to keep, about; 0: no such bound */
    size_t state_keys;    /* what a room's state may hold; 0: no state is kept, all are empty */
};

/* RD_EBUSY: too many under way. RD_EUNAVAIL: the log is away. RD_ETOOBIG: the entry can't fit. */
RD_MUST_USE enum rd_err roomlog_append(struct roomlog *log, struct str room,
                                       const struct roomlog_publish *what,
                                       struct roomlog_append *append);
/* No answer any more; what was sent may still be done. Harmless where nothing is under way. */
void roomlog_cancel_append(struct roomlog *log, struct roomlog_append *append);

/* RD_EBUSY, RD_EUNAVAIL as above. */
RD_MUST_USE enum rd_err roomlog_read(struct roomlog *log, struct str room,
                                     struct roomlog_read *read);
void roomlog_cancel_read(struct roomlog *log, struct roomlog_read *read);

/* RD_EBUSY (counted with the reads), RD_EUNAVAIL as above. */
RD_MUST_USE enum rd_err roomlog_state(struct roomlog *log, struct str room,
                                      struct roomlog_state *state);
void roomlog_cancel_state(struct roomlog *log, struct roomlog_state *state);

/* Never refused: while the log is away, the start waits for it. */
void roomlog_follow(struct roomlog *log, struct str room, struct roomlog_follower *follower);
/* Nothing more comes. Harmless where not following. */
void roomlog_unfollow(struct roomlog *log, struct roomlog_follower *follower);

/* Can this room be read now, as far as we know? It may be while it can't be written. */
bool roomlog_readable(struct roomlog *log, struct str room);

/* Can the log be read and written now, as far as we know? */
bool roomlog_ready(struct roomlog *log);

/* Nothing may be under way and nobody following: asserted by the backends. Frees the log, at once
 * or as soon as the loop has let go of its connections. NULL is fine. */
void roomlog_close(struct roomlog *log);

#endif
