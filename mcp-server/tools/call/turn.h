// SPDX-License-Identifier: Apache-2.0
// Calls that use the same thing, such as a named shell or a file, start in the order in which they
// came. Models send several calls of one turn without waiting for answers.
//
// Only calls of this process are ordered. A call that has waited too long starts anyway, and the
// sandbox decides whether it may run, as for calls of other processes.
#pragma once
#include <stdint.h>

struct tool_call;

// Call `go` once it is the call's turn: at once if no earlier call uses the thing, else from the
// loop after the earlier ones have ended, or after limit_ms, or when the call is cancelled. key:
// the thing, copied. A call takes one turn.
void turn_take(struct tool_call *c, const char *key, uint64_t limit_ms,
               void (*go)(struct tool_call *c));
// End the call's turn, if it has one.
void turn_end(struct tool_call *c);
