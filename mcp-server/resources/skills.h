// SPDX-License-Identifier: Apache-2.0
// The skills that the program ships: instructions for common tasks, for hosts that load Agent
// Skills over MCP (extension io.modelcontextprotocol/skills, final since September 2026). Each is
// one file, skills/NAME/SKILL.md of the source, and a resource skill://NAME/SKILL.md. Hosts find
// them by skills/list. resources/list does not have them, because some clients make a tool of each
// listed resource.
#pragma once
#include <jansson.h>

#include "mcp-server/resources/resources.h"

#define SKILLS_EXTENSION "io.modelcontextprotocol/skills"
#define SKILLS_TTL_MS    3600000 // they do not change while a program runs

extern const struct resource_source SKILL_FILES;

// Return the entries of all skills, an array: "uri", "frontmatter", and "resources" with size and
// digest of each file. New reference.
json_t *skills_list(void);
// Return the entry of one skill, a new reference; NULL: there is no skill with this URI.
json_t *skills_get(const char *uri);
