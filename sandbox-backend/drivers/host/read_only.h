// SPDX-License-Identifier: Apache-2.0
// Directories that a process can read but not change, although its user owns them.
#pragma once
#include "sandbox-backend/base/err.h"

// Open a directory. Nothing can be written or changed through the descriptor and the descriptors of
// files opened below it, not even by the owner: their contents, modes, owners and times. The
// directory stays the one that was opened, whatever takes its name later.
//
// Needs Linux 5.12, and user namespaces or CAP_SYS_ADMIN. Return the descriptor, or -1. Takes about
// a millisecond.
int read_only_open(const char *dir, struct err *e);
