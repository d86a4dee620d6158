// SPDX-License-Identifier: Apache-2.0
// The local directories that tools may read files of, and write downloads to.
#pragma once
#include <stdbool.h>

#include "mcp-server/config.h"
#include "sandbox-backend/base/err.h"

struct local_dirs;

// The working directory (unless that is "/"), LOGS_DIR/tmpfiles (made when missing) and what
// --local-dir names; when HTTP is served the latter alone, as whoever calls is not whose files
// these are. A directory that cannot be opened is left out, with a warning. NULL with `e`
// when none is left.
struct local_dirs *local_dirs_new(const struct config *config, struct err *e);
void local_dirs_free(struct local_dirs *d);

// Where a download goes that names no directory: the first of them. Borrowed.
const char *local_dirs_first(const struct local_dirs *d);

// Opens a regular file for reading. A relative path starts at the working directory. New
// descriptor, or -1: ERR_DENIED when the path is not below an allowed directory, also by way of
// symbolic links or "..".
int local_dirs_open(const struct local_dirs *d, const char *path, struct err *e);

// A file that is being written: under a name of its own until it is whole.
struct local_file {
    bool replace;
    int dir;    // owned
    int fd;     // owned; steal_fd() to hand it to a writer
    char *name; // owned; in `dir`
    char *temp; // owned; in `dir`
    char *path; // owned; absolute, for people
};
// The same rules for its directory, which must be there. No name on the way may begin with '.',
// below the allowed directory, also by way of links: ERR_DENIED. Without `replace`, nothing may
// have that name, neither now nor at the commit: ERR_EXISTS.
int local_file_create(struct local_file *f, const struct local_dirs *d, const char *path,
                      bool replace, struct err *e);
int local_file_commit(struct local_file *f, struct err *e); // frees, also when it fails
void local_file_abort(struct local_file *f);                // leaves nothing; frees
