// SPDX-License-Identifier: Apache-2.0
// A call's outcome as the result of tools/call, in the terms of one revision.
#pragma once
#include <jansson.h>

#include "mcp-server/era.h"
#include "mcp-server/tools.h"

// New reference. Content is one text block that is never empty (clients exist that read only the
// last block's text); structuredContent is beside it where the revision and the profile have it.
json_t *result_of(const struct tool_call *c, const struct outcome *o, const struct era *era);

// Marks a result as complete and says who gave it, for a modern era; takes and returns `result`.
json_t *result_stamp(json_t *result, const struct era *era);
