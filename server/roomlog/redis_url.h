/* redis_url.h - where a Redis is, and as whom to go there.
 *
 *   redis://[user:password@]host[:port][/db]     port 6379, database 0 unless said otherwise
 *   unix:///path/of/the/socket[?db=N]
 *
 * User, password and path may hold %XX. An empty user is fine (":password@"): Redis' own default
 * user. An IPv6 address stands in brackets. No I/O.
 */
#ifndef ROOMLOG_REDIS_URL_H
#define ROOMLOG_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_URL_PATH_MAX =
        106, /* bytes of a socket's path that hiredis 0.14 ends with a NUL for sure */
    REDIS_URL_HOST_MAX = 253,
    REDIS_URL_DB_MAX = 65535
};

struct redis_url {
    char *host;            /* NULL: a unix socket */
    char *path;            /* NULL: TCP */
    char *user, *password; /* NULL: none; user may be NULL beside a password */
    uint16_t port;
    uint32_t db;
};

/* True: *out_url is filled and wants redis_url_fini. False: *out_url is zero, and reason (at most
 * cap bytes with its NUL) says what is wrong, without repeating a password. */
bool redis_url_parse(const char *text, struct redis_url *out_url, char *reason, size_t cap);

void redis_url_fini(struct redis_url *url);

/* "host:port" or "unix:/path", for people: no user, no password. At most cap bytes with the NUL. */
void redis_url_address(const struct redis_url *url, char *dst, size_t cap);

#endif
