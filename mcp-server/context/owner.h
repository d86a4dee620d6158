// SPDX-License-Identifier: Apache-2.0
// Decide whether a caller may use a sandbox. A caller with a name (that of its token) may use the
// sandboxes whose metadata name it (CALLER_METADATA). A caller without a name may use the sandboxes
// without that metadata. To all other callers the sandbox does not exist. Over stdio these rules do
// not apply: the one caller may use every sandbox, because its user could ask the backend directly.
//
// Ids are never reused and a sandbox does not change its owner, so a positive answer is remembered
// and later calls cost nothing.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "mcp-server/auth/caller.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client.h"

#define OWNER_KNOWN_MAX 4096 // above that the oldest are forgotten, and looked up again when needed

// The key of a sandbox's metadata that holds the name which create_sandbox gave it.
#define OWNER_NAME_KEY "cubby-name"

struct context;

// Remembered pairs of sandbox and owner; a part of struct context.
struct owner_known {
    char **keys; // owned, room for OWNER_KNOWN_MAX; NULL before the first: "<id> <owner>"
    size_t count;
    unsigned short *table; // owned: hash table of indices of keys, plus one
};
void owner_known_fini(struct owner_known *k);

// Return whether the caller is known to own the sandbox. If not, owner_check asks the backend.
bool owner_is_known(const struct context *cx, const struct caller *caller, const char *id);
// Ask the backend whether the caller owns the sandbox. `cb` comes from the loop, once: NULL for
// yes; ERR_NOT_FOUND for an unknown sandbox or that of another caller; ERR_GONE with the reason for
// one that has ended (only for callers without a name); ERR_CANCELED after client_cancel; or
// another error. Return NULL with `e`, without calling `cb`, when the backend cannot be asked.
// `caller` and `id` are copied. `id` may be any text.
struct client_op *owner_check(struct context *cx, const struct caller *caller, const char *id,
                              client_done_cb cb, void *ctx, struct err *e);
// Remember a sandbox that this caller has created, or that has been listed as its own.
void owner_note(struct context *cx, const struct caller *caller, const char *id);
// Return whether `info`, the JSON of a sandbox or list entry, names this caller as owner.
bool owner_is_of(const struct context *cx, const struct caller *caller, const json_t *info);
// Return the metadata that name this caller as a sandbox's owner: a new object, or NULL for a
// caller without a name. create_sandbox sets them, and list_sandboxes asks for sandboxes that have
// them.
json_t *owner_metadata(const struct caller *caller);
