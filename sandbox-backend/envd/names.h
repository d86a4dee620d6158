// SPDX-License-Identifier: Apache-2.0
// The names of a guest: host name, its line in /etc/hosts, /etc/hostname, /etc/machine-id, and the
// boot id that /proc/sys/kernel/random/boot_id shows. The kernel's own boot id was drawn before the
// snapshot, is the same in all that go on from it, and cannot be set; it still shows where somebody
// mounts a /proc of his own.
//
// They change with every restore, before anyone may use the guest, so they must be quick to write.
// The first three on the disk were two thirds of /init: the first write after a restore runs the
// whole of the file system, untranslated. So each is copied into a directory on a tmpfs when envd
// starts (which is before the snapshot), mounted over its place, and held open.
#pragma once
#include "sandbox-backend/base/err.h"

enum name_file { NAME_HOSTS, NAME_HOSTNAME, NAME_MACHINE_ID, NAME_BOOT_ID, NAME_FILES };

struct names {
    int fds[NAME_FILES]; // owned; -1: could not be opened
};

void names_init(struct names *n);                  // without files: names_set fails
void names_open(struct names *n, const char *dir); // what fails is logged, and names_set says it
void names_close(struct names *n);

// ERR_INVALID for what is no host name. Machine id and boot id are new each time.
int names_set(const struct names *n, const char *hostname, struct err *e);
