// SPDX-License-Identifier: Apache-2.0
// Members of request bodies: unknown ones, and those of the network, which are E2B's
// (SandboxNetworkConfig, SandboxNetworkUpdateConfig) or Cubby's own mode, allow, deny and limits
// (base/net_policy.h). Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_policy.h"

// Return whether a value asks for nothing: it is absent, null, {} or [].
bool body_is_empty(const json_t *value);

// Refuse members of `object` (may be NULL) that are not among the names that follow `e`. A client
// that sends one ("denyAll") expects it to work, so it may only be empty. For a known name in
// another spelling ("template_id") the error says the right one. `where`, "" or "network.",
// precedes the names.
#define body_check_members(object, where, e, ...) \
    body__check_members(object, where, (const char *const[]){__VA_ARGS__, NULL}, e)
int body__check_members(const json_t *object, const char *where, const char *const *known,
                        struct err *e);

// Read a policy from `lists` (may be NULL): allowOut and denyOut, or mode, allow and deny; and
// limits. Members that Cubby cannot offer (httpsPorts) are refused; the caller reads rules and
// egressProxy. `where` as above. `special`: allowOut may name private addresses. *out is ended with
// net_policy_fini, and zeroed after a failure.
int body_network(const json_t *lists, const char *where, bool internet, bool special,
                 struct net_policy *out, struct err *e);
// For a sandbox made from a snapshot, whose processes go on: unless `lists` or `internet` set a
// policy, take the one of the snapshot's sandbox (`kept`, from net_policy_to_json). `internet` true
// sets none, as some of E2B's SDKs always send it. *out comes from body_network; limits in `lists`
// stay. Unless the caller `may_widen` that policy, a wider one is ERR_INVALID.
int body_network_keep(const json_t *lists, bool internet, bool special, const json_t *kept,
                      bool may_widen, struct net_policy *out, struct err *e);
// Read maskRequestHost, such as "${PORT}.example:8080"; NULL in *out when absent. Borrowed.
int body_mask_host(const json_t *network, const char **out, struct err *e);
