// SPDX-License-Identifier: Apache-2.0
// The wishes with which a caller created a sandbox that has a name. They are in the sandbox's
// metadata, and a later call with the name is compared with them.
#pragma once
#include "mcp-server/tools/call/tools.h"

#define NAMED_SPEC_KEY "cubby-spec" // metadata: the spec as JSON

// Return the spec of a sandbox that the call creates; new reference.
json_t *named_spec_new(const struct tool_call *c, const char *template);
// Return the spec of a sandbox of the backend's list, a new reference; NULL: it has none.
json_t *named_spec_in(const json_t *info);
// Return the first argument of the call that asks for something else than the sandbox `info` of the
// backend's list has, and in *what the words for it; static. NULL: it has what is asked for.
const char *named_spec_other(const struct tool_call *c, const json_t *info, const char **what);
