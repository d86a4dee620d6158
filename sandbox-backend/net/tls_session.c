// SPDX-License-Identifier: Apache-2.0
// One connection's TLS: OpenSSL between two pieces of memory, so that the loop alone has sockets.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/tls_internal.h"

struct tls_session {
    SSL *ssl;
    const char *given; // of the socket, not read yet; borrowed
    size_t given_len;
    struct buf *sealed; // borrowed
    bool failed;        // nothing may be asked of `ssl` any more
    const char *why;    // static
};

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

struct tls_session *tls_session_open(void *ssl_ctx, struct buf *sealed)
{
    struct tls_session *s = xcalloc(1, sizeof *s);
    s->sealed = sealed;
    s->ssl = SSL_new(ssl_ctx);
    BIO *bio = bio_new(s);
    if (!s->ssl || !bio) {
        BIO_free(bio);
        tls_session_free(s);
        return NULL;
    }
    SSL_set_bio(s->ssl, bio, bio); // takes it
    SSL_set_accept_state(s->ssl);
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

static enum tls_event fail(struct tls_session *s)
{
    unsigned long code = ERR_peek_error();
    const char *why = ERR_reason_error_string(code);
    bool speaks_http = ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST && !SSL_is_init_finished(s->ssl);
    s->failed = true;
    s->why = why ? why : "unknown error";
    ERR_clear_error();
    return speaks_http ? TLS_HTTP : TLS_BAD;
}

enum tls_event tls_session_take(struct tls_session *s, char *into, size_t room, size_t *len)
{
    ERR_clear_error();
    if (SSL_read_ex(s->ssl, into, room, len))
        return TLS_DATA;
    switch (SSL_get_error(s->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    default:
        return fail(s);
    }
}

bool tls_session_is_established(const struct tls_session *s)
{
    return SSL_is_init_finished(s->ssl) != 0;
}

bool tls_session_seal(struct tls_session *s, const void *data, size_t len)
{
    size_t written;
    if (s->failed || !SSL_is_init_finished(s->ssl))
        return false;
    ERR_clear_error();
    if (len == 0 || SSL_write_ex(s->ssl, data, len, &written))
        return true;
    fail(s);
    return false;
}

void tls_session_bye(struct tls_session *s)
{
    if (s->failed || !SSL_is_init_finished(s->ssl) ||
        (SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN))
        return;
    SSL_shutdown(s->ssl); // one way: what the peer still says is of no interest
    ERR_clear_error();
}

const char *tls_session_why(const struct tls_session *s)
{
    return s->why;
}
