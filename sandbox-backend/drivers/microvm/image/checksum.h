// SPDX-License-Identifier: Apache-2.0
// A checksum of a file's contents that detects damage, at the speed of memory. It does not detect
// deliberate changes. A change inside 8 aligned bytes is always detected; of other changes, about
// one in 2^64 is missed.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// Compute the checksum. Blocking. The file is read, not mapped, so an unreadable page is an error
// and not SIGBUS. ERR_TOO_LARGE if it has more than `max` bytes: a process that has it open may let
// it grow meanwhile.
int checksum_file(const char *path, uint64_t max, uint64_t *sum, struct err *e);
