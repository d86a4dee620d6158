// SPDX-License-Identifier: Apache-2.0
// A change of a running sandbox's network: its policy, and its header rules.
//
// 1. If the guest does not know the sandbox's certificate authority yet, send it (POST /init), with
//    the variables that name its bundle. Programs that run already and have read another bundle do
//    not trust it.
// 2. Give the machine the policy and, if the rules change, a new configuration of cubby-egress.
// 3. Keep both in the sandbox and in its record.
//
// A failure changes nothing, except that the guest may trust the authority, whose key is then lost.
// After a failure of step 2 it is not known what netd has: the policy of the record is sent again,
// and the next change sends all (network_unknown). Changes are made in their order. A later one
// ends one that still waits for the guest, since the guest chooses how long that takes.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_policy.h"

struct sandbox;

// Called once, from the loop, after the change or its failure. ERR_GONE: the sandbox ended before.
typedef void (*network_change_cb)(const struct err *e, void *ctx);

// Start the change of a sandbox that is RUNNING. `policy` and `secrets` are taken in any case.
// `secrets` (secrets.h) replaces the sandbox's, and may be the same object. On failure, -1, the
// callback is not called.
int network_change_start(struct sandbox *sb, struct net_policy *policy, json_t *secrets,
                         network_change_cb cb, void *ctx, struct err *e);
// Return the secrets that the sandbox will have after the changes that the machine has been asked
// for. Borrowed.
json_t *network_change_secrets(const struct sandbox *sb);
void network_change_cancel(struct sandbox *sb); // the sandbox ends (ending.c)
