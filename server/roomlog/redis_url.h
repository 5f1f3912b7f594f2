/* redis_url.h - which Redis, and as whom to go there.
 *
 *   redis://[user:password@]host[:port][/db]     port 6379, database 0 unless said otherwise
 *   unix:///path/of/the/socket[?db=N]
 *   redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db]
 *                    [?sentinel_user=U&sentinel_password=P]
 *                                                the sentinels (port 26379), and what they call the
 *                                                Redis; user and password are that one's
 *   redis+cluster://[user:password@]host[:port][,host[:port]...]
 *                                                some nodes of a cluster; it has database 0 alone
 *
 * rediss instead of redis: through TLS, to every one of them. User, password, path and service may
 * hold %XX. An empty user is fine (":password@"): Redis' own default user. An IPv6 address stands
 * in brackets. No I/O.
 */
#ifndef ROOMLOG_REDIS_URL_H
#define ROOMLOG_REDIS_URL_H

#include "roomlog/redis_place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_URL_PATH_MAX =
        106, /* bytes of a socket's path that hiredis 0.14 ends with a NUL for sure */
    REDIS_URL_DB_MAX = 65535,
    REDIS_URL_PLACES_MAX = 64
};

enum redis_url_kind { REDIS_URL_ONE, REDIS_URL_SENTINEL, REDIS_URL_CLUSTER };

struct redis_tls;

struct redis_url {
    enum redis_url_kind kind;
    bool tls;
    struct redis_tls *trust;    /* with tls, put there before anything connects; borrowed */
    struct redis_place *places; /* of the one; of sentinels; of some nodes */
    size_t count;               /* at least one */
    char *user, *password;      /* NULL: none; user may be NULL beside a password */
    char *service;              /* SENTINEL */
    char *sentinel_user, *sentinel_password;
    uint32_t db;
};

/* True: *out_url is filled and wants redis_url_fini. False: *out_url is zero, and reason (at most
 * cap bytes with its NUL) says what is wrong, without repeating a password. */
bool redis_url_parse(const char *text, struct redis_url *out_url, char *reason, size_t cap);

void redis_url_fini(struct redis_url *url);

/* "host:port", "unix:/path", "service at host:port,..." or "host:port,...", for people: no user, no
 * password. At most cap bytes with the NUL. */
void redis_url_address(const struct redis_url *url, char *dst, size_t cap);

#endif
