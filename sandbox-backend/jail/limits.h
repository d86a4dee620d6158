// SPDX-License-Identifier: Apache-2.0
// Resource limits of the process, below which it may only go.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/jail/jail.h"

// Whether this kernel counts a user's processes in each user namespace apart (Linux 5.14).
bool limits_count_by_namespace(void);
// counted_alone: of its user no other process is counted with it, so that there can be a limit.
int limits_set(enum jail_kind kind, bool counted_alone, struct err *e);
