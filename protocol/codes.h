/* codes.h - the one list of the codes on the wire, for the server, the tests and the client.
 *
 * PROTOCOL.md explains each; vectors/codes.json holds the same list for other languages, and a
 * test keeps the two alike.
 */
#ifndef PROTOCOL_CODES_H
#define PROTOCOL_CODES_H

/* What an `error` or a `reject` frame carries: X(symbol, number, name, may the client retry?) */
#define CODES_ERRORS(X)                                                                            \
    X(CODE_BAD_JSON, 400, "bad_json", 0)                                                           \
    X(CODE_UNAUTHORIZED, 401, "unauthorized", 0)                                                   \
    X(CODE_FORBIDDEN, 403, "forbidden", 0)                                                         \
    X(CODE_UNKNOWN_OP, 404, "unknown_op", 0)                                                       \
    X(CODE_NOT_JOINED, 409, "not_joined", 0)                                                       \
    X(CODE_TOO_BIG, 413, "too_big", 0)                                                             \
    X(CODE_BAD_FIELD, 422, "bad_field", 0)                                                         \
    X(CODE_TOO_MANY, 429, "too_many", 1)                                                           \
    X(CODE_LOG_ERROR, 500, "log_error", 0)                                                         \
    X(CODE_UNAVAILABLE, 503, "unavailable", 1)                                                     \
    X(CODE_LOG_FULL, 507, "log_full", 1)

/* What a close frame carries (RFC 6455 section 7.4): X(symbol, number, reason, may the client
 * resume?) */
#define CODES_CLOSES(X)                                                                            \
    X(CLOSE_PROTOCOL_ERROR, 1002, "protocol error", 0)                                             \
    X(CLOSE_BAD_UTF8, 1007, "invalid utf-8", 0)                                                    \
    X(CLOSE_TOO_BIG, 1009, "message too big", 0)                                                   \
    X(CLOSE_RESTART, 1012, "restart", 1)                                                           \
    X(CLOSE_TRY_LATER, 1013, "try again later", 1)                                                 \
    X(CLOSE_SLOW, 4000, "slow consumer", 1)                                                        \
    X(CLOSE_BAD_FRAME, 4400, "bad frame", 0)                                                       \
    X(CLOSE_TOKEN, 4401, "token missing, invalid or expired", 1)                                   \
    X(CLOSE_FORBIDDEN, 4403, "forbidden", 0)                                                       \
    X(CLOSE_OPERATOR, 4410, "disconnected by operator", 0)                                         \
    X(CLOSE_TOO_MANY, 4429, "too many requests", 1)

#define CODES_AS_ENUM(symbol, number, name, retry) symbol = number,
enum code_error { CODES_ERRORS(CODES_AS_ENUM) };
enum code_close { CODES_CLOSES(CODES_AS_ENUM) };
#undef CODES_AS_ENUM

/* The reason text of a close code in the list, e.g. "slow consumer". */
const char *codes_close_reason(enum code_close code);

#endif
