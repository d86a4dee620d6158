// SPDX-License-Identifier: Apache-2.0
// The limit of live sandboxes of a caller (caller->max_sandboxes). Before a creation, the quota
// asks the backend how many there are. Concurrent creations of this process are counted exactly;
// two processes that serve the same tokens do not count each other's.
#pragma once
#include "mcp-server/tools/call/tools.h"

// Ask for `count` sandboxes. on_granted is called, at once or from the loop; or the call fails with
// limit_reached, and is freed. Uses c->state until quota_release.
void quota_take(struct tool_call *c, int64_t count, void (*on_granted)(struct tool_call *c));
// End the creation, successful or not, before the call ends.
void quota_release(struct tool_call *c);
