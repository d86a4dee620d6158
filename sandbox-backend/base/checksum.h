// SPDX-License-Identifier: Apache-2.0
// A sum over a file's contents that tells damage, as fast as memory is read: not for what somebody
// may have changed on purpose. A change within 8 bytes (from a multiple of 8 on) is found for sure,
// of others all but one in 2^64 or so.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// Blocking, and read, not mapped: a page that cannot be read is an error, not SIGBUS. ERR_TOO_LARGE
// when there is more than `max` bytes of it: who still has it open may make it grow as it is read.
int checksum_file(const char *path, uint64_t max, uint64_t *sum, struct err *e);
