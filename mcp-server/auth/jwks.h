// SPDX-License-Identifier: Apache-2.0
// A set of public keys (RFC 7517), and the check of a signature.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/auth/jwt.h"
#include "sandbox-backend/base/err.h"

#define JWKS_BYTES_MAX (256 << 10)
#define JWKS_KEYS_MAX  100

// Return a new array of the keys that can sign tokens: RSA and EC keys that are not for encryption,
// JWKS_KEYS_MAX at most. NULL with an error when the text is not a key set.
json_t *jwks_parse(const char *text, size_t len, struct err *e);

enum jwks_verdict {
    JWKS_GOOD,
    JWKS_BAD,         // none of the keys that the token can mean has made the signature
    JWKS_UNKNOWN_KEY, // the key is not in this set; a newer set may have it
};
// Check the token's signature against the keys.
enum jwks_verdict jwks_verify(const json_t *keys, const struct jwt *t);

// ---- libjose, loaded at its first use. Linked, it would cost every start 2 ms and 2.4 MB, because
// its constructor sets OpenSSL up, and most processes serve stdio and check no signature.

int jwks_load_library(struct err *e); // ERR_UNAVAILABLE: libjose is not installed, or incomplete
// Return whether the token's signature was made with this key. Call it after a successful load.
bool jwks_verify_with(const struct jwt *t, const json_t *jwk);
