// SPDX-License-Identifier: Apache-2.0
// Paths and attributes of a volume's files. For the files of this folder.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/volumes/volume_files.h"

#define VOLUME_META "user.cubby.meta" // "mode:uid:gid", the mode in octal

// Return the permissions on the host of a file for which a client wants this mode.
static inline mode_t volume__host_mode(int64_t mode, bool is_dir)
{
    return ((mode_t)mode & 0777) | (is_dir ? 0700 : 0600);
}

// Open a path below the root, without following any link on the way. Flags may have O_NOFOLLOW for
// the last name. -1 with errno.
int volume__open(int root, const char *path, int flags);
// The same for a request that changes nothing: links may lead to other files below the root, but
// not into REMOVED_DIR.
int volume__open_to_read(int root, const char *path, int flags);
// Return the path without empty parts and ".", relative to the root: "" is the root. New string, or
// NULL: the path has "..", a part that is too long, or too many parts.
char *volume__plain(const char *path, struct err *e);
// Open the directory of the last part of a plain path, and set *name to that part. The root has no
// such directory.
int volume__parent(int root, const char *path, const char **name, struct err *e);
// Set the error for errno, which a call on this path has set.
int volume__failed(const char *path, struct err *e);

void volume__meta_read(int fd, const struct stat *st, struct volume_meta *out);
// `fd` is the file, opened with O_PATH and without following a link. New reference.
json_t *volume__show(int fd, const char *path, struct err *e);
