// SPDX-License-Identifier: Apache-2.0
// The views of MCP Apps (protocol/apps.h): ui://cubby/figures for code, and ui://cubby/output for
// commands. Each is one page of HTML, made by the Makefile from mcp-server/views. A tool names its
// view in "cubby" of schemas/tools.json. resources/list does not have them, which the extension
// allows.
//
// The result of a tool reaches a view through the host, and may have any bytes that a sandbox
// chose. A view shows them as text, and pictures only as PNG or JPEG. Its policy lets it load
// nothing.
#pragma once
#include "mcp-server/resources/resources.h"

#define VIEWS_TTL_MS 3600000 // they do not change while a program runs

extern const struct resource_source APP_VIEWS;
