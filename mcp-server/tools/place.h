// SPDX-License-Identifier: Apache-2.0
// Where in a sandbox a file goes that is uploaded or downloaded.
#pragma once
#include "mcp-server/tools/tools.h"

// `wanted` is a directory when it ends in '/' or its last component has no extension; else it is a
// directory if it is one in the sandbox, and else the file's own path. The directory gets `name`
// appended. `path` is a new string. on_found may come inside this call.
void place_find(struct tool_call *c, const char *wanted, const char *name,
                void (*on_found)(struct tool_call *c, char *path, void *ctx), void *ctx);
