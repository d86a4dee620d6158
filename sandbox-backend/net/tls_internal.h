// SPDX-License-Identifier: Apache-2.0
// The functions of TLS, which the HTTP server calls through pointers. So a program whose server has
// no TLS, above all the guest's envd, does not link OpenSSL.
#pragma once
#include "sandbox-backend/net/tls.h"
#include "sandbox-backend/net/tls_session.h"

struct tls_methods {
    // Begin a connection whose bytes to send are added to `sealed`; NULL: OpenSSL fails.
    struct tls_session *(*open)(struct tls *tls, struct buf *sealed);
    // The functions of tls_session.h.
    void (*free)(struct tls_session *s);
    void (*give)(struct tls_session *s, const char *data, size_t len);
    enum tls_event (*take)(struct tls_session *s, char *into, size_t room, size_t *len);
    bool (*is_established)(const struct tls_session *s);
    bool (*seal)(struct tls_session *s, const void *data, size_t len);
    void (*bye)(struct tls_session *s);
    const char *(*why)(const struct tls_session *s);
};

struct tls {
    const struct tls_methods *methods; // the rest is private to tls.c
};
