// SPDX-License-Identifier: Apache-2.0
// Certificates for the names that a guest connects to, signed by the sandbox's own authority.
#pragma once
#include "sandbox-backend/base/err.h"

struct leaves;

// Both as PEM. One key for all leaves is drawn here.
struct leaves *leaves_new(const char *ca_certificate, const char *ca_key, struct err *e);
void leaves_free(struct leaves *l);

// The certificate (an X509) for a name, or an address in digits; made when it is needed first, and
// kept for the EGRESS_LEAVES_MAX used last. NULL when OpenSSL cannot. Borrowed until the next call.
void *leaves_for(struct leaves *l, const char *name);
void *leaves_key(const struct leaves *l); // of all of them (an EVP_PKEY). Borrowed
