/* json.h - strict JSON (RFC 8259) checked in place, without building anything.
 *
 * Why our own beside cJSON: `data` must leave as the very text that came in (numbers above 2^53,
 * long decimals), so we need to know where it begins and ends; and a browser's JSON.parse is
 * strict where cJSON is lenient (raw control characters, "1.", "-", text after the value), so one
 * sloppy frame let through would break every member of the room.
 *
 * Strict means: the whole text is one value, UTF-8 is valid (RFC 3629: no surrogates, nothing
 * overlong, nothing above U+10FFFF), nesting stays within the depth given. An escape of a lone
 * surrogate ("\ud800") is accepted, as RFC 8259 section 8.2 and browsers do. No recursion.
 */
#ifndef PROTOCOL_JSON_H
#define PROTOCOL_JSON_H

#include "protocol/str.h"

enum {
    JSON_DEPTH_MAX = 512 /* the deepest that may be asked for */
};

enum json_verdict { JSON_OK, JSON_BAD, JSON_TOO_DEEP };

/* Is text exactly one JSON value, with at most max_depth containers around any value? Blanks
 * around it are fine. */
enum json_verdict json_check(struct str text, unsigned max_depth);

/* One member of an object: its key with the quotes stripped, escapes as they were, and its value's
 * text without blanks around it. */
struct json_member {
    struct str key;
    struct str value;
};

/* Splits the members of an object. text must have passed json_check. Returns how many members
 * there are, of which the first cap are in members; SIZE_MAX where text is no object. */
size_t json_members(struct str text, struct json_member *members, size_t cap);

/* Is this valid UTF-8 (RFC 3629)? */
bool json_utf8_valid(struct str text);

/* Writes raw as a JSON string with its quotes: control characters, quotes and backslashes escaped,
 * and each maximal invalid UTF-8 sequence replaced by U+FFFD. Like snprintf, returns the length
 * needed and writes at most cap bytes; no NUL. */
size_t json_quote(char *dst, size_t cap, struct str raw);

/* The other way round: what a JSON string says, without its quotes. quoted must have passed
 * json_check; a lone surrogate becomes U+FFFD. Returns the length, which is below quoted's; dst
 * must have room for that. No NUL. */
size_t json_unquote(char *dst, struct str quoted);

#endif
