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
// For what is made from a snapshot: unless `lists` or `internet` say what it may open, that is what
// the snapshot's sandbox might (`kept`, as net_policy_to_json has it), as its processes go on.
// `internet` true says nothing, as it is what some of E2B's SDKs always send. *out is from
// network_body_policy; limits in `lists` stay.
int network_body_keep(const json_t *lists, bool internet, bool special, const json_t *kept,
                      struct net_policy *out, struct err *e);
// "${PORT}.example:8080": NULL in *out when absent. Borrowed.
int network_body_mask(const json_t *network, const char **out, struct err *e);
