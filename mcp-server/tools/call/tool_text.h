// SPDX-License-Identifier: Apache-2.0
// Descriptions of tools that fit the options of this server and the limits of the caller.
#pragma once
#include "mcp-server/context/context.h"

// Return a description as the caller sees it, a new string. In `text`, ${NAME} stands for a value,
// and ${NAME:words} for words that are shown only on a condition:
//
//   ${sandbox_timeout}    the time to live of a new sandbox of this caller, in seconds
//   ${command_timeout}    the time limit of a command, in seconds
//   ${default_template:}  sandboxes are made from the template "default" unless a call names one
//   ${TOOL:}              the tool of this name is offered
//
// Words contain no "}".
char *tool_text(struct context *cx, const struct caller *caller, const char *text);
