// SPDX-License-Identifier: Apache-2.0
// The volumes that a create request mounts (E2B's volumeMounts).
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

struct create_spec;
struct sandbox;
struct store;
struct volume_mounts; // being mounted

// Read "volumeMounts" of a request, which spec->owner sends: a list of names of that owner's
// volumes and paths in the guest. *out is what volume_mounts_start takes, a new reference; NULL:
// none.
int volume_mounts_read(const struct store *store, const json_t *body,
                       const struct create_spec *spec, json_t **out, struct err *e);
// Mount the volumes in a new sandbox. `cb` is called once, from the loop and never inside the call,
// when all are mounted, or with the first error when none is under way any more. ERR_GONE: the
// sandbox has ended.
struct volume_mounts *volume_mounts_start(struct sandbox *sb, const json_t *wanted,
                                          void (*cb)(const struct err *e, void *ctx), void *ctx);
// Forget the callback. Only before it was called.
void volume_mounts_abandon(struct volume_mounts *v);
