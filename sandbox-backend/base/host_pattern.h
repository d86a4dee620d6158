// SPDX-License-Identifier: Apache-2.0
// Host patterns: a name, an address in digits, or "*.suffix" for every name below a suffix of two
// or more labels.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// Check a pattern. ERR_INVALID says what is wrong.
int host_pattern_check(const char *pattern, struct err *e);
// Match `host` (without a port) regardless of case and of a dot at its end.
bool host_pattern_matches(const char *pattern, const char *host);
