// SPDX-License-Identifier: Apache-2.0
// Headers that repeat what the body says (MCP 2026-07-28, basic/transports), so that what stands
// between a client and the server need not read bodies; here they must agree. Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/protocol/jsonrpc.h"
#include "mcp-server/web/web_head.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// A header's value as it was before it was made fit for a header: plain visible ASCII, or
// "=?base64?<UTF-8 in base64>?=". False: it is neither; nothing is to be made of `out` then.
bool web_mirror_decode(const char *value, struct buf *out);

// MCP-Protocol-Version and Mcp-Method are there, Mcp-Name too where the method has one, and all
// are what the body says. -1: `e` says what is not.
int web_mirror_check(const struct web_head *h, const struct rpc_message *m, struct err *e);

// The same for Mcp-Param-*: each argument whose property in `input_schema` has "x-mcp-header".
int web_mirror_check_params(const struct web_head *h, const json_t *input_schema,
                            const json_t *arguments, struct err *e);
