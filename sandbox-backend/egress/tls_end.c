// SPDX-License-Identifier: Apache-2.0
// One end of a TLS connection.
#include "sandbox-backend/egress/tls_end.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

static const unsigned char HTTP_1_1[] = "\x08http/1.1";
#define HTTP_1_1_BYTES (sizeof HTTP_1_1 - 1)

// Where distributions keep all authorities in one file; OpenSSL's own default is a directory that
// it would search while a connection waits, and that a jail need not have.
static const char *const BUNDLES[] = {"/etc/ssl/certs/ca-certificates.crt",
                                      "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                      "/etc/ssl/cert.pem"};

struct tls_ends {
    struct leaves *leaves; // borrowed
    SSL_CTX *server, *client;
};

struct tls_end {
    SSL *ssl;
    BIO *in, *out;      // of `ssl`
    struct buf *sealed; // borrowed
    const char *name;   // borrowed
    bool failed;        // nothing may be asked of `ssl` any more
    bool wrong_name;
    char why[160];
};

static const char *reason(void)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    return why ? why : "unknown error";
}

// ---- what all share

// HTTP/1.1, or nothing: who offers only other protocols would not understand the answers.
static int on_alpn(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                   const unsigned char *offered, unsigned offered_len, void *ctx)
{
    (void)ssl;
    (void)ctx;
    unsigned char *found;
    if (SSL_select_next_proto(&found, chosen_len, HTTP_1_1, HTTP_1_1_BYTES, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

// The name for which the policy was asked is the one that is served.
static int on_server_name(SSL *ssl, int *alert, void *ctx)
{
    (void)ctx;
    struct tls_end *s = SSL_get_app_data(ssl);
    const char *asked = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (!asked || strcasecmp(asked, s->name) == 0)
        return SSL_TLSEXT_ERR_OK;
    s->wrong_name = true;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *ctx_new(const SSL_METHOD *method)
{
    SSL_CTX *ctx = SSL_CTX_new(method);
    if (!ctx)
        return NULL;
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
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

static int set_up(struct tls_ends *t, const char *trust, struct err *e)
{
    t->server = ctx_new(TLS_server_method());
    t->client = ctx_new(TLS_client_method());
    if (!t->server || !t->client ||
        SSL_CTX_set_alpn_protos(t->client, HTTP_1_1, HTTP_1_1_BYTES) != 0)
        return err_set(e, ERR_INTERNAL, "OpenSSL cannot be set up: %s", reason());
    SSL_CTX_set_num_tickets(t->server, 0);
    SSL_CTX_set_alpn_select_cb(t->server, on_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback(t->server, on_server_name);
    SSL_CTX_set_verify(t->client, SSL_VERIFY_PEER, NULL);
    return load_trust(t->client, trust, e);
}

struct tls_ends *tls_ends_new(struct leaves *leaves, const char *trust, struct err *e)
{
    struct tls_ends *t = xcalloc(1, sizeof *t);
    t->leaves = leaves;
    if (set_up(t, trust, e) == 0)
        return t;
    tls_ends_free(t);
    return NULL;
}

void tls_ends_free(struct tls_ends *t)
{
    SSL_CTX_free(t->server);
    SSL_CTX_free(t->client);
    free(t);
}

// ---- an end

static struct tls_end *end_new(SSL_CTX *ctx, const char *name, struct buf *sealed)
{
    struct tls_end *s = xcalloc(1, sizeof *s);
    *s = (struct tls_end){.sealed = sealed, .name = name, .ssl = SSL_new(ctx)};
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    if (!s->ssl || !s->in || !s->out) {
        BIO_free(s->in);
        BIO_free(s->out);
        tls_end_free(s);
        return NULL;
    }
    BIO_set_mem_eof_return(s->in, -1);  // empty is not the end
    SSL_set_bio(s->ssl, s->in, s->out); // takes both
    SSL_set_app_data(s->ssl, s);
    return s;
}

struct tls_end *tls_end_serve(struct tls_ends *t, const char *name, struct buf *sealed)
{
    X509 *leaf = leaves_for(t->leaves, name);
    struct tls_end *s = leaf ? end_new(t->server, name, sealed) : NULL;
    if (!s)
        return NULL;
    if (SSL_use_certificate(s->ssl, leaf) && SSL_use_PrivateKey(s->ssl, leaves_key(t->leaves))) {
        SSL_set_accept_state(s->ssl);
        return s;
    }
    ERR_clear_error();
    tls_end_free(s);
    return NULL;
}

// Verified for this name, or address, and no other.
static bool expect(struct tls_end *s, const char *name)
{
    X509_VERIFY_PARAM *wanted = SSL_get0_param(s->ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, name))
        return true;
    ERR_clear_error();
    return X509_VERIFY_PARAM_set1_host(wanted, name, 0) && SSL_set_tlsext_host_name(s->ssl, name);
}

struct tls_end *tls_end_dial(struct tls_ends *t, const char *name, struct buf *sealed)
{
    struct tls_end *s = end_new(t->client, name, sealed);
    if (s && expect(s, name)) {
        SSL_set_connect_state(s->ssl);
        return s;
    }
    ERR_clear_error();
    if (s)
        tls_end_free(s);
    return NULL;
}

void tls_end_free(struct tls_end *s)
{
    SSL_free(s->ssl);
    free(s);
}

static void collect(struct tls_end *s)
{
    char *data;
    long len = BIO_get_mem_data(s->out, &data);
    if (len > 0) {
        buf_add(s->sealed, data, (size_t)len);
        BIO_reset(s->out);
    }
}

static enum tls_end_event fail(struct tls_end *s)
{
    long verified = SSL_get_verify_result(s->ssl);
    const char *why = verified == X509_V_OK ? reason() : X509_verify_cert_error_string(verified);
    if (s->wrong_name)
        why = "the name changed on the way";
    snprintf(s->why, sizeof s->why, "%s", why);
    s->failed = true;
    ERR_clear_error();
    return TLS_END_BAD;
}

void tls_end_start(struct tls_end *s)
{
    ERR_clear_error();
    SSL_do_handshake(s->ssl); // nothing has come yet: it can only want more
    ERR_clear_error();
    collect(s);
}

void tls_end_give(struct tls_end *s, const char *data, size_t len)
{
    BIO_write(s->in, data, (int)len);
}

enum tls_end_event tls_end_take(struct tls_end *s, char *into, size_t room, size_t *len)
{
    if (s->failed)
        return TLS_END_BAD;
    ERR_clear_error();
    enum tls_end_event event = TLS_END_DATA;
    if (!SSL_read_ex(s->ssl, into, room, len)) {
        int error = SSL_get_error(s->ssl, 0);
        event = error == SSL_ERROR_WANT_READ     ? TLS_END_MORE
                : error == SSL_ERROR_ZERO_RETURN ? TLS_END_OVER
                                                 : fail(s);
    }
    collect(s);
    return event;
}

bool tls_end_is_established(const struct tls_end *s)
{
    return !s->failed && SSL_is_init_finished(s->ssl);
}

bool tls_end_seal(struct tls_end *s, const void *data, size_t len)
{
    size_t written;
    if (!tls_end_is_established(s))
        return false;
    ERR_clear_error();
    if (len && !SSL_write_ex(s->ssl, data, len, &written)) {
        fail(s);
        return false;
    }
    collect(s);
    return true;
}

void tls_end_bye(struct tls_end *s)
{
    if (!tls_end_is_established(s) || (SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN))
        return;
    SSL_shutdown(s->ssl); // one way: what the peer still says is of no interest
    ERR_clear_error();
    collect(s);
}

const char *tls_end_why(const struct tls_end *s)
{
    return s->why;
}
