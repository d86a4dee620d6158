// SPDX-License-Identifier: Apache-2.0
// The bearer tokens in force, as the file has them: a changed file is read again when a token is
// next asked for, at most once a second. One that is broken changes nothing, and is complained of.
#pragma once
#include <stdint.h>

#include "mcp-server/auth/caller.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

struct tokens;

// Limits are those of tokens that name none. `path` is copied. NULL with what is wrong with the
// file.
struct tokens *tokens_new(const char *path, int64_t max_sandboxes, int64_t calls_per_minute,
                          struct err *e);
void tokens_free(struct tokens *t); // NULL is fine

// When it is time to: reads a changed file, revokes the callers whose tokens have expired.
void tokens_refresh(struct tokens *t, int64_t now_ms);

// The caller of a token with this hash, borrowed, and until when the token is good (auth_answer).
// NULL when there is none (*until_ns is INT64_MAX), or when it has expired (*until_ns is when).
// `now_ms`: of the monotonic clock.
struct caller *tokens_find(struct tokens *t, const struct sha256 *digest, int64_t now_ms,
                           int64_t *until_ns);
