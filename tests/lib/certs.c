#include "tests/lib/certs.h"

#include <check.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

enum { DAY_S = 24 * 60 * 60 };

struct certs_authority {
    EVP_PKEY *key;
    X509 *cert;
};

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* A certificate that lacks only its extensions and signature. Returns owned. */
static X509 *begin_cert(EVP_PKEY *key, const char *name, int days)
{
    static long serial = 1;
    X509 *cert = X509_new();
    ck_assert_ptr_nonnull(cert);
    ck_assert_int_eq(X509_set_version(cert, 2), 1);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -(long)1000 * DAY_S);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY_S);
    (void)X509_set_pubkey(cert, key);
    ck_assert_int_eq(X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    return cert;
}

static void sign(X509 *cert, X509 *issuer, EVP_PKEY *key)
{
    (void)X509_set_issuer_name(cert, X509_get_subject_name(issuer));
    ck_assert_int_ne(X509_sign(cert, key, EVP_sha256()), 0);
}

static FILE *open_for_writing(const char *path)
{
    FILE *file = fopen(path, "w");
    ck_assert_msg(file != NULL, "%s can't be written", path);
    return file;
}

static void write_cert(X509 *cert, const char *path)
{
    FILE *file = open_for_writing(path);
    ck_assert_int_eq(PEM_write_X509(file, cert), 1);
    ck_assert_int_eq(fclose(file), 0);
}

struct certs_authority *certs_authority_create(const char *name)
{
    struct certs_authority *authority = malloc(sizeof(*authority));
    ck_assert_ptr_nonnull(authority);
    authority->key = EVP_EC_gen("P-256");
    ck_assert_ptr_nonnull(authority->key);
    authority->cert = begin_cert(authority->key, name, 365);
    add_extension(authority->cert, authority->cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(authority->cert, authority->cert, NID_key_usage, "critical,keyCertSign");
    sign(authority->cert, authority->cert, authority->key);
    return authority;
}

void certs_authority_destroy(struct certs_authority *authority)
{
    X509_free(authority->cert);
    EVP_PKEY_free(authority->key);
    free(authority);
}

void certs_authority_write(const struct certs_authority *authority, const char *path)
{
    write_cert(authority->cert, path);
}

void certs_write(const struct certs_authority *authority, const char *names, int days,
                 const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    ck_assert_ptr_nonnull(key);
    X509 *cert = begin_cert(key, "a test", days);
    add_extension(cert, authority->cert, NID_subject_alt_name, names);
    sign(cert, authority->cert, authority->key);
    write_cert(cert, cert_path);
    FILE *file = open_for_writing(key_path);
    ck_assert_int_eq(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    ck_assert_int_eq(fclose(file), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}
