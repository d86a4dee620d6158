// SPDX-License-Identifier: Apache-2.0
// Paths in requests, and the directories above them. A path is a string of any bytes.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/users.h"

// Resolve a path of a request to an absolute one without "." and "..": "" is `default_dir` (NULL or
// "": the user's home), "~" is the user's home, "~/x" and "x" are below it, "/x" is itself. New
// string. ERR_INVALID for "~other".
char *path_resolve(const char *path, const struct user *user, const char *default_dir,
                   struct err *e);

// Remove "//", "." and ".." from an absolute path, without looking at the file system. New string.
char *path_clean(const char *absolute);

char *path_parent(const char *path); // new string; "/" for "/" and "/x"

// Follow symbolic links at the end of `path` to where a write would go; the target may be missing.
// New string, or NULL (ERR_PRECONDITION for a cycle).
char *path_follow(const char *path, struct err *e);

// Create the directory `path` and its missing parents (0755), owned by the user. *existed says
// whether the directory was there before. ERR_INVALID if something else is there.
int path_make_dirs(const char *path, const struct user *user, bool *existed, struct err *e);

// During its upload, a file has a temporary name beside its target. Watches do not report files
// with such names.
// The name also tells watches whether the target is there already.
char *path_temp(const char *dir, bool replaces); // new string: a unique temporary name in `dir`
bool path_is_temp(const char *name);
bool path_temp_replaces(const char *name); // of a temporary name
