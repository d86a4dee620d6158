// SPDX-License-Identifier: Apache-2.0
// Whether the kernel has ended programs because memory ran out.
#pragma once
#include <stdint.h>

int out_of_memory_open(void); // for out_of_memory_kills; -1 where that is not told
// How many programs the kernel has ended for it since it started. It counts one before it ends it.
int64_t out_of_memory_kills(int fd);
