// SPDX-License-Identifier: Apache-2.0
// Resources: what has a URI and can be read (MCP, server/resources). Where they come from is a
// source, of which each has a URI scheme of its own.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "mcp-server/protocol/era.h"
#include "sandbox-backend/base/err.h"

struct completion;
struct exchange;
struct subscription;

// One resources/list, as a source sees it.
struct resource_listing {
    struct exchange *exchange; // for its session's toolbox and caller
    // Set by a source that answers later: stop. resource_listing_end must follow all the same,
    // never inside this call.
    void (*on_cancel)(struct resource_listing *l);
    void *state; // the source's
};

struct resource_source {
    const char *scheme; // of all its URIs and templates, without the colon; lower case
    // A JSON array of ResourceTemplate, all that any revision has; NULL for none.
    const char *templates;
    size_t templates_len;
    // Each NULL: there is none of that. All may answer at once or later.
    void (*list)(struct resource_listing *l);          // ends with resource_listing_end
    void (*read)(struct exchange *x, const char *uri); // ends the exchange; `uri` lives as long
    // Somebody wants to hear when `subscription_uri(s)` changes: subscription.h.
    void (*watch)(struct subscription *s);
    void (*unwatch)(struct subscription *s); // nothing of `s` may be used after this
    void (*complete)(struct completion *c);  // of a variable of one of the templates
};
extern const struct resource_source SANDBOX_FILES; // the shipped one

// The source of a URI or a template by its scheme; NULL: none.
const struct resource_source *resources_source(const char *uri);
// The arrays of resources/templates/list; new reference.
json_t *resources_templates(const struct era *era);

// ---- for a source
// `resources`: an array of Resource (all that any revision has) in ascending order of their URIs,
// by bytes; taken. With an error, NULL.
void resource_listing_end(struct resource_listing *l, json_t *resources, const struct err *e);
// The end of resources/read: `contents` is an array of {uri, mimeType, text or blob}; taken.
void resource_give(struct exchange *x, json_t *contents);
// One of them, new reference. The bytes become text when they are UTF-8 without NUL, and not so
// full of control characters that they would be several times as long in JSON; else a blob.
json_t *resource_content(const char *uri, const char *mime_type, const char *data, size_t len);
// There is no such resource, as the era says it: -32002 or -32602, with the URI as data.
void resource_not_found(struct exchange *x, const char *uri, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
