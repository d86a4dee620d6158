// SPDX-License-Identifier: Apache-2.0
// A set of public keys (RFC 7517).
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/auth/jwt.h"
#include "sandbox-backend/base/err.h"

#define JWKS_BYTES_MAX (256 << 10)
#define JWKS_KEYS_MAX  100

// New array of those keys that can have signed a token; others, and what is no key, are left out.
// NULL: it is not a key set.
json_t *jwks_parse(const char *text, size_t len, struct err *e);

enum jwks_verdict {
    JWKS_GOOD,
    JWKS_BAD,         // there is a key with this kid, and the signature is not of it
    JWKS_UNKNOWN_KEY, // newer keys may know it
};
enum jwks_verdict jwks_verify(const json_t *keys, const struct jwt *t);
