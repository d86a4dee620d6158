// SPDX-License-Identifier: Apache-2.0
// Members of a request that nobody knows. A client of another version of the API may send some, and
// they are ignored; but one that is a known name in another spelling ("template_id") is a mistake
// that would be hard to find if nothing were said. Pure.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

// ERR_INVALID names the member of `object` and what it should be called. `where` stands in front of
// the names: "" or "network.".
int near_miss_check(const json_t *object, const char *where, const char *const *known, size_t count,
                    struct err *e);
