// SPDX-License-Identifier: Apache-2.0
// The TLS settings of the two sides of a connection, and the leaf certificates for the guest's
// side.
#include "sandbox-backend/egress/tls_context.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/egress/egress.h"

static const char *reason(void)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    return why ? why : "unknown error";
}

// ---- leaf certificates

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
    TAILQ_HEAD(leaf_list, leaf) list; // the last used one first
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
    char nobody[] = ""; // the password: none can be asked for
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
        err_set(e, ERR_INVALID,
                "the sandbox's certificate authority cannot be read: \"ca\" must have a "
                "certificate and "
                "a key in PEM form");
    else if (!X509_check_private_key(l->ca, l->ca_key))
        err_set(
            e, ERR_INVALID,
            "the key of the sandbox's certificate authority does not belong to its certificate");
    else if (!l->key)
        err_set(e, ERR_INTERNAL, "OpenSSL cannot make the key of the leaf certificates: %s",
                reason());
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

// ---- making a leaf

static bool add_extension(X509 *x, X509V3_CTX *ctx, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
    bool added = extension && X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}

// Add the name as parts: the text of an OpenSSL configuration would give characters in it a
// meaning.
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
    TAILQ_FOREACH (leaf, &l->list, link)
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

// ---- the contexts

// The files in which distributions keep all authorities. OpenSSL's own default is a directory,
// which it would search while a connection waits, and which a jail may not have.
static const char *const BUNDLES[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                      "/etc/ssl/cert.pem"};

struct tls_contexts {
    struct leaves *leaves; // borrowed
    SSL_CTX *server, *client;
};

// The policy allowed one name, so the guest's TLS must ask for the same name.
static int on_server_name(SSL *ssl, int *alert, void *ctx)
{
    (void)ctx;
    const char *name = SSL_get_app_data(ssl);
    const char *asked = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (!asked || strcasecmp(asked, name) == 0)
        return SSL_TLSEXT_ERR_OK;
    tls_session_blame(ssl, "the name changed on the way");
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int load_trust(SSL_CTX *ctx, const char *trust, struct err *e)
{
    for (size_t i = 0; !trust && i < ARRAY_LEN(BUNDLES); i++)
        if (file_exists(BUNDLES[i]))
            trust = BUNDLES[i];
    if (!trust)
        return err_set(e, ERR_NOT_FOUND,
                       "no file with certificate authorities was found (install the package "
                       "ca-certificates)");
    if (!SSL_CTX_load_verify_file(ctx, trust)) {
        err_set(e, ERR_INVALID, "%s cannot be used as certificate authorities: %s", trust,
                reason());
        ERR_clear_error();
        return -1;
    }
    return 0;
}

static int set_up(struct tls_contexts *t, const char *trust, struct err *e)
{
    t->server = tls_context_new(true);
    t->client = tls_context_new(false);
    if (!t->server || !t->client)
        return err_set(e, ERR_INTERNAL, "OpenSSL cannot be set up: %s", reason());
    SSL_CTX_set_num_tickets(t->server, 0);
    SSL_CTX_set_tlsext_servername_callback(t->server, on_server_name);
    SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
    return load_trust(t->client, trust, e);
}

struct tls_contexts *tls_contexts_new(struct leaves *leaves, const char *trust, struct err *e)
{
    struct tls_contexts *t = xcalloc(1, sizeof *t);
    t->leaves = leaves;
    if (set_up(t, trust, e) == 0)
        return t;
    tls_contexts_free(t);
    return NULL;
}

// Trust the certificates in this text.
static int load_text(SSL_CTX *ctx, const char *pem, struct err *e)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *x;
    int count = 0;
    while (bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        count += X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x);
        X509_free(x);
    }
    BIO_free(bio);
    ERR_clear_error();
    return count ? 0 : err_set(e, ERR_INVALID, "the proxy's authorities are not certificates");
}

struct tls_contexts *tls_contexts_for_proxy(const char *ca, const char *trust, struct err *e)
{
    struct tls_contexts *t = xcalloc(1, sizeof *t);
    t->client = tls_context_new(false);
    if (!t->client)
        err_set(e, ERR_INTERNAL, "OpenSSL cannot be set up: %s", reason());
    else if ((ca ? load_text(t->client, ca, e) : load_trust(t->client, trust, e)) == 0) {
        SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_alpn_protos(t->client, NULL, 0);
        return t;
    }
    tls_contexts_free(t);
    return NULL;
}

void tls_contexts_free(struct tls_contexts *t)
{
    SSL_CTX_free(t->server);
    SSL_CTX_free(t->client);
    free(t);
}

// ---- the sessions

static struct tls_session *fail_ssl(SSL *ssl)
{
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

struct tls_session *tls_contexts_serve(struct tls_contexts *t, const char *name, struct buf *sealed)
{
    X509 *leaf = leaves_for(t->leaves, name);
    SSL *ssl = leaf ? SSL_new(t->server) : NULL;
    if (!ssl || !SSL_set_app_data(ssl, (char *)(uintptr_t)name) ||
        !SSL_use_certificate(ssl, leaf) || !SSL_use_PrivateKey(ssl, t->leaves->key))
        return fail_ssl(ssl);
    SSL_set_accept_state(ssl);
    return tls_session_new(ssl, sealed);
}

// Set the one name or address that the host's certificate must be valid for.
static bool expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, name))
        return true;
    ERR_clear_error();
    return X509_VERIFY_PARAM_set1_host(wanted, name, 0) && SSL_set_tlsext_host_name(ssl, name);
}

struct tls_session *tls_contexts_dial(struct tls_contexts *t, const char *name, struct buf *sealed)
{
    SSL *ssl = SSL_new(t->client);
    if (!ssl || !expect_name(ssl, name))
        return fail_ssl(ssl);
    SSL_set_connect_state(ssl);
    return tls_session_new(ssl, sealed);
}
