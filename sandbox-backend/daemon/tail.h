// SPDX-License-Identifier: Apache-2.0
// The end of a log file.
#pragma once
#include <stddef.h>

// Reads at most the last `max` bytes of the file to `out` (room for max + 1), NUL-terminated and
// without the newlines at its end; a NUL in it is a space. How many; 0 when there is no such file.
size_t tail_read(const char *path, char *out, size_t max);
