// SPDX-License-Identifier: Apache-2.0
// Where a sandbox's processes write their complaints: memory of a fixed size that they share with
// us. A guest that makes QEMU complain for ever fills neither a disk nor a pipe, and nobody needs
// to read for it to go on; what comes after the first CHILDLOG_BYTES is lost.
#pragma once
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define CHILDLOG_BYTES 16384

// A sealed memfd, for the child's descriptors 1 and 2, or -1. Dies with its last holder.
int childlog_open(const char *name, struct err *e);
// The log of a process that an earlier daemon started, through its descriptor 2; or -1.
int childlog_reopen(pid_t pid);

void childlog_read(int fd, struct buf *out); // all of it; nothing when fd is -1
// The last line that is not empty, printable. New string; "" when there is none.
char *childlog_last_line(int fd);
// Keeps it as a file, for whoever looks why it ended. Nothing is written when it is empty.
void childlog_save(int fd, const char *path);
