/* logger.h - one event, one line, on standard error.
 *
 * level=warn msg="slow consumer closed" session=7 room="lobby", or the same as JSON. The message is
 * a constant that can be searched for; what varies is in fields. A peer's text goes through KV_STR,
 * which escapes it. Tokens, keys and message bodies are never logged.
 *
 * Lines that a peer can repeat are limited: one call site prints LOGGER_BURST lines at once, and
 * one a second from then on; the next line that it prints says how many were left out.
 */
#ifndef BASE_LOGGER_H
#define BASE_LOGGER_H

#include "protocol/str.h"

#include <stdint.h>

enum logger_level { LOGGER_DEBUG, LOGGER_INFO, LOGGER_WARN, LOGGER_ERROR };
enum logger_format { LOGGER_LOGFMT, LOGGER_JSON };

enum { LOGGER_BURST = 20, LOGGER_LINE_MAX = 2048 /* longer ones are cut, and say so */ };

struct logger_kv {
    const char *key;
    enum { LOGGER_KV_STR, LOGGER_KV_NUM } kind;
    struct str text;
    int64_t number;
};

#define KV_STR(key, s) ((struct logger_kv){(key), LOGGER_KV_STR, (s), 0})
#define KV_TEXT(key, z) ((struct logger_kv){(key), LOGGER_KV_STR, str_from(z), 0})
#define KV_NUM(key, n) ((struct logger_kv){(key), LOGGER_KV_NUM, {NULL, 0}, (int64_t)(n)})

/* The limiter of one call site. */
struct logger_site {
    uint64_t second;  /* of its last event */
    unsigned printed; /* less one for each second since */
    uint64_t dropped;
};

/* Process-wide; set once before the loop runs. Defaults: info, logfmt. */
void logger_setup(enum logger_level level, enum logger_format format);

void logger_write(struct logger_site *site, enum logger_level level, const char *msg,
                  const struct logger_kv *fields, size_t count);

#define LOGGER_AT(level, msg, ...)                                                                 \
    do {                                                                                           \
        static _Thread_local struct logger_site logger_site_;                                      \
        const struct logger_kv logger_fields_[] = {__VA_ARGS__};                                   \
        logger_write(&logger_site_, (level), (msg), logger_fields_,                                \
                     sizeof(logger_fields_) / sizeof(logger_fields_[0]));                          \
    } while (0)

/* At least one KV_… follows the message. */
#define logger_debug(msg, ...) LOGGER_AT(LOGGER_DEBUG, msg, __VA_ARGS__)
#define logger_info(msg, ...) LOGGER_AT(LOGGER_INFO, msg, __VA_ARGS__)
#define logger_warn(msg, ...) LOGGER_AT(LOGGER_WARN, msg, __VA_ARGS__)
#define logger_error(msg, ...) LOGGER_AT(LOGGER_ERROR, msg, __VA_ARGS__)

#endif
