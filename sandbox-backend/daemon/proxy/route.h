// SPDX-License-Identifier: Apache-2.0
// Routes: find the sandbox and port that a request names, and the headers to pass on. Pure.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http.h"

enum route_kind {
    ROUTE_CONTROL, // for the control plane
    ROUTE_SANDBOX,
    ROUTE_BAD, // meant for a sandbox, but does not name one: 400
};

#define ROUTE_ID_BYTES 80
struct route {
    char id[ROUTE_ID_BYTES]; // as the request named it
    int port;
    // The length of the prefix "/sandboxes/router/<id>/<port>" of the target, and of its decoded
    // path, which the guest does not get; or 0. The rest begins with '/' or '?', or is empty.
    size_t skip;
    const char *domain; // what follows the id in a Host header that routed, else NULL; borrowed
};

// Find the sandbox by the headers E2b-Sandbox-Id and E2b-Sandbox-Port; else by a Host
// "<port>-<id>.<anything>" whose id has the form of a sandbox id; else by a target
// "/sandboxes/router/<id>/<port>/...". "-<client id>" may follow an id.
enum route_kind route_parse(const struct http_header *headers, size_t count, const char *target,
                            struct route *out, struct err *e);

// Return whether the domain of a Host leads to this daemon: it is `ours`, with or without a port,
// or "localhost". If `ours` is NULL, every domain leads here, because a proxy in front of the
// daemon may have any domain.
bool route_in_domain(const char *domain, const char *ours);

// Return whether a Host header (may be NULL) is "PORT-NAME.localhost" or "PORT-NAME.<ours>", a name
// of a sandbox's port even if this daemon gives no id like NAME. `ours` may be NULL.
bool route_names_port(const char *host, const char *ours);

// Return whether a path of envd is for the daemon only ("/init", "/freeze" ...), however it is
// spelt.
bool route_is_reserved(const char *path);
// Return whether a path of the Python kernel runs code ("/execute") or interrupts it
// ("/contexts/{}/interrupt"). Spellings that a lenient server would take for these paths (slashes,
// dots, letter case) count as well.
bool route_runs_code(const char *path);

// How a request counts as use of its sandbox.
enum route_use {
    ROUTE_USED,    // from its begin to its end
    ROUTE_OPENED,  // when it begins, but not by staying open: a watch of files
    ROUTE_NOT_USED // not at all: /health
};
enum route_use route_use(int port, const char *method, const char *path);

// Copy to `out` (room for `count`) the headers of a request or an answer that a proxy passes on,
// and return their number. These headers are left out: those of the connection (RFC 9110 section
// 7.6.1), Content-Length, which the next hop sets, and the two that name the sandbox and the port.
// The copies borrow the strings.
size_t route_filter(const struct http_header *headers, size_t count, struct http_header *out);
