// SPDX-License-Identifier: Apache-2.0
// The valid bearer tokens of a file. The file is looked at when a token is looked up, once a second
// at most, and read again after a change. A malformed file is logged, and the old tokens stay.
#pragma once
#include <stdint.h>

#include "mcp-server/auth/caller.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

struct tokens;

// Read the file. The limits are for tokens that have none of their own. `path` is copied. Return
// NULL with the fault of the file.
struct tokens *tokens_new(const char *path, int64_t max_sandboxes, int64_t calls_per_minute,
                          struct err *e);
void tokens_free(struct tokens *t); // NULL is fine

// Read the file if it has changed. Revoke the callers whose tokens were removed or have expired.
void tokens_refresh(struct tokens *t, int64_t now_ms);

// Return the caller of the token with this hash, borrowed, and the end of the token in *until_ns
// (as in auth_answer). Return NULL for an unknown token (*until_ns is INT64_MAX) or an expired one.
// `now_ms`: monotonic clock.
struct caller *tokens_find(struct tokens *t, const struct sha256 *digest, int64_t now_ms,
                           int64_t *until_ns);
