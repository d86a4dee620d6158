// SPDX-License-Identifier: Apache-2.0
// Whether one more sandbox fits on this machine.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/create.h"
#include "sandbox-backend/daemon/store.h"

// Defaults for this machine: guests may be promised 80 % of its memory, all together.
void admission_defaults(struct store_limits *limits);

// ERR_LIMIT says which limit, what is in use, and how to raise it.
int admission_check(const struct store *store, const struct create_spec *spec, struct err *e);
