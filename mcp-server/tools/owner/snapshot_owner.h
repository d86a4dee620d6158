// SPDX-License-Identifier: Apache-2.0
// Decide which caller may use which snapshot. A snapshot belongs to the owner of its sandbox, see
// owner.h; cubbyd lists a snapshot with its sandbox's metadata. Other servers do not, so there a
// named caller may use only the snapshots that it has made through this process. To other callers
// the snapshot does not exist.
#pragma once
#include <stdbool.h>

#include "mcp-server/tools/call/tools.h"

// Remember a snapshot that this call's caller has just made.
void snapshot_owner_note(const struct tool_call *c, const char *id);
// Return whether `info`, an entry of the list of snapshots, belongs to the caller.
bool snapshot_owner_is_of(const struct tool_call *c, const json_t *info);

// Call `then`, at once or from the loop, if the caller may use the snapshot `wanted` (an id or a
// name; borrowed from the arguments); otherwise the call fails. With `or_template`, a name that is
// not a snapshot passes, and the backend judges it.
void snapshot_owner_check(struct tool_call *c, const char *wanted, bool or_template,
                          void (*then)(struct tool_call *c));
// End the call with the error that there is no such snapshot.
void snapshot_owner_fail(struct tool_call *c, const char *wanted);
