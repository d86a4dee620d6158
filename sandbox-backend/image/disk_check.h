// SPDX-License-Identifier: Apache-2.0
// Checks that a guest can run from a disk. Nothing is added to it: its files are the user's.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/image/disk.h"

// Check that the disk has a shell that runs, the account "user", and the account `user`, which may
// be NULL. A disk whose journal must be replayed passes: only its guest can read it.
int disk_check(struct disk *d, const char *user, struct err *e);
