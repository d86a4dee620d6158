// SPDX-License-Identifier: Apache-2.0
// A Start or Connect call that follows a process: events as stream messages, keepalives, the
// deadline of Connect-Timeout-Ms.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/envd/process.h"
#include "sandbox-backend/envd/rpc.h"

// Says "start", then output as it comes, then the end. The call's deadline ends the call (Connect);
// that of the call that `started` the process is the process's own limit, which ends both. The call
// is the follower's from here on.
void follower_new(struct rpc *call, struct process *p, bool started);
