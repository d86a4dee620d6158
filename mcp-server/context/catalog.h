// SPDX-License-Identifier: Apache-2.0
// Everything that this program offers to its clients. A program is linked with one definition of
// CATALOG: mcp-server/catalog.c for the shipped program, tests/fixtures/catalog.c for the program
// that also has what the protocol's conformance suite asks for.
#pragma once
#include <stdbool.h>

#define CATALOG_SETS_MAX 4

struct tool_set;        // tools.h
struct prompt_set;      // prompts.h
struct resource_source; // resources.h

// Lists that can change while the program runs; see subscriber_list_changed.
enum catalog_list { CATALOG_TOOLS, CATALOG_PROMPTS, CATALOG_RESOURCES, CATALOG_LISTS };

struct catalog {
    const struct tool_set *tools[CATALOG_SETS_MAX + 1]; // each list ends with NULL
    const struct prompt_set *prompts[CATALOG_SETS_MAX + 1];
    const struct resource_source *resources[CATALOG_SETS_MAX + 1];
    bool changes[CATALOG_LISTS]; // advertised as listChanged
};

extern const struct catalog CATALOG;
