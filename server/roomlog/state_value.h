/* state_value.h - one key's value in a room's state, as text.
 *
 *     1700000000000-7 {"type":"move","from":"ann","data":{"x":1}}
 *
 * The id of the entry, a blank, and JSON, so that other programs can read it. `from` is left out
 * where the entry had none; `data` is the text that was published.
 *
 * The memory log keeps no such text, but counts the same bytes, so that both logs have one bound.
 */
#ifndef ROOMLOG_STATE_VALUE_H
#define ROOMLOG_STATE_VALUE_H

#include "roomlog/roomlog.h"

/* Does an entry with this key have a place in the state? One that begins with a NUL has none: such
 * names are the state's own. */
bool state_value_has_place(struct str key);

/* Does an entry with this data take its key out of the state? */
bool state_value_deletes(struct str data);

/* What a key costs, as the bound counts it: the key and its value under this id. */
size_t state_value_bytes(struct str key, struct stream_id id, const struct roomlog_publish *what);

/* The JSON as far as data's text, which a closing brace follows. Returns owned. */
struct str state_value_head(const struct roomlog_publish *what);

/* Reads a value. False where it isn't one: others may write there too. out's texts borrow from key,
 * value and scratch, which must have room for value.len bytes. */
bool state_value_parse(struct str key, struct str value, char *scratch, struct roomlog_entry *out);

#endif
