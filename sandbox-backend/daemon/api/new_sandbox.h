// SPDX-License-Identifier: Apache-2.0
// The body of a create request (E2B's NewSandbox and NewSandboxV2) as a create_spec. Pure but for
// reading the template.
//
// Members: templateID, timeout, metadata, envVars, mcp, secure (v1), autoPause, autoResume,
// allow_internet_access, network's allowOut, denyOut, allowPublicTraffic and maskRequestHost, and
// Cubby's own "sliding" (requests through the proxy move the end time to now + timeout), "idle"
// (pause.h), "secrets" (secrets.h), "cpuCount", "memoryMB", "diskSizeMB", "tier" (tier.h; also the
// metadata "cubby.tier"), and "noWiderNetwork": the network must not be wider than the snapshot's,
// as for every caller with an API key. What Cubby cannot offer is refused, unless its value asks
// for nothing. Unknown members are refused too.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/sandbox/create.h"

struct store;

#define NEW_METADATA_BYTES 65536  // of names and values, which are kept and listed
#define NEW_ENV_BYTES      524288 // of names and values
// Of the whole body: these, the network's rules, and as much again for the JSON around them.
#define NEW_BODY_BYTES 2097152
#define NEW_VALUES_MAX 16384 // JSON values; each one costs more than its text

// Read `body` into `out`, which borrows metadata, env, mcp and maskRequestHost from it. End `out`
// with create_spec_fini, also after a failure. out->owner is set before the call, and limits which
// snapshots are found (NULL: all).
int new_sandbox_parse(const struct store *store, const json_t *body, bool v2,
                      struct create_spec *out, struct err *e);
// Read "timeout", the seconds to live of a new sandbox; within the daemon's limit.
int new_sandbox_timeout(const struct store *store, const json_t *body, int64_t fallback,
                        int64_t *out, struct err *e);
