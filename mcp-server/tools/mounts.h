// SPDX-License-Identifier: Apache-2.0
// Directories of the host that create_sandbox mounts: those of --mount in each new sandbox, and
// those that a model names, which must lie in a directory of --allow-mount.
#pragma once
#include <jansson.h>

#include "mcp-server/tools/call/tools.h"

// Return the mounts of the sandbox that the call wants, {"source", "target", "readOnly"} each. New
// reference. NULL with `e`: a directory that the operator does not allow, or that is missing.
json_t *mounts_wanted(const struct tool_call *c, struct err *e);
// Mount them in a new sandbox, one after the other. Takes `wanted`. `done` is called once, from the
// loop, with `info` again, which is borrowed for that call. It uses c->op and c->state.
void mounts_make(struct tool_call *c, const json_t *info, json_t *wanted,
                 void (*done)(struct tool_call *c, const json_t *info, const struct err *e));
// Return a sentence for a model about what the sandbox shows; new string, empty if it is nothing.
char *mounts_hint(const json_t *wanted);
