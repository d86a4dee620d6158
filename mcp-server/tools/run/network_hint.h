// SPDX-License-Identifier: Apache-2.0
// The line that tells a model what the network of its sandbox refused while a command ran, by the
// policy or for a secret. Asking costs one request to the backend, so it is done only for a command
// that failed, or whose output reads like a network error: `apt-get update` exits with 0 even then.
// An ordinary command that succeeds costs nothing.
#pragma once
#include "mcp-server/tools/call/tools.h"

// For a background command, the hint covers refusals from this many seconds before the call on.
#define NETWORK_HINT_BACKGROUND_S 60

// Return whether a text reads as if a connection or a name had been refused. The function knows the
// messages of libc, curl, git, apt, pip, Node.js and Go.
bool network_hint_is_likely(const char *text, size_t len);

// `hint`: new string, which the callee frees, or NULL when nothing was refused or the backend did
// not say. Called once, from the loop, never inside network_hint_ask.
typedef void (*network_hint_cb)(struct tool_call *c, char *hint, void *ctx);
// Ask for the refusals since `before_s` seconds before the start of the call, as the call's step
// (c->op). False: the backend cannot be asked, and `cb` is not called.
bool network_hint_ask(struct tool_call *c, int64_t before_s, network_hint_cb cb, void *ctx);
// Return the line for the refusals in `answer` (client_network) at or after `since_ns` of the
// wall clock; new string, or NULL.
char *network_hint_text(const json_t *answer, int64_t since_ns);
