// SPDX-License-Identifier: Apache-2.0
// Write a whole file: the bytes go into a temporary file beside it, which replaces it at the end.
// The user owns the file and new directories; an existing file keeps its mode. The part of a large
// file after the first MiB goes to the disk without the page cache (files_internal.h).
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/users.h"

struct file_sink {
    int fd;       // owned; -1: not open
    char *target; // owned; the final path, with symbolic links at its end resolved
    char *temp;   // owned; NULL: written in place, where no file can be created (/proc, /sys)
    size_t begun; // bytes written through the page cache so far, at most FILE_SINK_CACHED_BYTES
    char *block;  // owned; NULL: the next bytes go through the page cache
    size_t held;  // bytes in `block`
};

#define FILE_SINK_CACHED_BYTES (1024 * 1024) // of each file; whole blocks

#define FILE_SINK_INIT \
    (struct file_sink) \
    {                  \
        .fd = -1       \
    }

// Open a sink. ERR_INVALID if the path is not a regular file. File operations block.
int file_sink_open(struct file_sink *s, const char *path, const struct user *user, struct err *e);
// ERR_NO_SPACE if the disk is full. Some bytes may stay in memory until file_sink_commit.
int file_sink_write(struct file_sink *s, const void *data, size_t len, struct err *e);
int file_sink_commit(struct file_sink *s, struct err *e);
void file_sink_abort(
    struct file_sink *s); // removes the temporary file; may be called when nothing is open
