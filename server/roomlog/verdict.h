/* verdict.h - may this cursor be honoured? The table, as a pure function.
 *
 * A cursor is honoured exactly when the log can show that it holds every entry after it. The first
 * proof is the cursor's own entry at the head of an inclusive read (a log is only ever cut from the
 * front). Where it isn't there, what the log records about itself decides (XINFO STREAM, read in
 * the same atomic step).
 */
#ifndef ROOMLOG_VERDICT_H
#define ROOMLOG_VERDICT_H

#include "protocol/stream_id.h"

enum verdict {
    VERDICT_OK,
    VERDICT_TRIMMED,  /* older entries were cut */
    VERDICT_RESET,    /* the log is gone */
    VERDICT_AHEAD,    /* the cursor is beyond the log: a restart or failover lost its tail */
    VERDICT_DIVERGED, /* the cursor's entry never was in this log: the same, and then it grew on */
    VERDICT_HOLE      /* entries after the cursor were deleted, or may have been */
};

/* What a log records about itself. */
struct verdict_info {
    bool exists;                  /* false: no such key, and the rest is zero */
    uint64_t length;              /* entries retained */
    uint64_t added;               /* entries ever appended in this incarnation */
    struct stream_id first;       /* the first retained; 0-0 where length is 0 */
    struct stream_id last;        /* the last id ever generated */
    struct stream_id max_deleted; /* the highest id ever deleted singly; trimming doesn't count */
};

/* first_read: the first id of an inclusive read from cursor, or NULL where that was empty. */
enum verdict verdict_of(struct stream_id cursor, const struct stream_id *first_read,
                        const struct verdict_info *info);

/* "Is what is retained all there ever was?" */
static inline bool verdict_complete(const struct verdict_info *info)
{
    return !info->exists || info->added == info->length;
}

#endif
