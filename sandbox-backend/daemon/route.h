// SPDX-License-Identifier: Apache-2.0
// Which sandbox and port a request is for, and what of its head may be passed on. Pure.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/net/http.h"

enum route_kind {
    ROUTE_CONTROL, // not for a sandbox: the control plane
    ROUTE_SANDBOX,
    ROUTE_BAD, // meant for a sandbox, but does not say which: 400
};

#define ROUTE_ID_BYTES 80
struct route {
    char id[ROUTE_ID_BYTES]; // as it was named
    int port;
    // Bytes at the start of the target that only route, as of its decoded path: they hold nothing
    // that is decoded. What is left begins with '/' or '?', or is empty.
    size_t skip;
    const char *domain; // what follows the id in a Host that named it, else NULL; borrowed
};

// By the headers E2b-Sandbox-Id and E2b-Sandbox-Port; else by a Host "<port>-<id>.<anything>", the
// id of the length that ours have, in any case; else by a target
// "/sandboxes/router/<id>/<port>/...". An id may have "-<client id>" behind it.
enum route_kind route_parse(const struct http_header *headers, size_t count, const char *target,
                            struct route *out, struct err *e);

// Whether a Host's domain is `ours`, with or without a port, or "localhost", which leads nowhere
// else. Any is while there is none of ours: whatever stands in front of the daemon has its own.
bool route_in_domain(const char *domain, const char *ours);

// Paths of envd that are for this daemon only ("/init", "/freeze" ...), however they are spelt.
bool route_is_reserved(const char *path);
// Paths of the Python kernel that run code ("/execute") or interrupt it ("/contexts/{}/interrupt"),
// also as a server would have it that is lenient about slashes, dots and case.
bool route_runs_code(const char *path);

// What a request to a port of a sandbox means for its life.
enum route_use {
    ROUTE_USED,    // from its beginning to its end
    ROUTE_OPENED,  // it is one as it begins, but not by staying open: a watch of files
    ROUTE_NOT_USED // it only asks how the sandbox is
};
enum route_use route_use(int port, const char *method, const char *path);

// Copies to `out` (room for `count`) what a proxy passes on of a request's or an answer's headers:
// not those of the connection (RFC 9110 section 7.6.1), nor the length, which the next hop sets,
// nor the two that route. Returns how many. Borrowed.
size_t route_filter(const struct http_header *headers, size_t count, struct http_header *out);
