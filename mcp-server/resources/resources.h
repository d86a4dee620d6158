// SPDX-License-Identifier: Apache-2.0
// Resources: objects with a URI that can be read (MCP, server/resources). They come from sources;
// each source has its own URI scheme.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "mcp-server/protocol/era.h"
#include "sandbox-backend/base/err.h"

struct completion;
struct exchange;
struct subscription;

// A resources/list request, as a source sees it.
struct resource_listing {
    struct exchange *exchange; // gives context and caller, by its session
    // Set by a source that answers later: stop. The source must still call resource_listing_end,
    // later and never inside this call.
    void (*on_cancel)(struct resource_listing *l);
    void *state; // the source's
};

struct resource_source {
    const char *scheme; // of all its URIs and templates, without the colon; lower case
    // A JSON array of ResourceTemplate, with the members of every revision; NULL for none.
    const char *templates;
    size_t templates_len;
    // Each may be NULL, and may answer at once or later.
    void (*list)(struct resource_listing *l);          // ends with resource_listing_end
    void (*read)(struct exchange *x, const char *uri); // ends the exchange; `uri` lives as long
    // Watch `subscription_uri(s)` for changes: subscription.h.
    void (*watch)(struct subscription *s);
    void (*unwatch)(struct subscription *s); // `s` is not used after this
    void (*complete)(struct completion *c);  // of a variable of one of the templates
};
extern const struct resource_source SANDBOX_FILES; // the shipped one

// Return the source of a URI or template by its scheme; NULL: none.
const struct resource_source *resources_source(const char *uri);
// Return the array of resources/templates/list; new reference.
json_t *resources_templates(const struct era *era);

// ---- for a source
// End a listing. `resources` is an array of Resource (with the members of every revision) in
// ascending order of their URIs, by bytes; taken. NULL with an error.
void resource_listing_end(struct resource_listing *l, json_t *resources, const struct err *e);
// End resources/read. `contents` is an array of {uri, mimeType, text or blob}; taken.
void resource_give(struct exchange *x, json_t *contents);
// Return one element of it, new reference. The bytes become text when they are UTF-8 without NUL
// and have few control characters, which JSON makes several times as long; otherwise a blob.
json_t *resource_content(const char *uri, const char *mime_type, const char *data, size_t len);
// End the exchange: there is no such resource. The code depends on the era: -32002 or -32602, with
// the URI as data.
void resource_not_found(struct exchange *x, const char *uri, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
