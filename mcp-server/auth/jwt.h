// SPDX-License-Identifier: Apache-2.0
// A JWT access token (RFC 7519, RFC 9068): read, held against the rules, and its signature checked.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

#define JWT_BYTES_MAX 16384
#define JWT_LEEWAY_S  60 // of exp and nbf: clocks differ

// How an algorithm is written and the key that it takes.
struct jwt_algorithm {
    const char *name;  // "ES256"
    const char *type;  // "kty" of its keys
    const char *curve; // "crv", NULL for RSA
};

struct jwt {
    const struct jwt_algorithm
        *algorithm;          // one of those that are taken: RS, PS, ES; never none or HS
    const char *kid;         // borrowed from `header`; NULL for none
    json_t *header, *claims; // owned
    json_t *jws;             // owned: the same, as libjose takes it
};

// Nothing is verified yet. ERR_UNAUTHENTICATED says what is wrong, for error_description.
int jwt_parse(const char *token, size_t len, struct jwt *out, struct err *e);
void jwt_fini(struct jwt *t);

struct jwt_rules {
    const char *issuer, *audience;
    const struct opt_list *scopes; // all of them are wanted
};
// Issuer, audience, time, subject. `now_s`: wall clock.
int jwt_check_claims(const struct jwt *t, const struct jwt_rules *rules, int64_t now_s,
                     struct err *e);
int jwt_check_scopes(const struct jwt *t, const struct jwt_rules *rules,
                     struct err *e);          // ERR_DENIED
const char *jwt_subject(const struct jwt *t); // borrowed; after jwt_check_claims
int64_t jwt_expiry_s(const struct jwt *t);    // with the leeway; after jwt_check_claims

// Whether a key (a JWK) may have signed tokens of this algorithm.
bool jwt_algorithm_takes(const struct jwt_algorithm *a, const json_t *jwk);
// After jose_library_load.
bool jwt_verify(const struct jwt *t, const json_t *jwk);
