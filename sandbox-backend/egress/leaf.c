// SPDX-License-Identifier: Apache-2.0
// Certificates for the names that a guest connects to.
#include "sandbox-backend/egress/leaf.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/egress/egress.h"

#define DAY_S        (24 * 60 * 60)
#define VALID_DAYS   365
#define SERIAL_BITS  127
#define CN_MAX_BYTES 64 // ub-common-name of RFC 5280

struct leaf {
    TAILQ_ENTRY(leaf) link;
    char *name; // owned
    X509 *x;    // owned
};

struct leaves {
    X509 *ca; // owned, as all here
    EVP_PKEY *ca_key;
    EVP_PKEY *key;
    TAILQ_HEAD(leaf_list, leaf) list; // the one used last first
    size_t count;
};

static void *read_pem(const char *text, void *read(BIO *bio))
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    void *made = bio ? read(bio) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return made;
}

static void *read_certificate(BIO *bio)
{
    return PEM_read_bio_X509(bio, NULL, NULL, NULL);
}

static void *read_key(BIO *bio)
{
    char nobody[] = ""; // is there to be asked for a password
    return PEM_read_bio_PrivateKey(bio, NULL, NULL, nobody);
}

struct leaves *leaves_new(const char *ca_certificate, const char *ca_key, struct err *e)
{
    struct leaves *l = xcalloc(1, sizeof *l);
    TAILQ_INIT(&l->list);
    l->ca = read_pem(ca_certificate, read_certificate);
    l->ca_key = read_pem(ca_key, read_key);
    l->key = EVP_EC_gen("P-256");
    if (!l->ca || !l->ca_key)
        err_set(e, ERR_INVALID, "the authority's certificate and key must be PEM");
    else if (!X509_check_private_key(l->ca, l->ca_key))
        err_set(e, ERR_INVALID, "the authority's key is not its certificate's");
    else if (!l->key)
        err_set(e, ERR_INTERNAL, "OpenSSL cannot make a key");
    else
        return l;
    ERR_clear_error();
    leaves_free(l);
    return NULL;
}

static void drop(struct leaves *l, struct leaf *leaf)
{
    TAILQ_REMOVE(&l->list, leaf, link);
    l->count--;
    X509_free(leaf->x);
    free(leaf->name);
    free(leaf);
}

void leaves_free(struct leaves *l)
{
    while (!TAILQ_EMPTY(&l->list))
        drop(l, TAILQ_FIRST(&l->list));
    X509_free(l->ca);
    EVP_PKEY_free(l->ca_key);
    EVP_PKEY_free(l->key);
    free(l);
}

void *leaves_key(const struct leaves *l)
{
    return l->key;
}

// ---- making one

static bool add_extension(X509 *x, X509V3_CTX *ctx, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
    bool added = extension && X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}

// Made from its parts, as a configuration's text would read meaning into the name.
static bool add_name(X509 *x, const char *name)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(name);
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *one = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    bool added = false;
    ERR_clear_error();
    if (names && one && text && ASN1_STRING_set(text, name, -1)) {
        if (address)
            GENERAL_NAME_set0_value(one, GEN_IPADD, steal(&address));
        else
            GENERAL_NAME_set0_value(one, GEN_DNS, steal(&text));
        if (sk_GENERAL_NAME_push(names, one)) {
            one = NULL;
            added = X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) == 1;
        }
    }
    ASN1_IA5STRING_free(text);
    ASN1_OCTET_STRING_free(address);
    GENERAL_NAME_free(one);
    GENERAL_NAMES_free(names);
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

static bool set_subject(X509 *x, const char *name)
{
    const char *shown = strlen(name) <= CN_MAX_BYTES ? name : "long name";
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                                      (const unsigned char *)shown, -1, -1, 0) == 1;
}

static bool fill(const struct leaves *l, X509 *x, const char *name)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, l->ca, x, NULL, NULL, 0);
    return X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
           X509_gmtime_adj(X509_getm_notBefore(x), -DAY_S) &&
           X509_gmtime_adj(X509_getm_notAfter(x), (long)VALID_DAYS * DAY_S) &&
           set_subject(x, name) && X509_set_issuer_name(x, X509_get_subject_name(l->ca)) &&
           X509_set_pubkey(x, l->key) && add_name(x, name) &&
           add_extension(x, &ctx, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(x, &ctx, NID_key_usage, "critical,digitalSignature") &&
           add_extension(x, &ctx, NID_ext_key_usage, "serverAuth") &&
           add_extension(x, &ctx, NID_subject_key_identifier, "hash") &&
           add_extension(x, &ctx, NID_authority_key_identifier, "keyid") &&
           X509_sign(x, l->ca_key, EVP_sha256());
}

static struct leaf *make(const struct leaves *l, const char *name)
{
    X509 *x = X509_new();
    if (!x || !fill(l, x, name)) {
        ERR_clear_error();
        X509_free(x);
        return NULL;
    }
    struct leaf *leaf = xcalloc(1, sizeof *leaf);
    leaf->name = xstrdup(name);
    leaf->x = x;
    return leaf;
}

static struct leaf *find(const struct leaves *l, const char *name)
{
    struct leaf *leaf;
    TAILQ_FOREACH(leaf, &l->list, link)
    if (strcasecmp(leaf->name, name) == 0)
        return leaf;
    return NULL;
}

void *leaves_for(struct leaves *l, const char *name)
{
    struct leaf *leaf = find(l, name);
    if (leaf)
        TAILQ_REMOVE(&l->list, leaf, link);
    else if (!(leaf = make(l, name)))
        return NULL;
    else if (++l->count > EGRESS_LEAVES_MAX)
        drop(l, TAILQ_LAST(&l->list, leaf_list));
    TAILQ_INSERT_HEAD(&l->list, leaf, link);
    return leaf->x;
}
