// SPDX-License-Identifier: Apache-2.0
// The stderr of a sandbox's processes: memory of a fixed size that they share with the daemon. So a
// guest that makes its process write without end fills neither a disk nor a pipe, and the process
// never waits for a reader. Everything after the first CHILDLOG_BYTES is lost.
#pragma once
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define CHILDLOG_BYTES 16384

// Return a sealed memfd for the child's descriptors 1 and 2, or -1. The memory is freed when the
// last descriptor of it is closed.
int childlog_open(const char *name, struct err *e);
// Return the log of a process that an earlier daemon started, by its descriptor 2, or -1.
int childlog_reopen(pid_t pid);

void childlog_read(int fd, struct buf *out); // appends the whole log, or nothing if fd is -1
// Return the last line that is not empty, made printable. New string; "" when there is none.
char *childlog_last_line(int fd);
char *childlog_first_line(int fd); // the same, of the first line
// Save the log as a file, which tells why the process ended. Writes no file for an empty log.
void childlog_save(int fd, const char *path);

// Return at most `max` bytes of the first line of `s`, with '?' for each byte that is not printable
// ASCII. New string.
char *childlog_printable(const char *s, size_t len, size_t max);
