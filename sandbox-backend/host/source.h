// SPDX-License-Identifier: Apache-2.0
// A directory of the host that sandboxes get to see, and how it is found again.
//
// cubbyd opens the directory of a mount again for each connection, and cubby-mcp uses the
// directories of its options in each call. Meanwhile guests may change what lies above: a mount can
// show the directory's parent. So the path is resolved once, and the directory's identity is kept.
// Later no symbolic link is followed, and another directory at the path is refused.
#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct mount_identity {
    int64_t dev, ino, uid; // of stat(2)
};

// Resolve the path of a directory of the host, with its links, to `path`, and set *is.
// ERR_NOT_FOUND, ERR_INVALID (no directory).
int source_resolve(const char *wanted, char path[PATH_MAX], struct mount_identity *is,
                   struct err *e);
// Open the directory for paths below it. Return a descriptor. ERR_PRECONDITION: it is another one;
// `remedy` ends that error and says what to do.
int source_open(const char *path, const struct mount_identity *is, const char *remedy,
                struct err *e);

// Check the paths of two mounts in one sandbox, in their plain form: they differ, and neither lies
// below the other. ERR_EXISTS: they are the same; ERR_CONFLICT.
int source_targets_apart(const char *target, const char *other, struct err *e);

void source_to_json(const struct mount_identity *is, json_t *json);
int source_from_json(struct mount_identity *is, const json_t *json, struct err *e);
