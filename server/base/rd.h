/* rd.h - what every floor shares: the list of errors, and notes to the compiler.
 *
 * A function that can fail for reasons its caller can act on returns enum rd_err.
 */
#ifndef BASE_RD_H
#define BASE_RD_H

#include <stddef.h>

/* X(symbol, text) */
#define RD_ERRORS(X)                                                                               \
    X(RD_OK, "ok")                                                                                 \
    X(RD_EINVAL, "invalid argument")                                                               \
    X(RD_ETOOBIG, "over a limit")                                                                  \
    X(RD_EBUSY, "too many requests under way")                                                     \
    X(RD_EUNAVAIL, "the log is not available")                                                     \
    X(RD_EUNKNOWN, "the outcome is unknown")                                                       \
    X(RD_ETIMEDOUT, "timed out")                                                                   \
    X(RD_EFULL, "the log is full")                                                                 \
    X(RD_ESTATEFULL, "the room's state is full")                                                   \
    X(RD_EREADONLY, "the log is read-only")                                                        \
    X(RD_ELOADING, "the log is still loading what it holds")                                       \
    X(RD_EBLOCKED, "the log is busy with a script")                                                \
    X(RD_EUNSAVED, "the log can't save what it is given")                                          \
    X(RD_EREPLICAS, "the log has too few replicas")                                                \
    X(RD_ENOIDS, "the room's log has no ids left")                                                 \
    X(RD_EWRONGTYPE, "the room's key holds something else")                                        \
    X(RD_EDENIED, "the log refused access")                                                        \
    X(RD_ELOG, "the log answered with an error")                                                   \
    X(RD_ESYS, "a system call failed")

#define RD_ERRORS_AS_ENUM(symbol, text) symbol,
enum rd_err { RD_ERRORS(RD_ERRORS_AS_ENUM) RD_ERR_COUNT };
#undef RD_ERRORS_AS_ENUM

/* The text of an error. Never NULL. */
const char *rd_err_text(enum rd_err err);

#define RD_MUST_USE __attribute__((warn_unused_result))
#define RD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* The struct that a member is embedded in. */
#define RD_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
