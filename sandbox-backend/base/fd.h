// SPDX-License-Identifier: Apache-2.0
// Files and descriptors: whole reads and writes, atomic replacement, trees of directories.
// Blocking; small files only on an event loop.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

int fd_set_nonblock(int fd, struct err *e);
int fd_set_cloexec(int fd, bool on, struct err *e);

// Writes all of it to a blocking descriptor, over short writes and EINTR.
int fd_write_all(int fd, const void *data, size_t len, struct err *e);

// Connects to a unix socket, without waiting. The descriptor (non-blocking), or -1 with errno:
// EAGAIN is one that listens and whose queue is full.
int fd_connect_unix(const char *path);

// A new file without a name, in $TMPDIR or /tmp. The descriptor, or -1.
int fd_open_temp(struct err *e);
// The same in memory, with `data` in it, to be read from its beginning; /proc shows `name`.
int fd_open_memory(const char *name, const void *data, size_t len, struct err *e);

// Reads a blocking descriptor to its end, at most `max` bytes; ERR_TOO_LARGE past that.
int fd_read_all(int fd, size_t max, struct buf *out, struct err *e);

// Reads a whole file of at most `max` bytes; ERR_TOO_LARGE past that. Works for /proc too.
int file_read(const char *path, size_t max, struct buf *out, struct err *e);

// Replaces `path` as a whole: temporary file beside it, fsync, rename, fsync of the directory.
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e);
// The same without either fsync: whole for whoever reads it and after a crash of this program, but
// not after one of the machine. For state that a reboot makes worthless.
int file_replace(const char *path, const void *data, size_t len, mode_t mode, struct err *e);

// Copies a file, keeping its holes, sharing blocks where the file system can (reflink).
int file_copy(const char *from, const char *to, mode_t mode, struct err *e);

bool file_exists(const char *path);
bool dir_has_entries(const char *path); // whose names do not begin with '.'

int dir_make(const char *path, mode_t mode, struct err *e); // with its parents; existing is fine
// Removes a tree without following symbolic links; a missing one is fine.
int dir_remove(const char *path, struct err *e);
