// SPDX-License-Identifier: Apache-2.0
// The local directories from which tools may read files, and to which they may write downloads.
#pragma once
#include <stdbool.h>

#include "mcp-server/config/config.h"
#include "sandbox-backend/base/err.h"

struct local_dirs;

// Open the allowed directories: the working directory (unless it is "/"), LOGS_DIR/tmpfiles
// (created if missing) and those of --local-dir. With --http only those of --local-dir, because the
// files belong to the server's user, not to its callers. A directory that cannot be opened is left
// out, with a warning. Return NULL with `e` when none is left.
struct local_dirs *local_dirs_new(const struct config *config, struct err *e);
void local_dirs_free(struct local_dirs *d);

// Return the directory of downloads that name none: the first one. Borrowed.
const char *local_dirs_first(const struct local_dirs *d);

// Open a regular file for reading. A relative path starts at the working directory. Return a new
// descriptor, or -1. ERR_DENIED: the path leads out of the allowed directories, also by way of
// symbolic links or "..".
int local_dirs_open(const struct local_dirs *d, const char *path, struct err *e);

// A file that is being written, under a temporary name until it is complete.
struct local_file {
    bool replace;
    int dir;    // owned
    int fd;     // owned; steal_fd() to hand it to a writer
    char *name; // owned; in `dir`
    char *temp; // owned; in `dir`
    char *path; // owned; absolute, for people
};
// Create the file. Its directory must exist, in an allowed directory as for local_dirs_open.
// ERR_DENIED: a name in the path below the allowed directory begins with '.', before or after
// symbolic links are resolved. ERR_EXISTS: a file of that name exists now, or at the commit, and
// `replace` is false.
int local_file_create(struct local_file *f, const struct local_dirs *d, const char *path,
                      bool replace, struct err *e);
// Give the file its name. Free `f`'s members, also on failure.
int local_file_commit(struct local_file *f, struct err *e);
// Remove the temporary file and free `f`'s members.
void local_file_abort(struct local_file *f);
