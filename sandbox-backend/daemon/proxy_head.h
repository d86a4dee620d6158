// SPDX-License-Identifier: Apache-2.0
// The head of a request as a port of a sandbox is to see it.
//
// What routes and what belongs to the client's connection is left out (route_filter), and what is
// no business of the guest's: the daemon's API key, the traffic token, and, but for envd's port,
// the sandbox's own access token. A port that is not envd's is told who asks, in X-Forwarded-For,
// -Host and -Proto, and sees the Host of network.maskRequestHost where that is set. Each port is
// told whether the client takes trailers (TE), as those are passed on.
#pragma once
#include "sandbox-backend/net/http_server.h"

struct sandbox;

#define PROXY_HEAD_MORE 6 // headers besides the client's

struct proxy_head {
    struct http_header headers[HTTP_HEADERS_MAX + PROXY_HEAD_MORE];
    size_t count;
    char *host;          // owned, as the next
    char *forwarded_for; // may be NULL
    char *cookie;        // the same
};

// `offers`: what the client offers to upgrade to is passed on. Borrows from `req` and `sb`.
void proxy_head_init(struct proxy_head *h, struct http_request *req, const struct sandbox *sb,
                     int port, bool offers);
void proxy_head_fini(struct proxy_head *h);
// The same of what came behind the body: as many as are written to `out`. Borrows from `req`.
size_t proxy_head_trailers(const struct http_request *req, const struct sandbox *sb, int port,
                           struct http_header out[HTTP_HEADERS_MAX]);
