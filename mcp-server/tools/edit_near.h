// SPDX-License-Identifier: Apache-2.0
// What in a text is like something that does not occur in it. Pure.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/err.h"

// Always -1, with ERR_NOT_FOUND: the lines that differ from `old` in white space alone, or else the
// line that is most like its first one.
int edit_near_fail(const char *data, size_t len, const char *old, struct err *e);
