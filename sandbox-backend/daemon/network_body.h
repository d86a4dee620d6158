// SPDX-License-Identifier: Apache-2.0
// The network fields of a request: E2B's (SandboxNetworkConfig, SandboxNetworkUpdateConfig), or
// Cubby's own mode, allow, deny and limits (base/net_policy.h). Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_policy.h"

// `lists` has allowOut and denyOut, or mode, allow and deny; limits, and what cannot be had
// (egressProxy, rules, httpsPorts), may be NULL; `where` is what stands in front of these names in
// messages: "network." or "". `special`: allowOut may name private addresses. *out is
// net_policy_fini's, zeroed after a failure.
int network_body_policy(const json_t *lists, const char *where, bool internet, bool special,
                        struct net_policy *out, struct err *e);
// "${PORT}.example:8080": NULL in *out when absent. Borrowed.
int network_body_mask(const json_t *network, const char **out, struct err *e);
