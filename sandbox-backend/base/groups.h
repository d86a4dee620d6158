// SPDX-License-Identifier: Apache-2.0
// The groups of users, by group(5).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Return true if `name` is in `members`, a list with commas.
bool groups_is_member(const char *members, const char *name);

// Write the groups of `user` in `file` (/etc/group): `own` first, then those that list the user, at
// most `max` (1 or more). Return how many. An unreadable file has no groups.
size_t groups_of(const char *file, const char *user, gid_t own, gid_t *out, size_t max);
