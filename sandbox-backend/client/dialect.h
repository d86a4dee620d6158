// SPDX-License-Identifier: Apache-2.0
// The differences between the servers that speak E2B's protocols: the addresses and headers of the
// control plane and of sandboxes, which of two revisions of a route to use, and what this client
// does because the server does not. One file for each dialect. For client/ only.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/roundtrip.h"

// Features that only some of these servers have.
enum feature {
    FEATURE_NONE, // all of them have it
    FEATURE_SNAPSHOTS,
    FEATURE_FORK,
    FEATURE_ROLLBACK,
    FEATURE_STATS,
    FEATURE_NETWORK,       // a policy for a sandbox
    FEATURE_NETWORK_SHOWN, // the policy, and what it refused
    FEATURE_TIME,          // the server ends sandboxes in time
    FEATURE_PORTS,         // ports of the host, listed and closed
    FEATURE_MOUNTS,        // directories of the server's host
    FEATURE_VOLUMES,       // and their files
    FEATURE_SECRETS,
    FEATURE_SIZES, // cpus, memory and disk of one sandbox
    FEATURE_TIERS, // what one sandbox runs in
    FEATURE_TEMPLATES,
    FEATURE_LOGS,
    FEATURE_EVENTS,
    FEATURE_RECORD,
    FEATURE_BUILDS, // of templates
    FEATURES,
};

struct dialect {
    const char *word;        // in options: "cube"
    const char *name;        // in messages: "CubeSandbox"
    const char *create_path; // of POST
    const char *list_path;   // of GET
    // Tried when the paths above are answered 404 or 405; NULL: none.
    const char *create_path_old, *list_path_old;
    bool slides;           // takes `sliding`: each use of a sandbox restarts its time to live
    bool keeps_time;       // ends sandboxes in time; false: expiry.c does
    bool takes_envs;       // false: it ignores the environment of a create
    bool takes_lists;      // takes a network policy as E2B's lists; false: as Cubby writes it
    bool filters;          // filters its list by metadata
    bool creates_ready;    // answers a create when envd listens; false: earlier
    bool creates_late;     // may make the sandbox after it has given up the request for it
    bool may_hold_streams; // its proxy may pass streams on only in large parts (held.h)
    bool tells_gone;       // its proxy tells an ended sandbox from other failures
    bool invents_times; // its list has the present time for all times, and "running" for all states
    bool ends_unknown;  // answers the end of an unknown sandbox as a success
    bool ends_builds;   // has DELETE /templates/{}/builds/{}
    bool takes_depth;   // takes the depth of a pause; false: it has one way to pause
    // The dialect of later versions of the server, which has more features, and a path whose GET
    // they answer with 200 and earlier ones with 404. It may have a later one itself. NULL: there
    // is none.
    const struct dialect *later;
    const char *later_path;
    // By enum feature: what to do instead, for a model or a person. NULL: it has the feature.
    const char *instead[FEATURES];

    bool (*id_ok)(const char *id);
    const char *id_shape; // the form of an id, for errors

    // Fill in the URL (from `target`, an encoded path with its query), the socket and the headers.
    // to_guest: `port` is of envd or another server in the guest; `user` is envd's, NULL for the
    // sandbox's default.
    void (*to_api)(const struct client *c, const char *target, struct request *r);
    void (*to_guest)(const struct client *c, const struct access *a, int port, const char *target,
                     const char *user, struct request *r);

    // Return the public URL of a port of the sandbox, new string. NULL member: ports have no URL
    // before they are exposed.
    char *(*to_port)(const struct client *c, const struct access *a, int port);

    // Return whether `a` is enough to reach the sandbox; NULL: nothing is known. If not, to_lookup
    // fills in the GET that asks for the rest, and take_lookup reads its answer: NULL with `e` when
    // the answer does not have it.
    bool (*knows)(const struct client *c, const struct access *a);
    void (*to_lookup)(const struct client *c, const char *id, struct request *r);
    const struct access *(*take_lookup)(struct client *c, const char *id, const json_t *answer,
                                        struct err *e);
};

extern const struct dialect dialect_cubbyd;
extern const struct dialect dialect_e2b;     // E2B's cloud, and self-hosted E2B
extern const struct dialect dialect_cube;    // a CubeSandbox cluster
extern const struct dialect dialect_cube_03; // version 0.3 or newer
extern const struct dialect dialect_cube_06; // version 0.6 or newer

// Return 0 if the server has the feature, else ERR_UNIMPLEMENTED with what to do instead.
int dialect_check(const struct dialect *d, enum feature feature, struct err *e);
// Set ERR_UNIMPLEMENTED for a server that answered `status`, and may have it in other versions.
void dialect_too_old(const struct dialect *d, enum feature feature, int status, struct err *e);

// "cubbyd", "e2b" or "cube"; NULL for another word.
const struct dialect *dialect_find(const char *word);

// Functions that several dialects share.
void dialect_api(const struct client *c, const char *target, struct request *r);
void dialect_user(struct request *r, const char *user); // Authorization: Basic
// The same for an envd without a default user: also in the query of /files.
void dialect_name_user(struct request *r, const char *user);
void dialect_route(struct request *r, const char *id, int port);          // E2b-Sandbox-Id, -Port
void dialect_tokens(struct request *r, const struct access *a, int port); // of the sandbox
bool dialect_knows(const struct client *c, const struct access *a);
void dialect_to_lookup(const struct client *c, const char *id, struct request *r);
const struct access *dialect_take_lookup(struct client *c, const char *id, const json_t *answer,
                                         struct err *e);
