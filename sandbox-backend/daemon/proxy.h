// SPDX-License-Identifier: Apache-2.0
// Requests for a port of a sandbox: which they are, who may make them, and when.
//
// Theory of operation. A request that names a sandbox (route.h), or that is for /files and has a
// signature that a sandbox's token made (proxy_signed.h), is passed on to it (proxy_stream.h); all
// others are the control plane's. An API key is not asked for: what protects a sandbox is its own
// tokens.
//  - envd's port checks its access token itself. Of a sandbox that does not run this does: the
//    token, or a signature by it that has not expired. Its endpoints that are for the daemon only,
//    and the port of envd's relay, are not reachable.
//  - "/execute" of the kernel's port needs the access token, which the kernel does not know.
//  - With network.allowPublicTraffic false, every port but envd's needs the traffic token.
//  - A browser's preflight has no token; where one is needed it is answered here.
// Only then is a paused sandbox woken, where it was made to be (lifecycle autoResume): the request
// waits, its body in the socket. A question for envd's /health never wakes and is no use.
//
// What is answered without asking the guest is E2B's: proxy_error.h.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/net/http_server.h"

struct proxy_target;
struct sandbox;
struct store;

// Answers `req`, now or later, when it is for a sandbox; false: it is the control plane's.
bool proxy_takes(struct store *store, struct http_request *req);

// Passes on what may be asked: wakes the sandbox where that is due, or says why it cannot be.
void proxy_enter(struct sandbox *sb, struct http_request *req, const struct proxy_target *to);

// Ends every stream of a sandbox that is being ended or paused.
void proxy_cut_streams(struct sandbox *sb);
