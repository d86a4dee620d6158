// SPDX-License-Identifier: Apache-2.0
// Whether a caller may use a sandbox. One with a name (a token's) may use those whose metadata says
// that they are its own (CALLER_METADATA); one without a name those that are nobody's. For
// everybody else a sandbox is one that does not exist. Over stdio there is one user, who may use
// every sandbox whose id is known.
//
// Ids are never used twice and a sandbox does not change hands, so a yes is remembered and later
// calls cost nothing.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "mcp-server/auth/caller.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client.h"

#define OWNER_KNOWN_MAX 4096 // the oldest are forgotten, and then looked up again

struct toolbox;

// Part of the toolbox.
struct owner_known {
    char **keys; // owned, room for OWNER_KNOWN_MAX; NULL before the first: "<id> <owner>"
    size_t count;
    unsigned short *table; // owned: hash table of indices of keys, plus one
};
void owner_known_fini(struct owner_known *k);

// True: yes, and there is nothing to ask. False: owner_check tells.
bool owner_is_known(const struct toolbox *t, const struct caller *caller, const char *id);
// Asks the backend. `cb` comes from the loop, once: NULL for yes; ERR_NOT_FOUND for "there is no
// sandbox <id>", be it that it is somebody else's; ERR_GONE: it has ended, and why (for callers
// without a name); ERR_CANCELED after client_cancel; what else goes wrong. NULL with `e`, and no
// `cb`, when there is no way to ask. `caller` and `id` are copied. `id` may be any text.
struct client_op *owner_check(struct toolbox *t, const struct caller *caller, const char *id,
                              client_done_cb cb, void *ctx, struct err *e);
// What this caller made, or has been shown as its own.
void owner_note(struct toolbox *t, const struct caller *caller, const char *id);
// Whether `info`, a sandbox's or list entry's JSON, says that it is this caller's.
bool owner_is_of(const struct toolbox *t, const struct caller *caller, const json_t *info);
// The metadata that makes a sandbox this caller's, and by which its sandboxes are listed; a new
// object, or NULL for a caller without a name.
json_t *owner_metadata(const struct caller *caller);
