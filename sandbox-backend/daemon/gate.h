// SPDX-License-Identifier: Apache-2.0
// Who may ask, and whose sandboxes are whose.
//
// On the unix socket, which only the owner of the home can open, everything may be asked and every
// sandbox is seen. On TCP a request for the control plane needs an API key of <home>/keys.json
// (`cubby key new`), in X-API-KEY or as a bearer token, and sees the sandboxes that were made with
// that key. Sandboxes belong to the key's name: a key that is replaced under its name keeps them.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/token_ring.h"
#include "sandbox-backend/net/body_room.h"
#include "sandbox-backend/net/http_server.h"

#define GATE_FILE "keys.json" // in the home

// Of the bodies of requests that are on their way, half of it for one key at most (body_room.h).
#define GATE_BODIES_BYTES ((size_t)32 << 20)
#define GATE_BODY_SMALL   ((size_t)4 << 10)

struct gate {
    struct token_ring keys;
    struct body_room bodies;
};

// A file that is broken is an error; none is no key.
int gate_init(struct gate *g, const char *home, struct err *e);
void gate_fini(struct gate *g);

// True, or false after it has answered 401.
bool gate_admits(struct gate *g, struct http_request *req);

struct quota;

struct gate_caller {
    const char *name; // of the key, borrowed for this turn of the loop; NULL: the unix socket
};
// What the owner of this name may have, as the file has it now; no limits for one that is not
// there.
struct quota gate_quota(struct gate *g, const char *name);
// Who sent a request that was admitted. A key that is not good any more by now sees nothing.
struct gate_caller gate_caller_of(const struct gate *g, struct http_request *req);
// Takes room for the body of such a request, of which at most `most` bytes are collected; it is to
// be given back when the body was handled, or will not be. False after it has answered 429.
bool gate_takes_body(struct gate *g, struct http_request *req, size_t most,
                     struct body_claim *claim);
// Whether he may know of a sandbox of this owner (NULL: made on the unix socket).
bool gate_sees(const struct gate *g, struct http_request *req, const char *owner);
// Whether he may know what this machine does for everybody: on the unix socket.
bool gate_sees_host(const struct gate *g, struct http_request *req);

// Whether an Authorization header holds a key of this daemon, expired or not. Asks the file anew.
bool gate_is_key(struct gate *g, const char *authorization);
