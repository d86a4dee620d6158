// SPDX-License-Identifier: Apache-2.0
// Keys and signed tokens for tests, by libjose.
#pragma once
#include <jansson.h>

// New key pair (a JWK) for an algorithm such as "ES256", or "HS256"; with this kid when not NULL.
json_t *jose_keys_new(const char *algorithm, const char *kid);
// New string: {"keys": [...]} of the public halves. `keys` is an array, borrowed.
char *jose_keys_public(const json_t *keys);
// New string: a JWT. `header` (NULL: only alg and the key's kid) and `claims` are taken.
char *jose_keys_sign(const json_t *key, const char *algorithm, json_t *header, json_t *claims);
