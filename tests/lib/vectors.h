/* vectors.h - reads protocol/vectors/, the examples that the C and the JavaScript tests share.
 *
 * A file that can't be read, or a case that lacks what it must have, fails the test at once: a
 * vector that is silently passed over would be a test that can't fail.
 */
#ifndef TESTS_LIB_VECTORS_H
#define TESTS_LIB_VECTORS_H

#include "protocol/str.h"
#include "protocol/stream_id.h"

#include <cjson/cJSON.h>

/* The file protocol/vectors/<name>. Returns owned: cJSON_Delete. */
cJSON *vectors_load(const char *name);

/* A member that is an array and not empty. Returns borrowed. */
const cJSON *vectors_array(const cJSON *object, const char *member);

/* A string member; absent where there is none. Borrows from object. */
struct str vectors_str(const cJSON *object, const char *member);

/* The bytes of member, or of member_hex (in hex), in a block of exactly their size, so that one
 * byte too far is caught. Absent where there is neither. Free with vectors_free. */
struct str vectors_bytes(const cJSON *object, const char *member);
void vectors_free(struct str text);

/* A copy of text in a block of exactly its size. */
struct str vectors_copy(struct str text);

/* A member that must be a number without a fraction. */
long vectors_number(const cJSON *object, const char *member);

/* A string member that must be an id, read without the code under test. */
struct stream_id vectors_id(const cJSON *object, const char *member);

#endif
