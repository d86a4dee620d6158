// SPDX-License-Identifier: Apache-2.0
// The routes /files and /files/compose. Each function takes over the request. `basic` is the user
// name from Authorization: Basic, NULL without that header. These routes check access themselves:
// by the access token or, for /files, by a signature of the URL.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/core/envd.h"

// GET, HEAD and POST /files: whole files in and out, streamed.
void files_serve(struct envd *envd, struct http_request *req, const char *basic);
// POST /files/compose: several files into one.
void files_serve_compose(struct envd *envd, struct http_request *req, const char *basic);

// ---- signatures of URLs (E2B's "v1" form)
// The holder of the access token can sign a URL that reads or writes one path without the token.

struct signature_claim {
    const char *path;      // from the query; "" if it is absent
    const char *operation; // "read" or "write"
    const char *username;  // from the query; "" if it is absent
    const char *expires;   // decimal seconds since 1970; NULL: never
};

#define SIGNATURE_BYTES 47 // "v1_", 43 characters of base64, NUL

void signature_make(char out[SIGNATURE_BYTES], const struct signature_claim *claim,
                    const char *token);
// Check that `given` (NULL: absent) signs the claim. ERR_UNAUTHENTICATED if not, ERR_INVALID if
// `expires` is not a number.
int signature_check(const char *given, const struct signature_claim *claim, const char *token,
                    int64_t now_s, struct err *e);
