// SPDX-License-Identifier: Apache-2.0
// MCP Apps (extension io.modelcontextprotocol/ui, revision 2026-01-26): a host shows the result of
// a tool in a view, a page of HTML that the server gives as the resource ui://cubby/NAME. A client
// that does not say that it shows such pages sees nothing of them.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/protocol/exchange.h"

#define APPS_EXTENSION  "io.modelcontextprotocol/ui"
#define APPS_MIME_TYPE  "text/html;profile=mcp-app"
#define APPS_URI_PREFIX "ui://cubby/"

// Return whether the capability "extensions" of a client (may be NULL) says that it shows views.
bool apps_are_declared(const json_t *extensions);
// Return whether the client of this request says so.
bool apps_are_wanted(const struct exchange *x);
