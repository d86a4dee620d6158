// SPDX-License-Identifier: Apache-2.0
// What the files of the context share.
#pragma once
#include "sandbox-backend/build/build_context.h"
#include "sandbox-backend/build/ignore.h"

struct build_context {
    int dir;               // descriptor, owned
    char *path;            // owned; for messages
    struct ignore *ignore; // owned; NULL: nothing is left out
};

// Open a path inside the context. A link is followed, but never out of the context. Return the
// descriptor, or -1 with errno.
int build_context__open(const struct build_context *c, const char *path, int flags);
// Tell whether the file is a tar, compressed or not.
bool build_context__is_archive(int fd);
