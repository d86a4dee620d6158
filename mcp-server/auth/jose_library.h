// SPDX-License-Identifier: Apache-2.0
// libjose, loaded when it is first wanted: linked, it would cost every start 2 ms and 2.4 MB, as it
// sets OpenSSL up from a constructor, and most processes serve stdio and check no signature.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

int jose_library_load(struct err *e); // ERR_UNAVAILABLE: it is not installed
// Whether the signature of `jws` (RFC 7515, flattened JSON) was made with the private half of
// `jwk`. Says nothing of the algorithm: the caller has chosen what he takes. After a load that was
// fine.
bool jose_library_verify(const json_t *jws, const json_t *jwk);
