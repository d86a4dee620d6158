// SPDX-License-Identifier: Apache-2.0
// The body of a create request (E2B's NewSandbox and NewSandboxV2) as a create_spec. Pure but for
// the look at the template.
//
// Honoured: templateID, timeout, metadata, envVars, secure (v1), autoPause, autoResume,
// allow_internet_access, network's allowOut, denyOut, allowPublicTraffic and maskRequestHost, and
// Cubby's own "sliding" (requests through the proxy move the end to now + timeout), "idle"
// (idle.h) and "secrets" (secrets.h). What cannot be
// had is refused, never ignored, unless it is asked for with the value that changes nothing.
// Members that nobody knows are ignored, but for misspelt ones (near_miss.h).
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/create.h"

struct store;

#define NEW_METADATA_BYTES 65536  // of names and values; they are kept and listed
#define NEW_ENV_BYTES      524288 // of names and values
// Of the whole body: these and the network's rules, and as much again for how JSON puts them down.
#define NEW_BODY_BYTES 2097152
#define NEW_VALUES_MAX 16384 // of its values; each one costs more than its text

// `out` borrows metadata, env and maskRequestHost from `body`; it is ended with create_spec_fini,
// also after a failure. The owner is not set; snapshots are looked for among those of out->owner as
// it was before (NULL: all).
int new_sandbox_parse(const struct store *store, const json_t *body, bool v2,
                      struct create_spec *out, struct err *e);
