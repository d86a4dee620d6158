// SPDX-License-Identifier: Apache-2.0
// Signatures of URLs: whoever holds the access token can make one that reads or writes one path
// without the token (E2B's "v1" form).
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct signature_claim {
    const char *path;      // as the query says it; "" when it does not
    const char *operation; // "read" or "write"
    const char *username;  // as the query says it; "" when it does not
    const char *expires;   // decimal seconds since 1970; NULL: never
};

#define SIGNATURE_BYTES 47 // "v1_", 43 characters of base64, NUL

void signature_make(char out[SIGNATURE_BYTES], const struct signature_claim *claim,
                    const char *token);
// Whether `given` (NULL: none) signs the claim: ERR_UNAUTHENTICATED, or ERR_INVALID for a time that
// is no number.
int signature_check(const char *given, const struct signature_claim *claim, const char *token,
                    int64_t now_s, struct err *e);
