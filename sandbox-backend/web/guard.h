// SPDX-License-Identifier: Apache-2.0
// The guard: which requests come from the page that this process serves.
//
// Theory of operation. Anything in the browser can send requests to 127.0.0.1: pages of the
// internet, and pages of sandboxes on exposed ports of the same host. So
//  - Host must be the name of this server, <16 random hexadecimal digits>.localhost, which browsers
//    resolve to loopback themselves. The name is new in each run, so this origin has no service
//    worker, cache or storage of any other page. At 127.0.0.1 a page that was once served at the
//    same port could have left a service worker, which would see the token of the URL. A foreign
//    name whose DNS leads to 127.0.0.1 (DNS rebinding) is refused too.
//  - Origin, where the browser sends it, must be this server; Sec-Fetch-Site must be "same-origin",
//    or "none" for an address that the person opened.
//  - Everything but the static files needs the key of this process, in a header that only scripts
//    of the page can set. There is no cookie: cookies ignore ports, so the browser would also send
//    them to the pages of sandboxes on this host.
// The key is 256 random bits. A page gets it in exchange for the one-time token of the printed URL.
// The token is after '#', so the browser sends it to nobody by itself.
//
// Every answer has headers that forbid inline scripts, other origins, frames and guessing of types.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/net/http_server.h"

#define GUARD_SECRET_BYTES 32
#define GUARD_KEY_HEADER   "Cubby-Web-Key"
#define GUARD_KEY_PROTOCOL "key." // of a WebSocket, which can have no header of the page's choice

struct guard {
    char *key;    // owned; hexadecimal
    char *token;  // owned; NULL: it was used
    char *nonce;  // owned; of the page's style elements
    char *policy; // owned; Content-Security-Policy
    char *host;   // owned; the name of this server, with its port
};

void guard_init(struct guard *g, int port);
void guard_fini(struct guard *g);
// Make a new token, which replaces the one before. Borrowed until the next call.
const char *guard_new_token(struct guard *g);
// Return whether `token` is the token. It is invalid afterwards.
bool guard_take_token(struct guard *g, const char *token);

// Add the headers of every answer.
void guard_headers(const struct guard *g, struct http_request *req);
// Return whether the request may come from the page or from the person; false after a 403.
bool guard_admits(const struct guard *g, struct http_request *req);
// Return whether an admitted request has the key; false after a 401.
bool guard_has_key(const struct guard *g, struct http_request *req);
