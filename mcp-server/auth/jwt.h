// SPDX-License-Identifier: Apache-2.0
// JWT access tokens (RFC 7519, RFC 9068): parse a token and check its claims. jwks.h
// verifies its signature.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

#define JWT_BYTES_MAX 16384
#define JWT_LEEWAY_S  60 // allowed difference of clocks, for exp and nbf

// An algorithm and the kind of key that it takes.
struct jwt_algorithm {
    const char *name;  // "ES256"
    const char *type;  // "kty" of its keys
    const char *curve; // "crv", NULL for RSA
};

struct jwt {
    const struct jwt_algorithm *algorithm; // an accepted one: RS, PS or ES; never "none" or HS
    const char *kid;                       // borrowed from `header`; NULL for none
    json_t *header, *claims;               // owned
    json_t *jws;                           // owned: the token in the form that libjose takes
};

// Parse a token, without verifying anything. ERR_UNAUTHENTICATED says what is wrong, in words for
// error_description. After success, call jwt_fini.
int jwt_parse(const char *token, size_t len, struct jwt *out, struct err *e);
void jwt_fini(struct jwt *t);

struct jwt_rules {
    const char *issuer, *audience;
    const struct opt_list *scopes; // all of them are required
};
// Check issuer, audience, times and subject. `now_s`: wall clock. ERR_UNAUTHENTICATED.
int jwt_check_claims(const struct jwt *t, const struct jwt_rules *rules, int64_t now_s,
                     struct err *e);
int jwt_check_scopes(const struct jwt *t, const struct jwt_rules *rules,
                     struct err *e);          // ERR_DENIED
const char *jwt_subject(const struct jwt *t); // borrowed; after jwt_check_claims
int64_t jwt_expiry_s(const struct jwt *t);    // wall clock, with the leeway; after jwt_check_claims

// Return whether this key (a JWK) can sign with the algorithm and is strong enough.
bool jwt_algorithm_takes(const struct jwt_algorithm *a, const json_t *jwk);
