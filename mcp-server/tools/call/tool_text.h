// SPDX-License-Identifier: Apache-2.0
// Descriptions of tools that fit the options of this server.
#pragma once
#include "mcp-server/context/context.h"

// Return a description as clients see it, a new string. In `text`, ${NAME} stands for a value, and
// ${NAME:words} for words that are shown only on a condition:
//
//   ${sandbox_timeout}    the time to live of a new sandbox, in seconds
//   ${command_timeout}    the time limit of a command, in seconds
//   ${default_template:}  sandboxes are made from the template "default" unless a call names one
//   ${TOOL:}              the tool of this name is offered
//
// Words contain no "}".
char *tool_text(struct context *cx, const char *text);
