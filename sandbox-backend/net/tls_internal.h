// SPDX-License-Identifier: Apache-2.0
// What stands between the bytes of a socket and those of a connection: the certificate (tls.c) and
// one connection's session (tls_session.c). Used by pointers, so that a program whose HTTP server
// speaks no TLS, above all the guest's envd, does not link OpenSSL.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/tls.h"

#define TLS_PLAIN_BYTES 16384 // the longest record

struct tls_session;

enum tls_event {
    TLS_MORE, // all was taken; more bytes are needed
    TLS_DATA,
    TLS_END,  // the peer has said that it sends no more
    TLS_HTTP, // it speaks HTTP without TLS
    TLS_BAD,  // see `why`; what is sealed holds the alert
};

struct tls_methods {
    // What is to be sent is added to `sealed` (borrowed, as long as the session).
    struct tls_session *(*open)(struct tls *tls, struct buf *sealed);
    void (*free)(struct tls_session *s);
    // Bytes of the socket; borrowed until `take` says something other than TLS_DATA.
    void (*give)(struct tls_session *s, const char *data, size_t len);
    enum tls_event (*take)(struct tls_session *s, char *into, size_t room, size_t *len);
    bool (*is_established)(const struct tls_session *s);
    bool (*seal)(struct tls_session *s, const void *data, size_t len); // false: it cannot
    void (*bye)(struct tls_session *s); // close_notify, once, if there is somebody to tell
    const char *(*why)(const struct tls_session *s);
};

struct tls {
    const struct tls_methods *methods; // the rest is tls.c's own
};

// ---- tls_session.c; ssl_ctx is an SSL_CTX
struct tls_session *tls_session_open(void *ssl_ctx, struct buf *sealed);
void tls_session_free(struct tls_session *s);
void tls_session_give(struct tls_session *s, const char *data, size_t len);
enum tls_event tls_session_take(struct tls_session *s, char *into, size_t room, size_t *len);
bool tls_session_is_established(const struct tls_session *s);
bool tls_session_seal(struct tls_session *s, const void *data, size_t len);
void tls_session_bye(struct tls_session *s);
const char *tls_session_why(const struct tls_session *s);
