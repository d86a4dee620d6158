// SPDX-License-Identifier: Apache-2.0
// Directories of the host, and volumes, that sandboxes show (docs/mounts.md).
//
// A mount has two programs. mountfs in the guest is a FUSE file system that listens on a port.
// cubby-mountd on the host, in a jail that holds only this directory, connects to it. The steps:
//
//  1. PUT: write mountfs into the guest (envd's /files). It is no part of a template, so a guest
//     without mounts has nothing of it.
//  2. START: run it as root. It mounts, and waits for a connection.
//  3. SERVE: start cubby-mountd with a connection to the guest. It says "ready".
//
// The guest's memory has all that mountfs knows, and the mount's token. So after a pause, a wake, a
// rollback or a restart of the daemon, step 3 is enough. If nothing listens in the guest (a
// rollback to a time before the mount, or a guest that booted), the steps begin with 1 again. A
// cubby-mountd that ends is started again, with growing waits, while its sandbox runs.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/host/source.h"

struct store;
struct volume;

#define MOUNTS_MAX 8 // of one sandbox, beside those that the guest is unmounting

struct mount_want {
    const char *source;          // absolute path of a directory of the host
    const struct volume *volume; // instead of a directory, and not for mounts_check; NULL: none
    const char *target;          // absolute path in the guest
    bool read_only;
    bool resolved; // the source has no symbolic link: refuse it otherwise
    // Set by mounts_check: the directory without links on the way, and its identity.
    char directory[PATH_MAX];
    struct mount_identity is;
};

// Check what a caller wants, and find the directory. ERR_INVALID, ERR_NOT_FOUND, ERR_EXISTS (the
// target is mounted), ERR_CONFLICT (a mount shows a directory above or below, or is at a path
// above or below), ERR_LIMIT,
// ERR_UNIMPLEMENTED (the sandbox's driver).
int mounts_check(const struct sandbox *sb, struct mount_want *want, struct err *e);

bool mounts_have_room(const struct sandbox *sb); // for one more
// Check a path of the guest. ERR_INVALID.
int mounts_check_target(const char *target, struct err *e);

// Called once, from the loop, and never by mounts_add itself. After an error nothing is mounted.
// ERR_GONE: the sandbox has ended.
typedef void (*mounts_cb)(const struct err *e, void *ctx);
// Mount a directory in a running sandbox, after mounts_check, or a volume if there is room.
struct mount *mounts_add(struct sandbox *sb, const struct mount_want *want, mounts_cb cb,
                         void *ctx);
void mounts_forget_caller(struct mount *m); // its callback is not called any more
// Unmount. ERR_NOT_FOUND: nothing is mounted there. The guest does it in a moment.
int mounts_remove(struct sandbox *sb, const char *target, struct err *e);
// Return the mounts as the API shows them: source or volume, target, readOnly, state. New
// reference.
json_t *mounts_view(const struct sandbox *sb);
// Return the mounted volumes in E2B's form: name and path. New reference.
json_t *mounts_volumes(const struct sandbox *sb);
// Return a sandbox in which the volume is mounted, also one that sleeps; NULL: there is none.
const struct sandbox *mounts_user(const struct store *store, const struct volume *volume);

// ---- hooks of the store (store.h)
void mounts_on_state(struct sandbox *sb);
int mounts_from_json(struct sandbox *sb, const json_t *list, struct err *e);
// Convert the mounts for the record, or for a copy of the guest. NULL: there are none.
json_t *mounts_inherit(const struct sandbox *parent, enum mounts_kept kept);
