/* str.h - text from outside: a pointer and a length.
 *
 * There need be no NUL at the end, and there may be one inside. A str borrows: whoever made it
 * says how long the bytes live. An absent str has p == NULL, an empty one only len == 0.
 */
#ifndef PROTOCOL_STR_H
#define PROTOCOL_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
    const char *p;
    size_t len;
};

/* A str of a string literal. */
#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

static inline struct str str_from(const char *z)
{
    return (struct str){z, z == NULL ? 0 : strlen(z)};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool str_present(struct str s)
{
    return s.p != NULL;
}

#endif
