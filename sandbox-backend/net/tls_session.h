// SPDX-License-Identifier: Apache-2.0
// A TLS connection over memory: OpenSSL reads bytes that the caller received, and adds bytes to
// send to a buffer. The session itself has no socket. The HTTP server and cubby-egress use it.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

#define TLS_PLAIN_BYTES 16384 // the longest record

struct ssl_st;     // OpenSSL's SSL
struct ssl_ctx_st; // OpenSSL's SSL_CTX

// Return a context with the settings that all our connections share: TLS 1.2 or later, no
// renegotiation, no compression, no session cache, HTTP/1.1 as the only protocol in ALPN. NULL when
// OpenSSL fails; the caller frees it.
struct ssl_ctx_st *tls_context_new(bool is_server);

enum tls_event {
    TLS_MORE, // all bytes were taken; more are needed
    TLS_DATA,
    TLS_END,  // the peer sends no more: close_notify
    TLS_HTTP, // the peer speaks HTTP without TLS
    TLS_BAD,  // see tls_session_why; `sealed` may hold an alert for the peer
};

struct tls_session;

// Begin a connection. `ssl` is ready to accept or to connect; the session takes it over, also on
// failure. Bytes to send are added to `sealed`, which must outlive the session. Return NULL when
// OpenSSL fails or `ssl` is NULL.
struct tls_session *tls_session_new(struct ssl_st *ssl, struct buf *sealed);
void tls_session_free(struct tls_session *s);

// Add a client's first flight to `sealed`.
void tls_session_start(struct tls_session *s);
// Give bytes of the socket. They are borrowed until tls_session_take returns something other than
// TLS_DATA.
void tls_session_give(struct tls_session *s, const char *data, size_t len);
enum tls_event tls_session_take(struct tls_session *s, char *into, size_t room, size_t *len);
bool tls_session_is_established(const struct tls_session *s);
// Encrypt `data` into `sealed`. False: the handshake is not over, or the connection has failed.
bool tls_session_seal(struct tls_session *s, const void *data, size_t len);
// Add close_notify to `sealed`, once, if the connection is established.
void tls_session_bye(struct tls_session *s);
// Return why the connection failed; a static string.
const char *tls_session_why(const struct tls_session *s);
// Set the answer of tls_session_why. A callback of OpenSSL that fails the handshake calls this.
// `why` is static.
void tls_session_blame(struct ssl_st *ssl, const char *why);
