// SPDX-License-Identifier: Apache-2.0
// The shipped tools. TOOL_ROWS is made from schemas/tools.json: the tool "x" is tool_x, defined in
// a file of this folder.
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/mem.h"
#include "schemas.h"

#define DECLARE(name) extern const struct tool tool_##name;
#define ROW(name)     &tool_##name,

TOOL_ROWS(DECLARE)

static const struct tool *const SHIPPED[] = {TOOL_ROWS(ROW)};

const struct tool_set TOOLS = {
    .schemas = SCHEMA_tools,
    .schemas_len = sizeof SCHEMA_tools - 1,
    .tools = SHIPPED,
    .count = ARRAY_LEN(SHIPPED),
    .terse = true,
};
