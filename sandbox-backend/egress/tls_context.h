// SPDX-License-Identifier: Apache-2.0
// The TLS settings of the two sides of a connection: towards the guest cubby-egress is the server,
// towards a host it is the client.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/tls_session.h"

// ---- leaf certificates for the names that a guest connects to, signed by the sandbox's own
// authority

struct leaves;

// Both arguments are PEM. This makes the one key of all leaves.
struct leaves *leaves_new(const char *ca_certificate, const char *ca_key, struct err *e);
void leaves_free(struct leaves *l);

// Return the certificate (an X509) for a name, or an address in digits. It is made when it is first
// needed and kept for the EGRESS_LEAVES_MAX names that were used last. NULL when OpenSSL fails.
// Borrowed until the next call.
void *leaves_for(struct leaves *l, const char *name);

struct tls_contexts;

// `trust`: PEM file of the authorities that hosts are verified with; NULL: those of this system.
struct tls_contexts *tls_contexts_new(struct leaves *leaves, const char *trust, struct err *e);
void tls_contexts_free(struct tls_contexts *t); // the leaves stay

// The same for sessions with an upstream proxy alone. `ca`: PEM of its authorities, in place of
// `trust`; NULL: none.
struct tls_contexts *tls_contexts_for_proxy(const char *ca, const char *trust, struct err *e);

// Begin a session that serves the guest, or that dials a host. `name` is the connection's only
// valid server name, or an address in digits. `name` and `sealed` must outlive the session. Return
// NULL when OpenSSL fails.
struct tls_session *tls_contexts_serve(struct tls_contexts *t, const char *name,
                                       struct buf *sealed);
struct tls_session *tls_contexts_dial(struct tls_contexts *t, const char *name, struct buf *sealed);
