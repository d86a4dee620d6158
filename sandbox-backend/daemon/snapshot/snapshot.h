// SPDX-License-Identifier: Apache-2.0
// Images of sandboxes: savings, and the snapshots and forks that are made with them.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/snapshots.h"
#include "sandbox-backend/drivers/driver.h"

struct sandbox;
struct store;

// ---- savings (saving.c): to write an image of a sandbox into a directory
//
// If the sandbox has a machine, running or frozen, the driver saves the machine and leaves it as it
// was. If the sandbox is asleep with a machine, it is woken first. The guest of a running sandbox
// is quiesced during the saving. If the sandbox is hibernated, the files of its image are linked,
// because no program changes an image.
//
// Savings of one sandbox wait for each other and for every other operation (operation.h).

// Called exactly once, from the loop, never inside the call. `saved` is NULL when `e` is not:
// ERR_NO_SPACE (the host lacks disk or memory), ERR_GONE (the sandbox was ended) or another. The
// caller then removes the contents of the directory. `sb` is valid for the call only. Take its
// build, size and facts here, not before saving_start: a rollback that was under way then may have
// changed them.
// `disk_env`: borrowed; set if the image has a disk alone (sandbox.disk_env).
typedef void (*sandbox_image_cb)(const struct sandbox *sb, const struct machine_saved *saved,
                                 json_t *disk_env, const struct err *e, void *ctx);

// Save a sandbox that callers can see (sandbox_is_known). `dir` is empty and below the home.
// `use`: SAVE_TO_KEEP, SAVE_IN_PASSING or SAVE_DISK. For SAVE_DISK the guest must run when the
// saving begins, because it has to write its file systems: ERR_CONFLICT otherwise.
void saving_start(struct sandbox *sb, const char *dir, enum machine_save_use use,
                  sandbox_image_cb cb, void *ctx);
// Unfreeze the guest of a running sandbox, in case it is quiesced: an earlier daemon may have been
// killed during a saving, or a /freeze that timed out may still take effect.
void saving_mend(struct sandbox *sb);

// ---- snapshots (snapshot.c)
//
//  1. Check the limits on the number and the size of snapshots, for all owners and for this one.
//  2. Create the directory .new-<id>, which a starting daemon removes.
//  3. Save the sandbox into it (saving_start). The sandbox continues.
//  4. Write snapshot.json beside the image, and sync all of it to the disk.
//  5. Rename the directory to the snapshot's id. From here on the snapshot exists, even after a
//     crash.
//
// A failure before step 5 leaves nothing behind, and the sandbox as it was. If the sandbox is
// killed before step 3 is done, the snapshot fails; after that, it does not need the sandbox. If
// the client disconnects before the answer, the snapshot is removed again (api_snapshots.c).

// Called exactly once, from the loop, never inside the call. `snap` is in the list; borrowed.
typedef void (*snapshot_cb)(struct snapshot *snap, const struct err *e, void *ctx);
// Make a snapshot, of the disk alone unless `memory`; `name` may be NULL. Return -1, and call no
// callback, if it is refused at once: with ERR_LIMIT, or with ERR_INVALID or ERR_CONFLICT for the
// name.
int snapshot_take(struct sandbox *sb, const char *name, bool memory, snapshot_cb cb, void *ctx,
                  struct err *e);

// Delete a snapshot. ERR_CONFLICT names the sandbox that needs it. Otherwise the snapshot is hidden
// from callers at once, and `cb` is called when its files are removed.
int snapshot_delete(struct store *store, struct snapshot *snap, void (*cb)(void *ctx), void *ctx,
                    struct err *e);

// ---- forks (fork.c): to create children from the present state of a sandbox
//
//  1. Save the parent into the hidden directory snapshots/.fork-<random>. The parent continues.
//  2. Create the children from that image, a few at a time. Each creation has its own admission,
//     id, tokens and entropy, and may fail alone.
//  3. When the last child is created or has failed, report the end and remove the image. Children
//     do not need it any more.
//
// A child has the owner, metadata, network policy and settings of its parent. It has the parent's
// environment as well, because envd in the image holds it.
#define FORK_COUNT_MAX 100

struct forking;
struct fork_wish {
    int64_t count, timeout_s;
    enum mounts_kept mounts; // of the parent's mounts
};
// The callbacks of a fork. They come from the loop, never inside fork_start, and never after
// fork_abandon.
struct fork_events {
    // Called once for each child, in any order, with the new sandbox, or with NULL and `e`.
    void (*on_child)(size_t index, const struct sandbox *sb, const struct err *e, void *ctx);
    // Called once, after the last child. With `e` set, no creation was started.
    void (*on_end)(const struct err *e, void *ctx);
};
// Start a fork. Return NULL, and call no event, if it is refused at once. `events` is borrowed
// until the end of the fork.
struct forking *fork_start(struct sandbox *sb, const struct fork_wish *wish,
                           const struct fork_events *events, void *ctx, struct err *e);
// End the children that were created already, because the client is gone and does not know their
// ids. Call this only before on_end.
void fork_abandon(struct forking *f);
