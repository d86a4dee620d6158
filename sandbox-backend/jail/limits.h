// SPDX-License-Identifier: Apache-2.0
// Resource limits of the process, below which it may only go.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/jail/jail.h"

// own_user: no other process has its user, so that its number of processes can be limited.
int limits_set(enum jail_kind kind, bool own_user, struct err *e);
