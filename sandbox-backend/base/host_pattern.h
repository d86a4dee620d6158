// SPDX-License-Identifier: Apache-2.0
// Hosts that something is meant for: a name, an address in digits, or "*.suffix" for every name
// below a suffix of two labels or more.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// ERR_INVALID says what is wrong with it.
int host_pattern_check(const char *pattern, struct err *e);
// `host` without a port; upper and lower case, and a dot at the end, make no difference.
bool host_pattern_matches(const char *pattern, const char *host);
