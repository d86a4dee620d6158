// SPDX-License-Identifier: Apache-2.0
// A caller's limit of sandboxes that are alive at once (caller->max_sandboxes), kept by asking the
// backend how many there are before another is made. Creations side by side, of this process, are
// counted exactly; two processes that serve the same tokens do not know of each other's.
#pragma once
#include "mcp-server/tools/tools.h"

// For `count` sandboxes: on_granted, at once or from the loop; or the call fails with
// limit_reached, and is gone. Uses c->state until quota_release.
void quota_take(struct tool_call *c, int64_t count, void (*on_granted)(struct tool_call *c));
// The creation has ended, well or not: before the call is.
void quota_release(struct tool_call *c);
