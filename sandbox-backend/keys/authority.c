// SPDX-License-Identifier: Apache-2.0
// Creation of a certificate authority, by OpenSSL.
#include "sandbox-backend/keys/authority.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

#define DAY_S       (24 * 60 * 60)
#define VALID_DAYS  3650
#define SERIAL_BITS 127

static int failed(struct err *e, const char *what)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    err_set(e, ERR_INTERNAL, "OpenSSL cannot %s: %s", what, why ? why : "unknown error");
    ERR_clear_error();
    return -1;
}

static bool add_extension(X509 *x, X509V3_CTX *ctx, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
    bool added = extension && X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}

static bool set_serial(X509 *x)
{
    BIGNUM *number = BN_new();
    bool set = number && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
               BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
    BN_free(number);
    return set;
}

static bool fill(X509 *x, EVP_PKEY *key, const char *common_name)
{
    X509V3_CTX ctx;
    X509_NAME *name = X509_get_subject_name(x);
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    return X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
           X509_gmtime_adj(X509_getm_notBefore(x), -DAY_S) &&
           X509_gmtime_adj(X509_getm_notAfter(x), (long)VALID_DAYS * DAY_S) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name,
                                      -1, -1, 0) &&
           X509_set_issuer_name(x, name) && X509_set_pubkey(x, key) &&
           add_extension(x, &ctx, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(x, &ctx, NID_key_usage, "critical,keyCertSign") &&
           add_extension(x, &ctx, NID_ext_key_usage, "serverAuth") &&
           add_extension(x, &ctx, NID_subject_key_identifier, "hash") &&
           add_extension(x, &ctx, NID_authority_key_identifier, "keyid") &&
           X509_sign(x, key, EVP_sha256());
}

static char *text_of(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    return xstrndup(data, (size_t)len);
}

static bool write_pem(struct authority *a, X509 *x, EVP_PKEY *key)
{
    BIO *certificate = BIO_new(BIO_s_mem());
    BIO *secret = BIO_new(BIO_s_secmem());
    bool written = certificate && secret && PEM_write_bio_X509(certificate, x) &&
                   PEM_write_bio_PKCS8PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL);
    if (written) {
        a->certificate = text_of(certificate);
        a->key = text_of(secret);
    }
    BIO_free(certificate);
    BIO_free(secret);
    return written;
}

int authority_make(struct authority *a, const char *common_name, struct err *e)
{
    *a = (struct authority){0};
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    int rc = 0;
    if (!key || !x || !fill(x, key, common_name))
        rc = failed(e, "make a certificate authority");
    else if (!write_pem(a, x, key))
        rc = failed(e, "write a certificate authority");
    X509_free(x);
    EVP_PKEY_free(key);
    return rc;
}

void authority_fini(struct authority *a)
{
    if (a->key)
        explicit_bzero(a->key, strlen(a->key));
    free(a->certificate);
    free(a->key);
    *a = (struct authority){0};
}

bool authority_is_certificates(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool found = x != NULL;
    X509_free(x);
    BIO_free(bio);
    ERR_clear_error();
    return found;
}
