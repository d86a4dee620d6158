// SPDX-License-Identifier: Apache-2.0
// .dockerignore: which files of a context a build does not see.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

#define IGNORE_BYTES_MAX    (1 << 20)
#define IGNORE_PATTERNS_MAX 10000

struct ignore;

// Make the patterns of a file. NULL with ERR_INVALID.
struct ignore *ignore_new(const char *text, size_t len, struct err *e);
void ignore_free(struct ignore *ig);
// Return whether the path is left out. `path` is relative to the context, without "./". A path is
// also left out if a parent matches and no later "!" pattern brings it back. NULL leaves out
// nothing.
bool ignore_matches(const struct ignore *ig, const char *path);
// Return whether a "!" pattern exists, so that a directory that is left out must still be read.
bool ignore_has_exceptions(const struct ignore *ig);

// Match a path with a pattern of path.Match: * ? [a-z] [^a-z] \c, which never match '/'. With
// `deep`, "**" matches any number of directories.
bool glob_matches(const char *pattern, const char *path, bool deep);
bool glob_is_pattern(const char *text); // it has one of * ? [ and the backslash
