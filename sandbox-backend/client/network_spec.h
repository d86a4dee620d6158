// SPDX-License-Identifier: Apache-2.0
// The network policy of a sandbox as a person gives it on a command line.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

// `what`: "none", "public", "allow", or a file with the policy as JSON ({"mode": "allow", "allow":
// [...], ...}); NULL: "allow" when there is something in `allow`, else "public". `allow` and `deny`
// are lists of entries (net_rule.h), which are added to those of the file; borrowed, NULL for none.
// New reference, {"mode", "allow", "deny", ...}; NULL in *out when nothing is given at all.
int network_spec(json_t **out, const char *what, const json_t *allow, const json_t *deny,
                 struct err *e);
