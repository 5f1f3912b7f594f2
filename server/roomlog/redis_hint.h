/* redis_hint.h - what is announced of an entry when it is published (`pubsub`).
 *
 * Whoever publishes through roomd's script also announces the entry, on a channel that is called
 * like the room's key:
 *
 *   <id> <prev> <type><data><from><ref><key>
 *
 * prev is the id of the entry before it in the log, 0-0 where there was none. The five texts are
 * netstrings, "5:hello,"; one that is absent is "-,".
 *
 * Anybody may send anything on a channel, so nothing is taken that isn't exactly so: what isn't is
 * no hint, but still a bell. No I/O, so it can be fuzzed.
 */
#ifndef ROOMLOG_REDIS_HINT_H
#define ROOMLOG_REDIS_HINT_H

#include "roomlog/roomlog.h"

/* False: it is no hint, and out is as it was. Else out borrows from text. prev is below id. */
RD_MUST_USE bool redis_hint_parse(struct str text, struct roomlog_entry *out);

#endif
