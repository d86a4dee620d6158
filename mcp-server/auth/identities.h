// SPDX-License-Identifier: Apache-2.0
// The callers that were made of subjects of an issuer, one each, so that a rate counts for all of a
// subject's tokens. Bounded: those that were not seen for a minute, whose bucket is full again
// and who have nothing open, make room for others.
#pragma once
#include "mcp-server/auth/caller.h"
#include "sandbox-backend/keys/sha256.h"

struct identities;
struct identities *identities_new(int64_t max_sandboxes, int64_t calls_per_minute);
void identities_free(struct identities *ids);

// `who`: the hash of issuer and subject. Borrowed until the next call; NULL: there are too many.
struct caller *identities_get(struct identities *ids, const struct sha256 *who, int64_t now_ms);
