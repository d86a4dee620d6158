// SPDX-License-Identifier: Apache-2.0
// Whether a caller may use a snapshot: as its sandbox was the caller's, see owner.h. cubbyd says of
// a snapshot which metadata its sandbox had. Where the server says nothing of the kind, and not
// everybody may use everything, a snapshot is only for who made it through this process. Somebody
// else's is like one that does not exist.
#pragma once
#include <stdbool.h>

#include "mcp-server/tools/tools.h"

// What this call's caller has just made.
void snapshot_owner_note(const struct tool_call *c, const char *id);
// Whether `info`, of the list of snapshots, is the caller's.
bool snapshot_owner_is_of(const struct tool_call *c, const json_t *info);

// Goes on with `then`, at once or from the loop, if the caller may use the snapshot `wanted` (an id
// or a name; borrowed from the arguments); else the call fails. With `or_template` it may also be
// anything that is no snapshot, which is the backend's to judge.
void snapshot_owner_check(struct tool_call *c, const char *wanted, bool or_template,
                          void (*then)(struct tool_call *c));
// The call fails: there is no such snapshot.
void snapshot_owner_fail(struct tool_call *c, const char *wanted);
