// SPDX-License-Identifier: Apache-2.0
// The files of one volume, for the content API. Blocking: for a worker.
//
// The contents are a guest's: names and links may be hostile. Every path is resolved by openat2(2)
// below the volume's data directory (RESOLVE_BENEATH), so no link leads out of it. Files have the
// modes 0600 and 0700 on the host, whatever a client asks for. The mode and the owner that a client
// sees are in an extended attribute, so that nothing here needs rights or gives any.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define VOLUME_DEPTH_MAX   16
#define VOLUME_ENTRIES_MAX 100000 // of one list

// Owner and mode that a client sets; -1: unchanged.
struct volume_meta {
    int64_t uid, gid, mode;
};

// A file of a volume. `path` begins at the volume's root; leading slashes do not matter.
struct volume_path {
    const char *data; // the volume's data directory
    const char *path;
};

// Each returns 0, or -1 with `e`: ERR_NOT_FOUND, ERR_INVALID, ERR_CONFLICT, ERR_NO_SPACE. *out is a
// new reference: E2B's VolumeEntryStat, or a list of them.
int volume_stat(const struct volume_path *p, json_t **out, struct err *e);
int volume_list(const struct volume_path *p, int64_t depth, json_t **out, struct err *e);
// With `force`, make parents too, and accept an existing directory.
int volume_make_dir(const struct volume_path *p, const struct volume_meta *meta, bool force,
                    json_t **out, struct err *e);
int volume_change(const struct volume_path *p, const struct volume_meta *meta, json_t **out,
                  struct err *e);
int volume_remove(const struct volume_path *p, struct err *e);
// Open a regular file for reading. Return a descriptor and set *size.
int volume_open(const struct volume_path *p, int64_t *size, struct err *e);
// Move a complete upload, a file beside the data directory, to its place. Without `force`,
// ERR_CONFLICT for a file that exists.
int volume_put(const struct volume_path *p, const char *upload, const struct volume_meta *meta,
               bool force, json_t **out, struct err *e);
