// SPDX-License-Identifier: Apache-2.0
// A file in a sandbox that a tool is to read: where its path leads, and why it cannot be read.
#pragma once
#include "mcp-server/tools/tools.h"

// Makes the call's argument `path` absolute, as the call's user means it; then `then`, from the
// loop or at once. `what` is static: "read the file". tool_call_client must have been called.
void guest_file_find(struct tool_call *c, const char *what, void (*then)(struct tool_call *c));
// Ends the call for what client_read or Stat gave for its path: file_not_found, is_a_directory,
// not_a_file, or what else e says. Copies *e.
void guest_file_fail(struct tool_call *c, const char *what, const struct err *e);
