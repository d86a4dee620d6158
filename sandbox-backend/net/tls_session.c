// SPDX-License-Identifier: Apache-2.0
// A TLS connection over memory.
#include "sandbox-backend/net/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

static const unsigned char HTTP_1_1[] = "\x08http/1.1";
#define HTTP_1_1_BYTES (sizeof HTTP_1_1 - 1)

struct tls_session {
    SSL *ssl;
    const char *given; // bytes of the socket that OpenSSL has not read yet; borrowed
    size_t given_len;
    struct buf *sealed; // borrowed
    bool failed;        // OpenSSL forbids further calls on `ssl`
    const char *why;    // static
};

// ---- the context

// A client that offers other protocols only would not understand our answers: it gets an alert.
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

struct ssl_ctx_st *tls_context_new(bool is_server)
{
    SSL_CTX *ctx = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (!ctx || !SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
        (!is_server && SSL_CTX_set_alpn_protos(ctx, HTTP_1_1, HTTP_1_1_BYTES) != 0)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS); // most connections are idle
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    if (is_server)
        SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
    return ctx;
}

// ---- the memory that OpenSSL reads and writes

static int on_bio_read(BIO *bio, char *into, int room)
{
    struct tls_session *s = BIO_get_data(bio);
    size_t n = s->given_len < (size_t)room ? s->given_len : (size_t)room;
    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(into, s->given, n);
    s->given += n;
    s->given_len -= n;
    return (int)n;
}

static int on_bio_write(BIO *bio, const char *data, int len)
{
    struct tls_session *s = BIO_get_data(bio);
    buf_add(s->sealed, data, (size_t)len);
    return len;
}

static long on_bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO *bio_new(struct tls_session *s)
{
    static BIO_METHOD *methods;
    if (!methods) {
        methods = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "memory of a session");
        if (!methods)
            return NULL;
        BIO_meth_set_read(methods, on_bio_read);
        BIO_meth_set_write(methods, on_bio_write);
        BIO_meth_set_ctrl(methods, on_bio_ctrl);
    }
    BIO *bio = BIO_new(methods);
    if (bio) {
        BIO_set_data(bio, s);
        BIO_set_init(bio, 1);
    }
    return bio;
}

// ---- the session

struct tls_session *tls_session_new(struct ssl_st *ssl, struct buf *sealed)
{
    struct tls_session *s = xcalloc(1, sizeof *s);
    *s = (struct tls_session){.ssl = ssl, .sealed = sealed};
    BIO *bio = bio_new(s);
    if (!ssl || !bio) {
        BIO_free(bio);
        tls_session_free(s);
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio); // takes it
    return s;
}

void tls_session_free(struct tls_session *s)
{
    SSL_free(s->ssl);
    free(s);
}

void tls_session_give(struct tls_session *s, const char *data, size_t len)
{
    s->given = data;
    s->given_len = len;
}

void tls_session_start(struct tls_session *s)
{
    ERR_clear_error();
    SSL_do_handshake(s->ssl); // without bytes of the peer it can only ask for them
    ERR_clear_error();
}

void tls_session_blame(struct ssl_st *ssl, const char *why)
{
    struct tls_session *s = BIO_get_data(SSL_get_rbio(ssl));
    s->why = why;
}

static const char *last_reason(const SSL *ssl)
{
    long verified = SSL_get_verify_result(ssl);
    if (verified != X509_V_OK)
        return X509_verify_cert_error_string(verified);
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    return why ? why : "unknown error";
}

static enum tls_event fail_session(struct tls_session *s)
{
    bool speaks_http =
        ERR_GET_REASON(ERR_peek_error()) == SSL_R_HTTP_REQUEST && !SSL_is_init_finished(s->ssl);
    s->failed = true;
    if (!s->why)
        s->why = last_reason(s->ssl);
    ERR_clear_error();
    return speaks_http ? TLS_HTTP : TLS_BAD;
}

enum tls_event tls_session_take(struct tls_session *s, char *into, size_t room, size_t *len)
{
    if (s->failed)
        return TLS_BAD;
    ERR_clear_error();
    if (SSL_read_ex(s->ssl, into, room, len))
        return TLS_DATA;
    switch (SSL_get_error(s->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        return fail_session(s);
    }
}

bool tls_session_is_established(const struct tls_session *s)
{
    return !s->failed && SSL_is_init_finished(s->ssl);
}

bool tls_session_seal(struct tls_session *s, const void *data, size_t len)
{
    size_t written;
    if (!tls_session_is_established(s))
        return false;
    ERR_clear_error();
    if (len == 0 || SSL_write_ex(s->ssl, data, len, &written))
        return true;
    fail_session(s);
    return false;
}

void tls_session_bye(struct tls_session *s)
{
    if (!tls_session_is_established(s) || (SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN))
        return;
    SSL_shutdown(s->ssl); // one way: the peer may send more, which is not read
    ERR_clear_error();
}

const char *tls_session_why(const struct tls_session *s)
{
    return s->why;
}
