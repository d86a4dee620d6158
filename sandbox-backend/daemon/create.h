// SPDX-License-Identifier: Apache-2.0
// Making a sandbox, from "is there room" to "envd has taken its settings".
//
//  1. Admission: is there room for it. It may wait for that (admission.h).
//  2. Its directory.
//  3. The driver restores its machine.
//  4. POST /init to envd in it: token, environment, clock, host name, entropy. The 204 says that it
//     is usable.
//  5. sandbox.json, so that the next daemon finds it; then it is RUNNING and handed out.
//
// Whatever fails, whoever gives up: the machine is killed and the directory removed before the
// failure is told. A daemon that is killed before step 5 leaves a directory without sandbox.json,
// which the next one takes for what it is (adopt.c).
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/idle.h"
#include "sandbox-backend/daemon/templates.h"

struct sandbox;
struct store;

struct create_spec {
    struct known_template template;
    const char *owner; // name of the API key; NULL: the unix socket's
    int64_t timeout_s;
    json_t *metadata; // object of strings, or NULL
    json_t *env;      // object of strings, or NULL
    json_t *secrets;  // owned; secrets.h; NULL: none
    struct net_policy policy;
    const char *mask_request_host; // NULL: the client's
    bool secure;
    bool traffic_needs_token;
    bool auto_pause, auto_resume;
    bool sliding;
    struct idle_policy idle;
};
void create_spec_fini(struct create_spec *spec);
// Makes a sandbox that is nobody's yet the one that was asked for: all that this daemon keeps of
// it, and nothing of its machine. Its tokens are drawn.
void create_identify(struct sandbox *sb, const struct create_spec *spec);

// Exactly once, from the loop. `sb` is RUNNING, or NULL with `e` set.
typedef void (*create_cb)(struct sandbox *sb, const struct err *e, void *ctx);

// Everything in `spec` is copied or referenced; it stays the caller's. Refusals by admission come
// through the return value (-1, and no callback); all else through the callback.
int create_start(struct store *store, const struct create_spec *spec, create_cb cb, void *ctx,
                 struct sandbox **out, struct err *e);
// Nobody wants it any more: it is taken apart as soon as it can be; the callback is still called.
void create_abandon(struct sandbox *sb, const char *why);
