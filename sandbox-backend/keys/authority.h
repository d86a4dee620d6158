// SPDX-License-Identifier: Apache-2.0
// Creation of the certificate authority of one sandbox, which cubby-egress uses
// (egress/tls_context.h).
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct authority {
    char *certificate; // owned; PEM
    char *key;         // owned; PEM; wiped by authority_fini
};

// Make an EC key on P-256 and a self-signed certificate, which may only sign certificates of TLS
// servers. ERR_INTERNAL when OpenSSL fails; call authority_fini after success.
int authority_make(struct authority *a, const char *common_name, struct err *e);
void authority_fini(struct authority *a);

bool authority_is_certificates(const char *pem); // one certificate or more
