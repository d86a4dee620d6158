// SPDX-License-Identifier: Apache-2.0
// A call's outcome as the result of tools/call, in the terms of one revision.
#pragma once
#include <jansson.h>

#include "mcp-server/protocol/era.h"
#include "mcp-server/tools/tools.h"

// New reference. There is a text that is never empty, unless the tool gives blocks alone: after
// images, as clients exist that read the last block only, and before links, as others read the
// first. structuredContent is beside them where the revision and the profile have it.
json_t *result_of(const struct tool_call *c, const struct outcome *o, const struct era *era);

// A content block as `era` knows it: what it does not know becomes a text. New reference.
json_t *result_block(json_t *block, const struct era *era);

// Marks a result as complete, unless it says what it is, and says who gave it, for a modern era;
// takes and returns `result`.
json_t *result_stamp(json_t *result, const struct era *era);
