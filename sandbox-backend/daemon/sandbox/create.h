// SPDX-License-Identifier: Apache-2.0
// Creating a sandbox for a caller, from the pool or cold. See create.c for the steps.
//
// A daemon that is killed before it has written the record leaves a directory without one. The next
// daemon removes that directory (adopt.h).
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/templates.h"

struct store;

struct create_spec {
    struct known_template template;
    const char *owner;  // name of the API key; NULL: the unix socket's
    const char *parent; // id of the sandbox that is forked; NULL: none
    int64_t timeout_s;
    json_t *metadata; // object of strings, or NULL
    json_t *env;      // object of strings, or NULL
    json_t *mcp;      // the client's MCP servers, whose keys no record may hold; or NULL
    json_t *secrets;  // owned; secrets.h; NULL: none
    json_t *mounts;   // owned; of the parent's guest (store_hooks.mounts_inherit); NULL: none
    struct net_policy policy;
    const char *mask_request_host; // NULL: the client's
    bool secure;
    bool traffic_needs_token;
    bool auto_pause, auto_pause_disk, auto_resume;
    bool sliding;
    struct idle_policy idle;
};
void create_spec_fini(struct create_spec *spec);
// Give a new sandbox or a pool member what the request asks for, with new tokens. This sets the
// sandbox's fields only; its machine does not change.
void create_identify(struct sandbox *sb, const struct create_spec *spec);

// Create a sandbox. `cb` is called exactly once, from the loop: `sb` is RUNNING, or NULL with `e`
// set. `spec` stays the caller's; its contents are copied or referenced. Return -1
// with `e`, and call no callback, if admission refuses. All other results come by the callback.
int create_start(struct store *store, const struct create_spec *spec, sandbox_cb cb, void *ctx,
                 struct sandbox **out, struct err *e);
// End a sandbox that is being created. The callback is still called. This has no effect on a
// sandbox that is already created.
void create_abandon(struct sandbox *sb, const char *why);
