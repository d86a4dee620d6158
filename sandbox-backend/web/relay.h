// SPDX-License-Identifier: Apache-2.0
// Passes one request of the page on to the daemon, and the answer back. Bodies are streamed both
// ways; a slow side slows the other.
#pragma once
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/web/backend.h"

// `token`: the sandbox's access token, if the request does not bring it; borrowed for the call.
// `file`: NULL, or the percent-encoded name under which a browser is to save the answer.
void relay_start(const struct backend *b, struct http_request *req,
                 const struct backend_target *target, const char *token, const char *file);
