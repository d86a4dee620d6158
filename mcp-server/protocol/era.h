// SPDX-License-Identifier: Apache-2.0
// The revisions of the protocol: what each can carry, and which one a request uses.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/protocol/jsonrpc.h"

#define META_PREFIX       "io.modelcontextprotocol/"
#define META_VERSION      META_PREFIX "protocolVersion"
#define META_CAPABILITIES META_PREFIX "clientCapabilities"
#define META_CLIENT       META_PREFIX "clientInfo"
#define META_LOG_LEVEL    META_PREFIX "logLevel"
#define META_SERVER       META_PREFIX "serverInfo"
#define META_SUBSCRIPTION META_PREFIX "subscriptionId"

struct era {
    const char *version;
    bool modern;           // stateless, `_meta` on each request (2026-07-28 on)
    bool batches;          // arrays of messages
    bool annotations;      // of tools
    bool structured;       // title, outputSchema, structuredContent
    bool progress_message; // text in notifications/progress
    bool audio;            // content blocks of that type
    bool resource_link;    // content blocks of that type
    bool icons;            // of tools, prompts, resources and the server
    bool completions;      // advertised as a capability
    bool extensions;       // a member of the capabilities
    bool priming;          // an event stream opens with an empty event, to be resumed from
};

const struct era *era_find(const char *version); // NULL: not supported
const struct era *era_latest_legacy(void);
json_t *era_modern_versions(void); // array of strings; new reference
const char *era_all_versions(void);

// Return the number of a log level, ascending: debug 0, info, notice, warning, error, critical,
// alert, emergency 7 (the names of RFC 5424), or -1 for an unknown name. `name` may be NULL.
int era_log_level(const char *name);

// Return whether a request names its revision: `params._meta` has META_VERSION, of whatever type.
bool era_is_claimed(const struct rpc_message *m);

// Read the `_meta` of such a request. Return the era, or NULL with *code, *text (borrowed, static
// or from `m`) and *data (new reference or NULL) for the answer.
const struct era *era_claim(const struct rpc_message *m, int *code, const char **text,
                            json_t **data);
