// SPDX-License-Identifier: Apache-2.0
// The protocol's revisions: what each can carry, and which one a request speaks.
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
    bool priming;          // an event stream opens with an empty event, to be resumed from
};

const struct era *era_find(const char *version); // NULL for one that is not spoken here
const struct era *era_latest_legacy(void);
json_t *era_modern_versions(void); // array of strings; new reference
const char *era_all_versions(void);

// The levels of log messages, ascending: debug 0, info, notice, warning, error, critical, alert,
// emergency 7 (RFC 5424's names). -1: there is none of that name. `name` may be NULL.
int era_log_level(const char *name);

// Whether a request speaks for itself: `params._meta` holds META_VERSION, of whatever type.
bool era_is_claimed(const struct rpc_message *m);

// Reads the `_meta` of such a request. The era, or NULL with *code, *text (borrowed, static or
// from `m`) and *data (new reference or NULL) for the answer.
const struct era *era_claim(const struct rpc_message *m, int *code, const char **text,
                            json_t **data);
