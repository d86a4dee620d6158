// SPDX-License-Identifier: Apache-2.0
// The files of one volume, for the content API. Blocking: for a worker.
//
// The contents are a guest's: names and links may be hostile. Every path is resolved by openat2(2)
// below the volume's data directory (RESOLVE_BENEATH), so no link leads out of it. A change follows
// no link at all: so what the request names is what it changes, and as deep. A file has its
// permissions on the host, too, and its owner may always use it: the directory above lets in nobody
// else. What has no meaning on the host is in an extended attribute, which only clients see: the
// owner, and the other bits of a mode. An attribute whose permissions are no longer those of the
// file is out of date: a sandbox has changed them.
//
// Whoever calls a change has the lock of the volume's room (space.h).
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/volume/space.h"

#define VOLUME_DEPTH_MAX   16
#define VOLUME_ENTRIES_MAX 100000 // of one list

// Owner and mode that a client sets; -1: unchanged.
struct volume_meta {
    int64_t uid, gid, mode;
};

// A file of a volume. `path` begins at the volume's root; leading slashes do not matter.
struct volume_path {
    int root; // borrowed; volumes_open_files
    const char *path;
    const struct space *space; // borrowed; for changes
};

// Each returns 0, or -1 with `e`: ERR_NOT_FOUND, ERR_INVALID, ERR_CONFLICT, ERR_NO_SPACE.
// *out is a new reference: E2B's VolumeEntryStat, or a list of them.
int volume_stat(const struct volume_path *p, json_t **out, struct err *e);
int volume_list(const struct volume_path *p, int64_t depth, json_t **out, struct err *e);
// Open a regular file for reading. Return a descriptor and set *size.
int volume_open(const struct volume_path *p, int64_t *size, struct err *e);

// ---- changes (volume_changes.c). The caller has the lock, but for volume_change.

// With `force`, make parents too, and accept an existing directory.
int volume_make_dir(const struct volume_path *p, const struct volume_meta *meta, bool force,
                    json_t **out, struct err *e);
int volume_change(const struct volume_path *p, const struct volume_meta *meta, json_t **out,
                  struct err *e);
int volume_remove(const struct volume_path *p, struct err *e);
// Reserve room for an upload (space_expect). *bytes is how much was reserved: for `length` bytes;
// for a little if that is -1, unknown.
int volume_expect(const struct volume_path *p, int64_t length, int64_t *bytes, struct err *e);
int volume_full(const struct space *space, struct err *e); // set the error of a full volume
// Move a complete upload, a file beside the data directory, to its place. Without `force`,
// ERR_CONFLICT for a file that exists.
int volume_put(const struct volume_path *p, const char *upload, const struct volume_meta *meta,
               bool force, json_t **out, struct err *e);
