/* json_text.h - the characters of a JSON string that was checked (json.h).
 *
 * `inside` is a string's text without its quotes, escapes as they came. A character is what a
 * browser would see: an escape counts as what it means, two escaped surrogates as one. A surrogate
 * without its other half comes out as itself.
 */
#ifndef PROTOCOL_JSON_TEXT_H
#define PROTOCOL_JSON_TEXT_H

#include "protocol/str.h"

#include <stdint.h>

enum { JSON_TEXT_REPLACEMENT = 0xfffd };

/* A JSON string without its quotes. */
static inline struct str json_text_inside(struct str quoted)
{
    return (struct str){quoted.p + 1, quoted.len - 2};
}

/* Takes the next character. inside must not be empty. */
uint32_t json_text_take(struct str *inside);

static inline bool json_text_is_surrogate(uint32_t c)
{
    return c >= 0xd800 && c <= 0xdfff;
}

bool json_text_has_escape(struct str inside);

/* Do two strings mean the same, however they are escaped? */
bool json_text_same(struct str a, struct str b);

/* Writes out in UTF-8 what it means, which is never longer than inside. A lone surrogate is
 * replaced by `lone`, or written in the same manner where that is 0. Returns the length; no NUL. */
size_t json_text_meaning(char *dst, struct str inside, uint32_t lone);

#endif
