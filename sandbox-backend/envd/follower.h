// SPDX-License-Identifier: Apache-2.0
// A Start or Connect call that follows a process: events as stream messages, keepalives, the
// deadline of Connect-Timeout-Ms.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/envd/process.h"
#include "sandbox-backend/envd/rpc.h"

// Says "start", then output as it comes, then the end. With `kills`, the call's deadline ends the
// process (Start); without, only the call (Connect). The call is the follower's from here on.
void follower_new(struct rpc *call, struct process *p, bool kills);
