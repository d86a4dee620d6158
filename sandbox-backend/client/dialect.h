// SPDX-License-Identifier: Apache-2.0
// What differs between the servers that speak E2B's protocols: where the control plane and a
// sandbox's envd are reached, with which headers, and which of two revisions of a route to use.
// One file a dialect. For client/ only.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/request.h"

struct dialect {
    const char *name;
    bool local;              // served by cubbyd on its unix socket, which is started when missing
    bool needs_access;       // envd's calls need what only the control plane knows of the sandbox
    const char *create_path; // of POST
    const char *create_path_old; // tried when the first is answered 404 or 405; NULL for none

    bool (*id_ok)(const char *id);
    const char *id_shape; // for the error: what an id looks like

    // Fill in the URL (from `target`, an encoded path with its query), the socket and the headers
    // that lead there. guest: `port` is envd's or another server's in the guest; `a` is NULL unless
    // needs_access; `user`, envd's, is NULL for the sandbox's own.
    void (*to_api)(const struct client *c, const char *target, struct request *r);
    void (*to_guest)(const struct client *c, const char *id, const struct access *a, int port,
                     const char *target, const char *user, struct request *r);
};

extern const struct dialect dialect_local; // cubbyd
extern const struct dialect dialect_e2b;   // E2B's cloud, self-hosted E2B, CubeSandbox

// What every dialect does alike.
void dialect_user(struct request *r, const char *user);                   // Authorization: Basic
void dialect_route(struct request *r, const char *id, int port);          // E2b-Sandbox-Id, -Port
void dialect_tokens(struct request *r, const struct access *a, int port); // those of the sandbox
