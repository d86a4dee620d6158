// SPDX-License-Identifier: Apache-2.0
// Who the process is, and what it may do for that.
#pragma once
#include "sandbox-backend/base/err.h"

// Becomes the user and the group `id`, without other groups, and keeps its capabilities.
int identity_become(unsigned id, struct err *e);
// No capability any more, and none to be had by executing anything.
int identity_drop(struct err *e);
