#include "roomlog/verdict.h"

#include <stddef.h>

enum verdict verdict_of(struct stream_id cursor, const struct stream_id *first_read,
                        const struct verdict_info *info)
{
    /* The proof. Everything below is for when it is missing. */
    if (first_read != NULL && stream_id_eq(*first_read, cursor))
        return VERDICT_OK;
    if (!info->exists)
        return stream_id_is_zero(cursor) ? VERDICT_OK : VERDICT_RESET;
    /* "From the beginning" is honest only where nothing was ever removed. The counters may vouch
     * for this cursor alone: a re-created log, or one loaded from an old dump, starts them anew. */
    if (stream_id_is_zero(cursor))
        return verdict_complete(info) ? VERDICT_OK : VERDICT_TRIMMED;

    /* Caught up, and then its own entry was removed: nothing came after it. */
    int against_last = stream_id_cmp(cursor, info->last);
    if (against_last == 0)
        return VERDICT_OK;
    if (against_last > 0)
        return VERDICT_AHEAD;
    if (info->length == 0 || stream_id_cmp(cursor, info->first) < 0)
        return VERDICT_TRIMMED;

    /* Between two entries. Its own was deleted and it is the highest that ever was: what comes
     * after it is whole. Below the highest deleted nobody can know. Above, it never was in this
     * log. */
    int against_deleted = stream_id_cmp(cursor, info->max_deleted);
    if (against_deleted == 0)
        return VERDICT_OK;
    return against_deleted < 0 ? VERDICT_HOLE : VERDICT_DIVERGED;
}
