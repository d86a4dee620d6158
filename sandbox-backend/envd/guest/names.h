// SPDX-License-Identifier: Apache-2.0
// The names of a guest: host name, its line in /etc/hosts, /etc/hostname, /etc/machine-id, and the
// boot id in /proc/sys/kernel/random/boot_id. The guest kernel's own boot id was drawn before the
// image was saved, is the same in all guests restored from it, and cannot be set. The old boot id
// is still visible in another mount of /proc.
//
// The names change with every restore, before the guest may be used, so they must be quick to
// write. Writing the first three to the disk took two thirds of the time of /init, because TCG has
// to translate the file system's code at the first write after a restore. So each file is copied to
// a tmpfs when envd starts (before the image is saved), mounted over the original, and kept open.
#pragma once
#include "sandbox-backend/base/err.h"

struct names;

// Put the files on the tmpfs `dir` and open them. If `dir` is NULL, names_set will fail. A file
// that cannot be opened is logged, and names_set reports it.
struct names *names_new(const char *dir);
void names_free(struct names *n);

// Set the host name, and draw a new machine id and boot id. ERR_INVALID for an invalid host name.
int names_set(const struct names *n, const char *hostname, struct err *e);
