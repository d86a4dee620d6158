// SPDX-License-Identifier: Apache-2.0
// The users of a guest.
#pragma once
#include "sandbox-backend/base/err.h"

// Enter a user namespace with NEST_USERS_COUNT users, and a mount namespace that belongs to it.
// This process has all capabilities there, but opens files as the same user as before.
// ERR_PRECONDITION names the thing that is missing on the host.
int users_enter(struct err *e);

// Become root of the user namespace.
int users_become_root(struct err *e);

// Forbid the users of the namespace to make further user namespaces.
int users_seal(struct err *e);
