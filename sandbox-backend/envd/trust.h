// SPDX-License-Identifier: Apache-2.0
// A certificate authority that this guest trusts beside those of its system (E2B's caBundle): what
// puts secrets into its requests signs with it.
#pragma once
#include "sandbox-backend/base/err.h"

#define TRUST_BUNDLE      "/etc/ssl/certs/ca-certificates.crt"
#define TRUST_CERTIFICATE "/usr/local/share/ca-certificates/cubby-sandbox.crt"
#define TRUST_DEFAULT     "/usr/lib/ssl/cert.pem" // where OpenSSL looks when it is told nothing
#define TRUST_MAX_BYTES   65536                   // of certificates in PEM form

// ERR_INVALID: that is no certificate in PEM form.
int trust_check(const char *pem, struct err *e);
// The system's bundle gets these certificates in place of those that an earlier call put there, and
// a file of their own has them alone; "": none. Files are below `root`, "" but in tests.
int trust_install(const char *root, const char *pem, struct err *e);
