// SPDX-License-Identifier: Apache-2.0
// Making a snapshot of a sandbox, and removing one.
//
//  1. Limits: how many there may be, and how much they may take up, of everybody and of an owner.
//  2. The directory .new-<id>, which a daemon's start removes.
//  3. The sandbox's state as an image in it (sandbox_image.h). The sandbox goes on meanwhile.
//  4. snapshot.json beside the image; all of it on the platter.
//  5. Renamed to its id: from here on it is a snapshot, whatever happens.
//
// What fails before 5 leaves nothing, and the sandbox as it was. One that is killed before 3 is
// done takes its snapshot along; afterwards the snapshot does not need it. One that
// is asked for by a client that goes away before the answer is removed again (api_snapshots.c).
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/snapshots.h"

struct sandbox;
struct store;

// Exactly once, from the loop, never inside the call; `snap`, borrowed, is in the list.
typedef void (*snapshot_cb)(struct snapshot *snap, const struct err *e, void *ctx);
// `name` may be NULL. -1 when it is refused at once, and the callback is not called then:
// ERR_LIMIT, ERR_INVALID or ERR_CONFLICT for the name.
int snapshot_take(struct sandbox *sb, const char *name, snapshot_cb cb, void *ctx, struct err *e);

// ERR_CONFLICT names who needs it. Else it is gone to everybody at once, and `cb` is called when
// its files are.
int snapshot_delete(struct store *store, struct snapshot *snap, void (*cb)(void *ctx), void *ctx,
                    struct err *e);
