// SPDX-License-Identifier: Apache-2.0
// Writing a file as a whole: into a temporary one beside it, which takes its place at the end. The
// file, and new directories, belong to the user; one that was there keeps its mode. What a large
// file has behind its first MiB goes to the disk without the page cache (direct_block.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/users.h"

struct file_sink {
    int fd;       // owned; -1: not open
    char *target; // owned; what the temporary file becomes: symbolic links at its end are followed
    char *temp;   // owned; NULL: written in place, where no file can be made (/proc, /sys)
    size_t begun; // bytes of the beginning that were written, at most FILE_SINK_CACHED_BYTES
    char *block;  // owned; NULL: what comes goes through the page cache
    size_t held;  // bytes in `block`
};

#define FILE_SINK_CACHED_BYTES (1024 * 1024) // of each file; whole blocks

// Whether a file's name is that of a temporary one.
bool file_sink_is_temp(const char *name);

#define FILE_SINK_INIT \
    (struct file_sink) \
    {                  \
        .fd = -1       \
    }

// ERR_INVALID for a directory and for what is no regular file. Blocking, as local files are.
int file_sink_open(struct file_sink *s, const char *path, const struct user *user, struct err *e);
// ERR_NO_SPACE when the disk is full. It may hold back a part until file_sink_commit.
int file_sink_write(struct file_sink *s, const void *data, size_t len, struct err *e);
int file_sink_commit(struct file_sink *s, struct err *e);
void file_sink_abort(struct file_sink *s); // removes the temporary file; fine when it is not open
