// SPDX-License-Identifier: Apache-2.0
// Namespaces of the process's own, and the users of its user namespace.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

// The CLONE_NEW* flag of a wall that is a namespace; 0 for another wall.
int namespace_flag(int wall);
// Enters new ones for those of `walls` that are namespaces, but for user and pid. Which one cannot
// be made is said.
int namespaces_enter(unsigned walls, struct err *e);
// Enters a new user namespace in which this user is `inside` and nobody else is anybody. proc: a
// descriptor of /proc/self.
int namespaces_enter_user(int proc, unsigned inside, struct err *e);
