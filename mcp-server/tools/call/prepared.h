// SPDX-License-Identifier: Apache-2.0
// A call that comes while this computer is being prepared (context/prepare.h) waits for a while,
// and then answers with what is still being prepared. So no client hangs.
#pragma once

struct tool_call;

// Call `go` once sandboxes can be made here: at once without a preparation. Otherwise the call
// fails, with "preparing" if it has waited too long, or with "not_prepared" and the reason.
void prepared_take(struct tool_call *c, void (*go)(struct tool_call *c));
