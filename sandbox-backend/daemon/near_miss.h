// SPDX-License-Identifier: Apache-2.0
// Members of a request that nobody knows. Who sends one wants something that he would not get, and
// might rely upon it ("denyAll"), so it is refused, unless its value asks for nothing (null, {} or
// []). Of a known name in another spelling ("template_id") it is said how it is spelt. Pure.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

// ERR_INVALID names the member of `object` and what it should be called. `where` stands in front of
// the names: "" or "network.".
int near_miss_check(const json_t *object, const char *where, const char *const *known, size_t count,
                    struct err *e);
