// SPDX-License-Identifier: Apache-2.0
// Why a command may have failed: what was refused to its sandbox on the network meanwhile, by its
// policy or for the sake of a secret, in one line for a model. It is asked for only when something
// failed: one request to the backend, and none to one that knows of no refusals.
#pragma once
#include "mcp-server/tools/tools.h"

// Seconds before a call in which something may have been refused to a command in the background.
#define NETWORK_HINT_BACKGROUND_S 60

// `hint`: new string for the callee, or NULL when nothing was refused, or nothing can be told. From
// the loop, once; never inside the call.
typedef void (*network_hint_cb)(struct tool_call *c, char *hint, void *ctx);
// What was refused since the call began, and `before_s` seconds before that. False: there is nobody
// to ask, and `cb` is not called. It is the call's step (c->op).
bool network_hint_ask(struct tool_call *c, int64_t before_s, network_hint_cb cb, void *ctx);
// The line that `answer` makes (client/network.h) of what was refused at or after `since_ns` of the
// wall clock; new string, or NULL.
char *network_hint_text(const json_t *answer, int64_t since_ns);
