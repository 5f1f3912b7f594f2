/* certs.h - authorities and certificates of a test's own, valid as little as the test wants.
 *
 * Made in the process, for the openssl command can't make one that has expired. What goes wrong
 * aborts the test.
 */
#ifndef TESTS_LIB_CERTS_H
#define TESTS_LIB_CERTS_H

#include <stdbool.h>

struct certs_authority;

/* Returns owned. name: its subject's. */
struct certs_authority *certs_authority_create(const char *name);
void certs_authority_destroy(struct certs_authority *authority);
/* Writes what others trust it by. */
void certs_authority_write(const struct certs_authority *authority, const char *path);

/* Writes a certificate and its key. names: as "DNS:localhost,IP:127.0.0.1". days: how long it is
 * valid from now on; negative: it ended so long ago. */
void certs_write(const struct certs_authority *authority, const char *names, int days,
                 const char *cert_path, const char *key_path);

#endif
