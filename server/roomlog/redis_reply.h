/* redis_reply.h - what Redis says, as ids, entries, verdict_info and errors. No I/O, so it can be
 * fuzzed.
 *
 * A reply is a view on what redis_scan found, good for the callback that brought it, and so is each
 * of its parts. What is found in one borrows from it.
 *
 * Nothing here trusts a reply's shape: whatever isn't as documented is refused as a whole.
 */
#ifndef ROOMLOG_REDIS_REPLY_H
#define ROOMLOG_REDIS_REPLY_H

#include "base/rd.h"
#include "roomlog/redis_scan.h"
#include "roomlog/roomlog.h"

/* The fields are redis_reply.c's. A copy is as good as the original. */
struct redis_reply {
    const struct redis_scan_node *nodes;
    const char *base; /* what texts' offsets count from */
    size_t at;        /* its node */
};

/* What is left of an array's parts. */
struct redis_reply_parts {
    struct redis_reply next;
    size_t left;
};

/* Entries of one reply, in memory that is used again for the next. Zeroed: empty. */
struct redis_reply_entries {
    struct roomlog_entry *p;
    size_t count;
    size_t capacity;
};

/* A whole reply. base: its first byte. Borrows both for as long as it is used. */
static inline struct redis_reply redis_reply_of(const struct redis_scan *scan, const char *base)
{
    return (struct redis_reply){.nodes = scan->nodes, .base = base};
}

void redis_reply_entries_fini(struct redis_reply_entries *entries);

/* RD_OK where it isn't an error; else what that error means for whoever asked. */
enum rd_err redis_reply_err(const struct redis_reply *reply);

/* Is it an error? Its text, as far as it fits into cap bytes with the NUL, without control
 * characters. */
bool redis_reply_error_text(const struct redis_reply *reply, char *dst, size_t cap);

/* "NOSCRIPT", "WRONGTYPE", ...: does an error begin with this word? */
bool redis_reply_is(const struct redis_reply *reply, const char *code);

bool redis_reply_integer(const struct redis_reply *reply, long long *out_integer);
bool redis_reply_text(const struct redis_reply *reply, struct str *out_text);
bool redis_reply_nil(const struct redis_reply *reply);

/* Is it an array? *out_parts has its parts, of which `left` are there. */
bool redis_reply_array(const struct redis_reply *reply, struct redis_reply_parts *out_parts);
/* The next one, in order. False: there is none. */
bool redis_reply_part(struct redis_reply_parts *parts, struct redis_reply *out_part);

/* Is it something that a subscriber is sent without having asked: a message, of a channel or a
 * pattern, or of a channel that Redis has taken away from it? What answers SUBSCRIBE is none. */
bool redis_reply_push(const struct redis_reply *reply);

/* An answer of ROLE that says so? */
bool redis_reply_is_master(const struct redis_reply *reply);

/* An answer of XINFO STREAM, the error for a missing key included. *out_bytes is set to what the
 * larger of the stream's first and last entries takes (0: empty), as a guess for the rest.
 *
 * Redis before 7.0 doesn't record `added` and `max_deleted`: they become UINT64_MAX and the highest
 * id, so that nothing is ever held to be complete that may not be. */
bool redis_reply_info(const struct redis_reply *reply, struct verdict_info *out_info,
                      size_t *out_bytes);

enum redis_reply_order { REDIS_REPLY_ASCENDING, REDIS_REPLY_DESCENDING };

/* XRANGE's answer, or XREVRANGE's (DESCENDING), always oldest first afterwards. Each entry's prev
 * is the id before it, the first's is unknown. Fields that we don't know are left out; of equal
 * ones the first counts. */
bool redis_reply_range(const struct redis_reply *reply, enum redis_reply_order order,
                       struct redis_reply_entries *out_entries);

/* The answers inside EXEC's: of XINFO STREAM and of XRANGE or XREVRANGE. False where EXEC was
 * refused; then, or where a part is an error, *out_err is set. A missing key is no error. */
bool redis_reply_exec(const struct redis_reply *reply, enum redis_reply_order order,
                      struct verdict_info *out_info, size_t *out_bytes,
                      struct redis_reply_entries *out_entries, enum rd_err *out_err);

/* Was what stands between MULTI and EXEC, or MULTI itself, refused? Then a script may still be
 * served. */
bool redis_reply_exec_refused(const struct redis_reply *reply);

enum redis_reply_bell {
    REDIS_REPLY_NO_BELL, /* something else */
    REDIS_REPLY_KEYS,    /* these keys changed */
    REDIS_REPLY_ALL      /* everything may have changed */
};

/* A message of __redis__:invalidate. The keys: see redis_reply_bell_key. */
enum redis_reply_bell redis_reply_bell(const struct redis_reply *reply, size_t *out_count);
struct str redis_reply_bell_key(const struct redis_reply *reply, size_t at);

#endif
