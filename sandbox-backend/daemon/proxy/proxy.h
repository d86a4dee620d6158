// SPDX-License-Identifier: Apache-2.0
// The proxy: it recognises the requests that are for a port of a sandbox, decides whether the
// client may send them, and passes them on.
//
// Theory of operation. A request that names a sandbox (route.h), or that is for /files and has a
// signature made with a sandbox's token, is passed on to that sandbox (proxy_stream.h). All others
// are for the control plane. A request to a sandbox needs no API key, because the sandbox's own
// tokens protect it.
//  - envd checks its access token itself. While the sandbox does not run, the proxy checks instead:
//    it accepts the token, or an unexpired signature made with it. envd's endpoints for the daemon,
//    and the port of its relay, cannot be reached.
//  - "/execute" on the port of the Python kernel needs the access token. The proxy checks it,
//    because the Python kernel does not know it.
//  - With network.allowPublicTraffic false, every port but envd's needs the traffic token.
//  - A browser's preflight has no token. If the port needs one, the proxy answers the preflight
//    itself.
// Only a request that passed these checks wakes a sandbox, if it is asleep, or is paused and was
// created with autoResume. The request waits meanwhile, with its body in the socket. GET /health of
// envd never wakes a sandbox, and does not count as use.
//
// Answers of the proxy itself are worded as E2B's proxy words them: proxy_error.h.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/net/http_server.h"

struct proxy_target;
struct sandbox;
struct store;

// If `req` is for a sandbox, answer it now or later. False: it is for the control plane.
bool proxy_takes(struct store *store, struct http_request *req);

// Pass on a request that was allowed: wake the sandbox if needed, or answer why it cannot be woken.
void proxy_enter(struct sandbox *sb, struct http_request *req, const struct proxy_target *to);

// Return whether the request has the sandbox's access token, or for /files a signature made with
// it, or the sandbox has no token.
bool proxy_has_token(struct http_request *req, const struct sandbox *sb,
                     const struct proxy_target *to);

// Return whether a request waits for its answer or gets it, other than streams that last as long as
// something runs: Connect's, a watch of files, an upgraded connection.
bool proxy_answers(const struct sandbox *sb);

// Cut every stream of a sandbox that is being ended or paused.
void proxy_cut_streams(struct sandbox *sb);
// Do the same, and close the exposed ports of a sandbox that is being ended.
void proxy_disconnect(struct sandbox *sb);

// Return whether `token` makes the signature of a URL over the other strings. `expires` may be
// NULL.
bool proxy_signed_matches(const char *signature, const char *path, const char *operation,
                          const char *user, const char *token, const char *expires);
