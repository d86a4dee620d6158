// SPDX-License-Identifier: Apache-2.0
// Checks headers that repeat parts of the body (MCP 2026-07-28, basic/transports). With them,
// programs between a client and the server need not read bodies, so headers and body must agree. No
// side effects.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/protocol/jsonrpc.h"
#include "mcp-server/web/web_head.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// Decode a header's value: plain visible ASCII, or "=?base64?<UTF-8 in base64>?=". False: it is
// neither, and `out` is not valid.
bool web_mirror_decode(const char *value, struct buf *out);

// Check that MCP-Protocol-Version and Mcp-Method are there, and Mcp-Name where the method has one,
// and that all agree with the body. Return -1 with `e` otherwise.
int web_mirror_check(const struct web_head *h, const struct rpc_message *m, struct err *e);

// Check Mcp-Param-* in the same way: each argument whose property in `input_schema` has
// "x-mcp-header".
int web_mirror_check_params(const struct web_head *h, const json_t *input_schema,
                            const json_t *arguments, struct err *e);
