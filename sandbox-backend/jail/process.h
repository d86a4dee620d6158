// SPDX-License-Identifier: Apache-2.0
// Confine the process itself: its namespaces, user, capabilities and limits.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/jail/jail.h"

// Become user and group `id` without other groups, and keep the capabilities.
int identity_become(unsigned id, unsigned group, struct err *e);
// Drop all capabilities, so that executing a program cannot regain any.
int identity_drop(struct err *e);

// ---- the process's own namespaces, and the users of its user namespace

// Return the CLONE_NEW* flag of a wall that is a namespace; 0 for another wall.
int namespace_flag(int wall);
// Enter new namespaces for those of `walls` that are namespaces, except user and pid. The error
// names the one that cannot be made.
int namespaces_enter(unsigned walls, struct err *e);
// Enter a new user namespace in which this user is `inside` and no other user exists. proc: a
// descriptor of /proc/self.
int namespaces_enter_user(int proc, unsigned inside, struct err *e);

// ---- resource limits; they can only become lower

// Return whether this kernel counts a user's processes separately in each user namespace (Linux
// 5.14).
bool limits_count_by_namespace(void);
// counted_alone: the host kernel counts no other process for this user, so the number of processes
// can be limited.
int limits_set(enum jail_kind kind, bool counted_alone, struct err *e);
