// SPDX-License-Identifier: Apache-2.0
// A server's certificate and key: reads them, reports what is wrong, follows changes of their
// files.
#include "sandbox-backend/net/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/tls_internal.h"

#define PEM_MAX_BYTES ((size_t)1024 * 1024)

struct server_tls {
    struct tls tls;
    char *certificate_path;
    char *key_path;
    struct file_stamp certificate_stamp, key_stamp; // of the last read
    SSL_CTX *ctx;
};

static void free_x509(X509 **x)
{
    X509_free(*x);
}

static void free_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void free_bio(BIO **bio)
{
    BIO_free(*bio);
}

static void free_ctx(SSL_CTX **ctx)
{
    SSL_CTX_free(*ctx);
}

#define auto_x509 __attribute__((cleanup(free_x509)))
#define auto_key  __attribute__((cleanup(free_key)))
#define auto_bio  __attribute__((cleanup(free_bio)))
#define auto_ctx  __attribute__((cleanup(free_ctx)))

static const char *reason(void)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    return why ? why : "unknown error";
}

// ---- the certificate

static void warn_of_dates(const X509 *leaf, const char *path)
{
    if (X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0)
        log_warn("tls.expired", "certificate=%s", path);
    if (X509_cmp_current_time(X509_get0_notBefore(leaf)) > 0)
        log_warn("tls.not-yet-valid", "certificate=%s", path);
}

static int add_chain(SSL_CTX *ctx, BIO *pem, const char *path, struct err *e)
{
    X509 *issuer;
    while ((issuer = PEM_read_bio_X509(pem, NULL, NULL, NULL))) {
        if (SSL_CTX_add0_chain_cert(ctx, issuer))
            continue;
        X509_free(issuer);
        return err_set(e, ERR_INVALID, "a certificate in %s cannot be used: %s", path, reason());
    }
    unsigned long end = ERR_peek_last_error();
    if (ERR_GET_LIB(end) != ERR_LIB_PEM || ERR_GET_REASON(end) != PEM_R_NO_START_LINE)
        return err_set(e, ERR_INVALID, "a certificate in %s is malformed: %s", path, reason());
    return 0;
}

static int use_certificate(SSL_CTX *ctx, const char *path, X509 **leaf, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, PEM_MAX_BYTES, &text, e) != 0)
        return err_wrap(e, "the certificate");
    BIO *pem auto_bio = BIO_new_mem_buf(buf_str(&text), (int)text.len);
    *leaf = PEM_read_bio_X509_AUX(pem, NULL, NULL, NULL);
    if (!*leaf)
        return err_set(e, ERR_INVALID, "%s holds no certificate in PEM form: %s", path, reason());
    if (!SSL_CTX_use_certificate(ctx, *leaf))
        return err_set(e, ERR_INVALID, "the certificate in %s cannot be used: %s", path, reason());
    return add_chain(ctx, pem, path, e);
}

// ---- the key

static int on_password(char *into, int room, int writing, void *asked)
{
    (void)into;
    (void)room;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static EVP_PKEY *read_key(const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    bool is_encrypted = false;
    if (file_read(path, PEM_MAX_BYTES, &text, e) != 0) {
        err_wrap(e, "the key");
        return NULL;
    }
    BIO *pem auto_bio = BIO_new_mem_buf(buf_str(&text), (int)text.len);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(pem, NULL, on_password, &is_encrypted);
    if (text.data)
        OPENSSL_cleanse(text.data, text.len);
    if (!key && is_encrypted)
        err_set(e, ERR_INVALID, "the key in %s is encrypted: give a key without a passphrase",
                path);
    else if (!key)
        err_set(e, ERR_INVALID, "%s holds no private key in PEM form: %s", path, reason());
    return key;
}

static int use_key(SSL_CTX *ctx, const char *path, const X509 *leaf, const char *certificate_path,
                   struct err *e)
{
    EVP_PKEY *key auto_key = read_key(path, e);
    if (!key)
        return -1;
    if (!X509_check_private_key(leaf, key))
        return err_set(e, ERR_INVALID, "the key in %s does not belong to the certificate in %s",
                       path, certificate_path);
    if (!SSL_CTX_use_PrivateKey(ctx, key))
        return err_set(e, ERR_INVALID, "the key in %s cannot be used: %s", path, reason());
    return 0;
}

// ---- the protocol

static SSL_CTX *ctx_new(struct err *e)
{
    SSL_CTX *ctx = tls_context_new(true);
    if (!ctx || !SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20")) {
        err_set(e, ERR_INTERNAL, "OpenSSL cannot be set up: %s", reason());
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    // Clients resume sessions with tickets that they keep, so the server keeps no state of them.
    SSL_CTX_set_num_tickets(ctx, 1);
    return ctx;
}

// ---- the files

// Read both files; keep the previous pair when the new one is not valid.
static int load(struct server_tls *t, struct err *e)
{
    ERR_clear_error();
    // Take the stamps first: a change during the read is then noticed the next time.
    file_stamp_get(t->certificate_path, &t->certificate_stamp);
    file_stamp_get(t->key_path, &t->key_stamp);
    SSL_CTX *ctx auto_ctx = ctx_new(e);
    X509 *leaf auto_x509 = NULL;
    if (!ctx || use_certificate(ctx, t->certificate_path, &leaf, e) != 0 ||
        use_key(ctx, t->key_path, leaf, t->certificate_path, e) != 0) {
        ERR_clear_error();
        return -1;
    }
    ERR_clear_error();
    warn_of_dates(leaf, t->certificate_path);
    SSL_CTX_free(t->ctx); // connections that use it hold a reference
    t->ctx = steal(&ctx);
    return 0;
}

static void reload_changed(struct server_tls *t)
{
    struct file_stamp certificate, key;
    file_stamp_get(t->certificate_path, &certificate);
    file_stamp_get(t->key_path, &key);
    if (file_stamp_equal(&certificate, &t->certificate_stamp) &&
        file_stamp_equal(&key, &t->key_stamp))
        return;
    struct err e = ERR_INIT;
    if (load(t, &e) == 0)
        log_info("tls.reloaded", "certificate=%s", t->certificate_path);
    else
        log_warn("tls.not-reloaded", "error=%s", e.msg);
}

static struct tls_session *open_session(struct tls *tls, struct buf *sealed)
{
    struct server_tls *t = container_of(tls, struct server_tls, tls);
    reload_changed(t);
    SSL *ssl = SSL_new(t->ctx);
    if (ssl)
        SSL_set_accept_state(ssl);
    return tls_session_new(ssl, sealed);
}

// ---- lifetime

struct tls *tls_new(const char *certificate_path, const char *key_path, struct err *e)
{
    static const struct tls_methods METHODS = {
        .open = open_session,
        .free = tls_session_free,
        .give = tls_session_give,
        .take = tls_session_take,
        .is_established = tls_session_is_established,
        .seal = tls_session_seal,
        .bye = tls_session_bye,
        .why = tls_session_why,
    };
    struct server_tls *t = xcalloc(1, sizeof *t);
    t->tls.methods = &METHODS;
    t->certificate_path = xstrdup(certificate_path);
    t->key_path = xstrdup(key_path);
    if (load(t, e) != 0) {
        tls_free(&t->tls);
        return NULL;
    }
    return &t->tls;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    struct server_tls *t = container_of(tls, struct server_tls, tls);
    SSL_CTX_free(t->ctx);
    free(t->certificate_path);
    free(t->key_path);
    free(t);
}
