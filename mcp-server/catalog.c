// SPDX-License-Identifier: Apache-2.0
// Everything that this program offers to its clients.
#include "mcp-server/catalog.h"

#include "mcp-server/resources/prompts.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/tools/tools.h"

const struct catalog CATALOG = {
    .tools = {&TOOLS},
    .prompts = {&PROMPTS},
    .resources = {&SANDBOX_FILES},
};
