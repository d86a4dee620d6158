// SPDX-License-Identifier: Apache-2.0
// repr() of a Python str.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// Appends what Python 3.11's repr gives for the string; `s` must be valid UTF-8.
void pyrepr(struct buf *out, const char *s, size_t len);
