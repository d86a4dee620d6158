// SPDX-License-Identifier: Apache-2.0
// The headers of one HTTP request that have a meaning in MCP, found in one pass. No side effects.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/net/http.h"

enum { WEB_JSON = 1, WEB_EVENTS = 2 }; // what a client accepts: application/json, text/event-stream

// All pointers are borrowed from the request; NULL for a header that is absent.
struct web_head {
    const char *host, *origin, *content_type, *authorization;
    const char *version;    // MCP-Protocol-Version
    const char *session;    // Mcp-Session-Id
    const char *method;     // Mcp-Method
    const char *name;       // Mcp-Name
    const char *last_event; // Last-Event-ID
    const char *preflight;  // Access-Control-Request-Method
    unsigned repeated;      // which of these headers came more than once: web_head_repeated
    unsigned takes;         // from Accept: WEB_JSON, WEB_EVENTS
    const struct http_header *all;
    size_t count;
};

void web_head_read(struct web_head *h, const struct http_header *all, size_t count);
// Return the lower-case name of a header that came more than once and begins with `prefix` (lower
// case, too), or NULL.
const char *web_head_repeated(const struct web_head *h, const char *prefix);

// Return whether the version's date is of the modern era, known here or not: "2026-07-28" and
// later.
bool web_head_is_modern(const struct web_head *h);
bool web_head_sends_json(const struct web_head *h); // Content-Type: application/json
unsigned web_head_accept(const char *value);        // of one Accept header
bool web_head_event_id(const char *value, unsigned *stream, unsigned *event); // "<stream>.<n>"
