// SPDX-License-Identifier: Apache-2.0
// The head of a request as a port of a sandbox sees it. Headers that route and headers of the
// client's connection are left out (route_filter). So are secrets that the guest must not see: the
// daemon's API key, the traffic token, and, except on envd's port, the sandbox's access token.
// Ports other than envd's get X-Forwarded-For, -Host and -Proto, and the Host of
// network.maskRequestHost if it is set. TE tells the guest whether the client accepts trailers,
// which are passed on.
#pragma once
#include "sandbox-backend/net/http_server.h"

struct sandbox;

#define PROXY_HEAD_MORE 6 // headers added to the client's

struct proxy_head {
    struct http_header headers[HTTP_HEADERS_MAX + PROXY_HEAD_MORE];
    size_t count;
    char *host;          // owned, as are the next
    char *forwarded_for; // may be NULL
    char *cookie;        // the same
};

// `offers`: pass on the client's offer to upgrade. Borrows from `req` and `sb`.
void proxy_head_init(struct proxy_head *h, struct http_request *req, const struct sandbox *sb,
                     int port, bool offers);
void proxy_head_fini(struct proxy_head *h);
// Do the same for the trailers: write them to `out`, and return their number. Borrows from `req`.
size_t proxy_head_trailers(const struct http_request *req, const struct sandbox *sb, int port,
                           struct http_header out[HTTP_HEADERS_MAX]);
