// SPDX-License-Identifier: Apache-2.0
// Shared by the editors of TOML and YAML. Both read every line of the file strictly, and refuse
// the file at the first line that they do not surely understand.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// Set ERR_INVALID: `what` is wrong in the line of `at`, a place in `text`. Return -1.
int lines__fail(const char *text, const char *at, const char *what, struct err *e);
// Check the characters: UTF-8 without a byte order mark, and no control character but tabs and the
// ends of lines.
int lines__check(const char *text, struct err *e);
// End the last line of the text, unless it has an end.
void lines__end(struct buf *out);
