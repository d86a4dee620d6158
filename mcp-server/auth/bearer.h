// SPDX-License-Identifier: Apache-2.0
// The Authorization header, and the WWW-Authenticate header that answers it (RFC 6750, RFC 9728).
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// The token of "Bearer <token>", borrowed from `header`; false for anything else.
bool bearer_parse(const char *header, const char **token, size_t *len);

// Appends the value of WWW-Authenticate. Each part but the first may be NULL for none.
void bearer_challenge(struct buf *out, const char *error, const char *description,
                      const char *scope, const char *metadata_url);
