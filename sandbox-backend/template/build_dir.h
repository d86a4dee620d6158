// SPDX-License-Identifier: Apache-2.0
// The build directory of a template. A finished build becomes visible at once, a failed one never.
//
// A build works in <templates>/.build-<name>-<8 hex digits>/, where <templates> is that directory
// of the home or of the system. The build and every program that it runs hold a lock (flock) on the
// directory itself. So the lock tells whether a process may still write there, however the build
// ended. The next build removes the directories that are not locked. The removal, and the creation
// of a build's directory, happen under a lock on <templates>.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct build_dir {
    char *templates; // owned; the directory of the templates
    char *name;      // owned
    char *path;      // owned; of the directory
    int lock;        // descriptor that holds the lock; child processes inherit it
    bool is_shared;  // all users of the host may read the template
};

// Remove the directories of ended builds, and make a directory to build `name` in. ERR_CONFLICT
// when another process builds the same name. is_shared: let all users of the host read the result.
int build_dir_open(struct build_dir *p, const char *templates, const char *name, bool is_shared,
                   struct err *e);

// Sync all files and make the directory the template. One rename swaps it with the old template, if
// any. Machines of the old template keep their open files.
int build_dir_commit(struct build_dir *p, struct err *e);

// Sync all files and move a directory of the build into the template `name`, which exists. A
// directory of that name, which an interrupted build left there, is replaced.
int build_dir_commit_part(struct build_dir *p, const char *part, struct err *e);

// Remove the rest of the build (after a commit: the old template) and release the lock.
void build_dir_close(struct build_dir *p);
