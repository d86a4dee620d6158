// SPDX-License-Identifier: Apache-2.0
// The files in an archive.
//
// The manifest has them as the member "files": [{"name", "size", "extents": [[offset, length],
// ...]}]. The data has the extents of each file, one after the other; the rest of a file is a hole.
// So an archive cannot make its reader write more than it holds, apart from the ratio of the
// compression, and free space is checked before the first byte is written.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/template/move/archive.h"

#define CARRY_FILES_MAX 24

// ---- writing
struct carry {
    int fds[CARRY_FILES_MAX];
    json_t *files; // owned; the member of the manifest
};

// Check that an archive can get this path: nothing is there. For the beginning of an export.
int carry_check_path(const char *path, struct err *e);
void carry_init(struct carry *c);
// Open a file of the directory `dir` and add it under the name `name`.
int carry_add(struct carry *c, int dir, const char *path, const char *name, struct err *e);
// Write an archive with these files, as a new file. manifest: gets the member "files". digest: gets
// that of the contents. SIGINT ends it with ERR_CANCELED (tool_watch_signals).
int carry_write(const struct carry *c, json_t *manifest, const char *path, mode_t mode,
                struct sha256 *digest, struct err *e);
void carry_fini(struct carry *c);

// ---- reading
// The files that an archive may have, in this order. A reader makes files of these names only.
struct carry_rule {
    const char *name; // relative to the directory of the import
    int64_t max;      // bytes
    bool optional;
};

// Check the member "files" of a manifest, and that `dir` has room for them. The error calls the
// archive one of `what`.
int carry_check(const json_t *files, const struct carry_rule *rules, size_t count, const char *dir,
                const char *what, struct err *e);
// Make the checked files below `dir`. The directories in their names must exist.
int carry_read(struct archive_reader *r, const json_t *files, const char *dir, struct err *e);

// Make a new directory <home>/cache/import-<random> and lock it. New string, or NULL.
char *carry_dir(const char *home, int *lock, struct err *e);
