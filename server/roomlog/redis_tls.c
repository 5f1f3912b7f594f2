#include "roomlog/redis_tls.h"

#include "base/logger.h"
#include "base/xalloc.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    READ_AHEAD = 64 * 1024, /* bytes: several records by one system call */
    NAME_TEXT_MAX = 254
};

enum file { FILE_CA, FILE_CERT, FILE_KEY, FILES };

/* A file as it was when it was read. */
struct stamp {
    struct timespec changed;
    ino_t inode;
    off_t size;
};

struct redis_tls {
    SSL_CTX *ctx;
    char *files[FILES]; /* owned; NULL: none */
    struct stamp stamps[FILES];
    char *name;
};

struct redis_tls_link {
    SSL *ssl;
    char host[NAME_TEXT_MAX]; /* that its certificate must have */
    char reason[REDIS_TLS_REASON_MAX];
};

/* --- what is shared ------------------------------------------------------------------------- */

/* OpenSSL's oldest complaint, for people. Forgets the others. */
static const char *complaint(void)
{
    unsigned long code = ERR_get_error();
    const char *text = code == 0                ? NULL
                       : ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
                                                : ERR_reason_error_string(code);
    ERR_clear_error();
    return text != NULL ? text : "an error without a name";
}

/* Keys with a passphrase would be asked for on the terminal. */
static int no_passphrase(char *dst, int cap, int writing, void *arg)
{
    (void)dst;
    (void)cap;
    (void)writing;
    (void)arg;
    return -1;
}

static bool load_trust(SSL_CTX *ctx, const char *ca)
{
    return ca != NULL ? SSL_CTX_load_verify_locations(ctx, ca, NULL) == 1
                      : SSL_CTX_set_default_verify_paths(ctx) == 1;
}

/* Returns the file that can't be used, FILES where all can. */
static enum file load_files(SSL_CTX *ctx, char *const files[FILES])
{
    ERR_clear_error();
    if (!load_trust(ctx, files[FILE_CA]))
        return FILE_CA;
    if (files[FILE_CERT] == NULL)
        return FILES;
    if (SSL_CTX_use_certificate_chain_file(ctx, files[FILE_CERT]) != 1)
        return FILE_CERT;
    if (SSL_CTX_use_PrivateKey_file(ctx, files[FILE_KEY], SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return FILE_KEY;
    return FILES;
}

/* Returns owned, or NULL with a reason. */
static SSL_CTX *context_create(char *const files[FILES], char *reason, size_t cap)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL) {
        (void)snprintf(reason, cap, "TLS can't be used: %s", complaint());
        return NULL;
    }
    (void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    /* What a reply's length says is what tells that one was cut, so an end without a goodbye, as
     * Redis' own, is an end like any other. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(ctx,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    enum file wrong = load_files(ctx, files);
    if (wrong == FILES)
        return ctx;
    (void)snprintf(reason, cap, "%s: %s",
                   files[wrong] != NULL ? files[wrong] : "the system's certificates", complaint());
    SSL_CTX_free(ctx);
    return NULL;
}

static struct stamp stamp_of(const char *file)
{
    struct stat st;
    if (file == NULL || stat(file, &st) != 0)
        return (struct stamp){.size = 0};
    return (struct stamp){.changed = st.st_mtim, .inode = st.st_ino, .size = st.st_size};
}

static bool same(const struct stamp *a, const struct stamp *b)
{
    return a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec &&
           a->inode == b->inode && a->size == b->size;
}

/* Reads the files again where one of them has changed. They may be in the middle of being renewed:
 * what can't be used is looked at again after the next change. */
static void refresh(struct redis_tls *tls)
{
    bool changed = false;
    for (size_t i = 0; i < FILES; i++) {
        struct stamp now = stamp_of(tls->files[i]);
        changed = changed || !same(&now, &tls->stamps[i]);
        tls->stamps[i] = now;
    }
    if (!changed)
        return;
    char reason[REDIS_TLS_REASON_MAX];
    SSL_CTX *ctx = context_create(tls->files, reason, sizeof(reason));
    if (ctx == NULL) {
        logger_warn("changed certificates can't be used, those before stay",
                    KV_TEXT("reason", reason));
        return;
    }
    SSL_CTX_free(tls->ctx);
    tls->ctx = ctx;
}

static char *copy(const char *text)
{
    return text == NULL ? NULL : xalloc_str(str_from(text));
}

struct redis_tls *redis_tls_create(const struct redis_tls_config *config, char *reason, size_t cap)
{
    if ((config->cert_file == NULL) != (config->key_file == NULL)) {
        (void)snprintf(reason, cap, "a certificate and its key go together");
        return NULL;
    }
    struct redis_tls *tls = xalloc_zero(sizeof(*tls));
    tls->files[FILE_CA] = copy(config->ca_file);
    tls->files[FILE_CERT] = copy(config->cert_file);
    tls->files[FILE_KEY] = copy(config->key_file);
    tls->name = copy(config->name);
    for (size_t i = 0; i < FILES; i++)
        tls->stamps[i] = stamp_of(tls->files[i]);
    tls->ctx = context_create(tls->files, reason, cap);
    if (tls->ctx != NULL)
        return tls;
    redis_tls_destroy(tls);
    return NULL;
}

void redis_tls_destroy(struct redis_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    for (size_t i = 0; i < FILES; i++)
        free(tls->files[i]);
    free(tls->name);
    free(tls);
}

/* --- one connection ------------------------------------------------------------------------- */

/* An address is held against the certificate's addresses, anything else against its names. */
static bool expect_host(SSL *ssl, const char *host)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    ERR_clear_error();
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct redis_tls_link *redis_tls_link_create(struct redis_tls *tls, int fd, const char *host)
{
    struct redis_tls_link *link = xalloc_zero(sizeof(*link));
    refresh(tls);
    if (tls->name != NULL)
        host = tls->name;
    (void)snprintf(link->host, sizeof(link->host), "%s", host);
    link->ssl = SSL_new(tls->ctx);
    /* The handshake will say that it can't be done. */
    if (link->ssl == NULL || SSL_set_fd(link->ssl, fd) != 1 ||
        !expect_host(link->ssl, link->host)) {
        (void)snprintf(link->reason, sizeof(link->reason), "TLS can't be used: %s", complaint());
        SSL_free(link->ssl);
        link->ssl = NULL;
    }
    return link;
}

void redis_tls_link_destroy(struct redis_tls_link *link)
{
    if (link == NULL)
        return;
    SSL_free(link->ssl);
    free(link);
}

static void explain(struct redis_tls_link *link, int error, int error_number)
{
    long verified = SSL_get_verify_result(link->ssl);
    bool shaken = SSL_is_init_finished(link->ssl) != 0;
    const char *closed =
        shaken ? "Redis closed the connection" : "the connection was closed in the TLS handshake";
    char *dst = link->reason;
    size_t cap = sizeof(link->reason);
    if (!shaken && verified != X509_V_OK)
        (void)snprintf(dst, cap, "the certificate of %.100s was not accepted: %s", link->host,
                       X509_verify_cert_error_string(verified));
    else if (error == SSL_ERROR_SSL)
        (void)snprintf(dst, cap, "TLS: %s", complaint());
    else if (error == SSL_ERROR_SYSCALL && error_number != 0)
        (void)snprintf(dst, cap, "%s", strerror(error_number));
    else
        (void)snprintf(dst, cap, "%s", closed);
    ERR_clear_error();
}

/* What a call of OpenSSL came to that returned rc. */
static enum redis_tls_end end_of(struct redis_tls_link *link, int rc)
{
    if (rc > 0)
        return REDIS_TLS_DONE;
    int error_number = errno;
    int error = SSL_get_error(link->ssl, rc);
    if (error == SSL_ERROR_WANT_READ)
        return REDIS_TLS_READ;
    if (error == SSL_ERROR_WANT_WRITE)
        return REDIS_TLS_WRITE;
    explain(link, error, error_number);
    return REDIS_TLS_LOST;
}

/* OpenSSL's complaints are the thread's, and errno may be anybody's. */
static void forget_errors(void)
{
    ERR_clear_error();
    errno = 0;
}

enum redis_tls_end redis_tls_handshake(struct redis_tls_link *link)
{
    if (link->ssl == NULL)
        return REDIS_TLS_LOST;
    forget_errors();
    return end_of(link, SSL_connect(link->ssl));
}

enum redis_tls_end redis_tls_read(struct redis_tls_link *link, char *p, size_t len, size_t *out_len)
{
    forget_errors();
    return end_of(link, SSL_read_ex(link->ssl, p, len, out_len));
}

enum redis_tls_end redis_tls_write(struct redis_tls_link *link, const char *p, size_t len,
                                   size_t *out_len)
{
    forget_errors();
    return end_of(link, SSL_write_ex(link->ssl, p, len, out_len));
}

bool redis_tls_holds(const struct redis_tls_link *link)
{
    return SSL_has_pending(link->ssl) != 0;
}

const char *redis_tls_reason(const struct redis_tls_link *link)
{
    return link->reason;
}
