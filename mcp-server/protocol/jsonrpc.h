// SPDX-License-Identifier: Apache-2.0
// JSON-RPC 2.0 messages as MCP uses them. Pure: values in, values out, no I/O.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define RPC_ID_BYTES_MAX 256 // longest string taken as a request's id

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_RESOURCE_NOT_FOUND = -32002,  // MCP up to 2025-11-25, server/resources
    RPC_HEADER_MISMATCH = -32020,     // MCP 2026-07-28, basic/transports
    RPC_MISSING_CAPABILITY = -32021,  // MCP 2026-07-28, basic/versioning
    RPC_UNSUPPORTED_VERSION = -32022, // the same
};

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE, RPC_INVALID };

// All pointers are borrowed from the value that was read.
struct rpc_message {
    enum rpc_kind kind;
    json_t *id;          // string or integer; NULL for a notification or when it cannot be read
    const char *method;  // requests and notifications; never holds a NUL
    bool nul_in_method;  // the method contained a NUL; `method` is then ""
    json_t *params;      // of any type; NULL when absent
    const char *problem; // RPC_INVALID: what is wrong
};

void rpc_read(json_t *value, struct rpc_message *out);

// Return the id of a message that is not valid JSON, so that the peer learns which request failed:
// for an object with one "id" that is complete except for the contents of its strings. New
// reference, or NULL.
json_t *rpc_salvage_id(const char *data, size_t len);

// Make a message to send; new reference. `id` is borrowed. NULL leaves it out, which is how MCP
// answers an unreadable message ("id": null is legal in no revision). `result`, `params` and `data`
// are taken; `data` may be NULL.
json_t *rpc_result(json_t *id, json_t *result);
json_t *rpc_error(json_t *id, int code, const char *message, json_t *data);
json_t *rpc_notification(const char *method, json_t *params);
