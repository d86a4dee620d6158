// SPDX-License-Identifier: Apache-2.0
// Everything that this program offers to its clients.
#include "mcp-server/context/catalog.h"

#include "mcp-server/resources/prompts.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/resources/skills.h"
#include "mcp-server/resources/views.h"
#include "mcp-server/tools/call/tools.h"

const struct catalog CATALOG = {
    .tools = {&TOOLS},
    .prompts = {&PROMPTS},
    .resources = {&SANDBOX_FILES, &SKILL_FILES, &APP_VIEWS},
};
