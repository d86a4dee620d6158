// SPDX-License-Identifier: Apache-2.0
// Removing a directory that may hold large files without holding up the loop: unlinking a file
// frees all its blocks and cached pages at once, about 70 ms for each GB, so a large one is first
// cut down in steps.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

#define REMOVAL_STEP_BYTES 67108864 // about 5 ms of work

// Cuts a piece off one large file in `dir` (not below it). False: there is none (any more).
bool removal_step(const char *dir);
