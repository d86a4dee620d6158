// SPDX-License-Identifier: Apache-2.0
// The Authorization header, and the WWW-Authenticate header that answers it (RFC 6750, RFC 9728).
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// Find the token of "Bearer <token>"; *token points into `header`. False for any other value.
bool bearer_parse(const char *header, const char **token, size_t *len);

// Append the value of WWW-Authenticate. A parameter that is NULL is left out.
void bearer_challenge(struct buf *out, const char *error, const char *description,
                      const char *scope, const char *metadata_url);
