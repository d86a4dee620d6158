// SPDX-License-Identifier: Apache-2.0
// What differs between the servers that speak E2B's protocols: where the control plane and a
// sandbox's envd are reached, with which headers, which of two revisions of a route to use, and
// what has to be done here because the server does not do it. One file a dialect. For client/ only.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/feature.h"
#include "sandbox-backend/client/request.h"

struct dialect {
    const char *word;        // in options: "cube"
    const char *name;        // in messages: "CubeSandbox"
    const char *create_path; // of POST
    const char *list_path;   // of GET
    // Tried when the above are answered 404 or 405; NULL for none.
    const char *create_path_old, *list_path_old;
    bool slides;        // takes `sliding`: each use of a sandbox starts its time anew
    bool keeps_time;    // false: it ends no sandbox by itself; expiry.c does
    bool takes_envs;    // false: what a create says of the environment is dropped
    bool filters;       // false: its list cannot be filtered by metadata
    bool creates_ready; // false: envd may not listen yet when a create is answered
    bool tells_gone;    // false: its proxy does not tell a sandbox that is gone from other trouble
    bool takes_depth;   // of a pause; false: it has one way to pause
    // By enum feature: what to do instead, for a model and for a person. NULL: it has the feature.
    const char *instead[FEATURES];

    bool (*id_ok)(const char *id);
    const char *id_shape; // for the error: what an id looks like

    // Fill in the URL (from `target`, an encoded path with its query), the socket and the headers
    // that lead there. guest: `port` is envd's or another server's in the guest; `user`, envd's, is
    // NULL for the sandbox's own.
    void (*to_api)(const struct client *c, const char *target, struct request *r);
    void (*to_guest)(const struct client *c, const struct access *a, int port, const char *target,
                     const char *user, struct request *r);

    // The URL by which everybody reaches a port of the sandbox, new string. NULL: ports have none
    // before they are exposed.
    char *(*to_port)(const struct client *c, const struct access *a, int port);

    // Whether that is enough to reach the sandbox; `a` is NULL when nothing is known. If not, the
    // GET that tells the rest, and what to take from its answer: NULL with `e` when it does not.
    bool (*knows)(const struct client *c, const struct access *a);
    void (*to_lookup)(const struct client *c, const char *id, struct request *r);
    const struct access *(*take_lookup)(struct client *c, const char *id, const json_t *answer,
                                        struct err *e);
};

extern const struct dialect dialect_cubbyd;
extern const struct dialect dialect_e2b;  // E2B's cloud, and E2B that one runs oneself
extern const struct dialect dialect_cube; // a CubeSandbox cluster

// ERR_UNIMPLEMENTED, with what to do instead, when the server lacks it. 0 when it does not.
int dialect_check(const struct dialect *d, enum feature feature, struct err *e);
// The same for one that has it in other versions, and answered `status`.
void dialect_too_old(const struct dialect *d, enum feature feature, int status, struct err *e);

// "cubbyd", "e2b" or "cube"; NULL for another word.
const struct dialect *dialect_find(const char *word);

// What several dialects do alike.
void dialect_api(const struct client *c, const char *target, struct request *r);
void dialect_user(struct request *r, const char *user); // Authorization: Basic
// The same for an envd that must be told on whose behalf it acts: also in the query of /files.
void dialect_name_user(struct request *r, const char *user);
void dialect_route(struct request *r, const char *id, int port);          // E2b-Sandbox-Id, -Port
void dialect_tokens(struct request *r, const struct access *a, int port); // those of the sandbox
bool dialect_knows(const struct client *c, const struct access *a);
void dialect_to_lookup(const struct client *c, const char *id, struct request *r);
const struct access *dialect_take_lookup(struct client *c, const char *id, const json_t *answer,
                                         struct err *e);
