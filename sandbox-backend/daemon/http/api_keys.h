// SPDX-License-Identifier: Apache-2.0
// API keys: which clients may use the control plane, and which sandboxes a caller sees. The unix
// socket can be opened only by the user who owns the home. A caller there may do everything, and
// sees every sandbox. On TCP a request for the control plane needs an API key of <home>/keys.json
// (`cubby key new`), in X-API-KEY or as a bearer token. It sees the sandboxes that were created
// with that key. A sandbox belongs to the name of the key, so a key that is replaced under its name
// keeps them.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/token_ring.h"
#include "sandbox-backend/net/body_room.h"
#include "sandbox-backend/net/http_server.h"

#define API_KEYS_FILE "keys.json" // in the home

// Memory for the bodies of requests in progress; one key may have half of it (body_room.h).
#define API_KEYS_BODIES_BYTES ((size_t)32 << 20)
#define API_KEYS_BODY_SMALL   ((size_t)4 << 10)

// The daemon follows the file: it removes what belongs to a key that was removed from it.
struct api_keys_watch {
    // The file was read again. Called before the next request is admitted, from api_keys_admits,
    // api_keys_reread or api_keys_look. No handler of a request is under way that holds secrets or
    // webhooks.
    void (*on_read)(void *ctx);
    // Return whether requests with the key of this name must wait (503).
    bool (*is_held)(const char *name, void *ctx);
    void *ctx;
};

struct api_keys {
    struct token_ring keys;
    struct token_list previous; // a handler that is under way may have borrowed a name of it
    struct body_room bodies;
    struct api_keys_watch watch; // set after api_keys_init; without functions: nobody follows
    bool is_new;                 // the file was read again, and on_read was not yet called
};

// A malformed file is an error; a missing file means no keys.
int api_keys_init(struct api_keys *k, const char *path, struct err *e);
void api_keys_fini(struct api_keys *k);

// Return whether the request may be handled; false after a 401 or a 503.
bool api_keys_admits(struct api_keys *k, struct http_request *req);

struct quota;

// Return the quota of the key of this name, as the file has it now; no limits for an unknown name.
struct quota api_keys_quota(struct api_keys *k, const char *name);
// Return whether there is a key of this name, expired or not.
bool api_keys_knows(struct api_keys *k, const char *name);
// Return the tiers that the key of this name may ask for, as tier_wish.tiers_of_key has them.
// Borrowed for this turn of the loop.
const char *api_keys_tiers(struct api_keys *k, const char *name);
// Return the owner of an admitted request: the name of the key, borrowed for this turn of the loop;
// NULL: the unix socket. A key that has become invalid since then sees nothing.
const char *api_keys_caller(const struct api_keys *k, struct http_request *req);
// Return who sent a request to a sandbox, which needs no API key: "socket", "key NAME", or
// "token" for a client that has only the sandbox's access token. New string.
char *api_keys_who(const struct api_keys *k, struct http_request *req);
// Reserve room for the body of an admitted request, of at most `most` bytes. Give the claim back
// when the body was handled, or will not be. False after a 429.
bool api_keys_takes_body(struct api_keys *k, struct http_request *req, size_t most,
                         struct body_claim *claim);
// Return whether the caller may see a sandbox of this owner (NULL: created on the unix socket).
bool api_keys_sees(const struct api_keys *k, struct http_request *req, const char *owner);
// Return whether the caller may see figures of the whole host: only on the unix socket.
bool api_keys_sees_host(const struct api_keys *k, struct http_request *req);

// Return whether the caller may make and delete API keys: on the unix socket, and with a key whose
// entry has "admin".
bool api_keys_may_change(const struct api_keys *k, struct http_request *req);
// Read the file now: it has just been changed.
void api_keys_reread(struct api_keys *k);
// Read the file if it has changed, as each request does. For a timer: a daemon without requests
// learns of removals, too.
void api_keys_look(struct api_keys *k);

// Return whether an Authorization header holds a key of this daemon, expired or not. Reads a
// changed file.
bool api_keys_is_key(struct api_keys *k, const char *authorization);
