// SPDX-License-Identifier: Apache-2.0
// Paths as envd's callers write them, and the directories that lead to them. Paths are bytes.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/users.h"

// "" is `default_dir` (NULL or "": the user's home), "~" and "~/x" the user's home, "x" is below
// the user's home, "/x" is itself; "." and ".." are taken out. New string: absolute. "~other" is
// ERR_INVALID.
char *path_resolve(const char *path, const struct user *user, const char *default_dir,
                   struct err *e);

// Takes "//", "." and ".." out of an absolute path, as text. New string.
char *path_clean(const char *absolute);

char *path_parent(const char *path); // new string; "/" for "/" and "/x"

// Where writing to `path` would write: its symbolic links at the end followed, also to what is not
// there. New string, or NULL (ERR_PRECONDITION for a cycle).
char *path_follow(const char *path, struct err *e);

// Makes `path` and its missing parents (0755), each new one given to the user. An existing
// directory is fine and sets *existed; an existing other thing is ERR_INVALID.
int path_make_dirs(const char *path, const struct user *user, bool *existed, struct err *e);
