// SPDX-License-Identifier: Apache-2.0
// Files and descriptors: whole reads and writes, atomic replacement, trees of directories. All
// calls block: on an event loop use them for small files only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

int fd_set_nonblock(int fd, struct err *e);
int fd_set_cloexec(int fd, bool on, struct err *e);

// Write all bytes to a blocking descriptor, through short writes and EINTR.
int fd_write_all(int fd, const void *data, size_t len, struct err *e);

// Connect to a unix socket without waiting. Return the descriptor (non-blocking), or -1 with errno:
// EAGAIN if its listener's queue is full.
int fd_connect_unix(const char *path);
// Return a listening socket at `path`, or -1. Its mode is 0600, and a stale socket is replaced.
// Other users of the host cannot see the path.
int fd_listen_unix(const char *path, struct err *e);

// Create a file without a name in $TMPDIR or /tmp. Return the descriptor, or -1.
int fd_open_temp(struct err *e);
// Return the directory of temporary files. Borrowed from the environment.
const char *fd_temp_dir(void);
// The same in memory, with `data` in it and the offset at its beginning. /proc shows `name`.
int fd_open_memory(const char *name, const void *data, size_t len, struct err *e);

// Read a blocking descriptor to its end. ERR_TOO_LARGE after `max` bytes.
int fd_read_all(int fd, size_t max, struct buf *out, struct err *e);

// Read a whole file, also in /proc. ERR_TOO_LARGE if it has more than `max` bytes.
int file_read(const char *path, size_t max, struct buf *out, struct err *e);

// Read at most the last `max` bytes of a file to `out`, which has room for max + 1. Strip the
// newlines at its end, replace each NUL by a space, and end the text with a NUL. Return its length:
// 0 when the file is empty or cannot be read.
size_t file_read_tail(const char *path, char *out, size_t max);

// Replace `path` as a whole: temporary file beside it, fsync, rename, fsync of the directory.
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e);
// The same with the owner, group and permissions of `old`. ERR_DENIED if this user may not give it
// to them; `path` is then unchanged.
int file_write_atomic_like(const char *path, const void *data, size_t len, const struct stat *old,
                           struct err *e);
// Sync a file, or a directory, and the name that it has.
int file_sync(const char *path, struct err *e);
// As file_write_atomic, without fsync: readers always see a whole file, also after a crash of this
// program, but not after a crash of the machine. For state that a reboot makes worthless.
int file_replace(const char *path, const void *data, size_t len, mode_t mode, struct err *e);

// Copy a file, keep its holes, and share blocks where the file system can (reflink).
int file_copy(const char *from, const char *to, mode_t mode, struct err *e);

bool file_exists(const char *path);
// Return how many bytes this user may still write to the file system of `path`; -1 when that is
// not known.
int64_t dir_free_bytes(const char *path);
// Check that so many bytes are free. ERR_NO_SPACE says how many are, what needs them ("a sandbox
// needs") and what to do.
int dir_check_free(const char *path, int64_t needed, const char *what, struct err *e);
// Return what the files of a tree take up on the disk, in bytes; 0 for a missing tree.
int64_t dir_disk_bytes(const char *path);
bool dir_has_entries(const char *path); // other than names that begin with '.'

int dir_make(const char *path, mode_t mode, struct err *e); // with its parents; it may exist
// Lock a directory against every other holder of its lock. Return the descriptor that holds the
// lock, or -1 with errno: EWOULDBLOCK if it is locked already, ENOENT if it was removed meanwhile.
int dir_lock(const char *path);
// Remove a tree without following symbolic links. It may be missing.
int dir_remove(const char *path, struct err *e);

// Return the absolute path of a file, which need not exist, with the real path of its directory.
// New string. NULL with errno: there is no such directory.
char *file_absolute(const char *path);

// The version of a file: while the stamp is the same, the contents are.
struct file_stamp {
    uint64_t device, inode;
    int64_t size;
    struct timespec modified, changed;
};

// False if there is no such file; the stamp is then zero, which no file has.
bool file_stamp_get(const char *path, struct file_stamp *out);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);
