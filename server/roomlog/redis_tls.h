/* redis_tls.h - TLS over a connected socket to Redis (rediss://), without blocking.
 *
 * On OpenSSL directly, which libwebsockets brings along anyway: hiredis has TLS only from 1.0 on,
 * and there its handshake blocks the loop.
 *
 * A redis_tls is what all connections share: whom to trust, and who we are. A redis_tls_link is one
 * connection's, owned by its redis_wire. The server's certificate is always verified, against its
 * name or address and the given CA, or the system's. There is no switch to turn that off: a
 * certificate that says another name than the one we connect by is what `name` is for.
 *
 * The files are read again where they have changed when a connection is made, so that certificates
 * may be renewed under a running server; where they can't be used then, those before stay.
 *
 * SIGPIPE must be ignored by the process: OpenSSL writes with write(2).
 */
#ifndef ROOMLOG_REDIS_TLS_H
#define ROOMLOG_REDIS_TLS_H

#include "base/rd.h"

#include <stdbool.h>

struct redis_tls;
struct redis_tls_link;

enum { REDIS_TLS_REASON_MAX = 192 };

/* Each is NULL where there is none. Files are PEM. */
struct redis_tls_config {
    const char *ca_file;   /* whom to trust, instead of the system's store */
    const char *cert_file; /* our own certificate, with its chain; both or none of these */
    const char *key_file;  /* its key, without a passphrase */
    const char *name;      /* the certificate's, where it isn't the host that we connect to */
};

/* What a call came to. */
enum redis_tls_end {
    REDIS_TLS_DONE,
    REDIS_TLS_READ,  /* once there is something to read, the same call goes on */
    REDIS_TLS_WRITE, /* once the socket takes more, the same call goes on */
    REDIS_TLS_LOST   /* the connection has ended: redis_tls_reason */
};

/* Copies config. Returns owned; NULL: reason (at most cap bytes with its NUL) says which file can't
 * be used, and why. */
struct redis_tls *redis_tls_create(const struct redis_tls_config *config, char *reason, size_t cap);
/* NULL is fine. Links may outlive it. */
void redis_tls_destroy(struct redis_tls *tls);

/* Over fd, connected and not blocking, which the caller closes after it. host is what was connected
 * to. Returns owned. */
struct redis_tls_link *redis_tls_link_create(struct redis_tls *tls, int fd, const char *host);
/* NULL is fine. */
void redis_tls_link_destroy(struct redis_tls_link *link);

RD_MUST_USE enum redis_tls_end redis_tls_handshake(struct redis_tls_link *link);
/* Up to len bytes, which must not be 0; *out_len is how many, where DONE. */
RD_MUST_USE enum redis_tls_end redis_tls_read(struct redis_tls_link *link, char *p, size_t len,
                                              size_t *out_len);
RD_MUST_USE enum redis_tls_end redis_tls_write(struct redis_tls_link *link, const char *p,
                                               size_t len, size_t *out_len);
/* Is there something that was taken from the socket and not read yet? No event will tell of it. */
bool redis_tls_holds(const struct redis_tls_link *link);

/* Why it was LOST, for people. Borrowed. */
const char *redis_tls_reason(const struct redis_tls_link *link);

#endif
