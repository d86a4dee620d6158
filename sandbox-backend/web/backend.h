// SPDX-License-Identifier: Apache-2.0
// The cubbyd behind the page, and how requests of the page name its parts.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_client.h"

struct backend {
    struct http_client *http; // set by web_open
    const char *url;          // without a path: "http://localhost"; borrowed
    const char *unix_socket;  // NULL: connect to the URL's host; borrowed
    const char *api_key;      // NULL: none; borrowed
    const char *ca_file;      // NULL: none; borrowed
};

// The place to which a target of the page leads:
//   /api/PATH      PATH of the daemon's API
//   /box/ID/PATH   PATH of envd in the sandbox ID
#define BACKEND_ID_BYTES 80
struct backend_target {
    char id[BACKEND_ID_BYTES]; // "": the daemon's API
    const char *path;          // with its query; borrowed from the target
};
// Return whether `target` has one of these forms.
bool backend_target_parse(const char *target, struct backend_target *out);

#define BACKEND_HEADERS_MAX 8 // of a request, beside those that name the sandbox
struct backend_request {
    const char *method;
    struct backend_target to;
    struct http_header headers[BACKEND_HEADERS_MAX]; // borrowed for the call
    size_t header_count;
    const void *body; // copied; or a streamed body, as in http_fetch_opts
    size_t body_len;
    ssize_t (*read_body)(void *into, size_t room, void *ctx);
    int64_t body_total;
};
// Add a header. It is left out if `value` is NULL.
void backend_header(struct backend_request *r, const char *name, const char *value);
struct http_fetch *backend_fetch(const struct backend *b, const struct backend_request *r,
                                 const struct http_fetch_events *events, void *ctx);
// Make the error of a failed fetch one that tells the person what to do.
void backend_explain(const struct backend *b, struct err *e);
