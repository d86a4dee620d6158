// SPDX-License-Identifier: Apache-2.0
// Who is in which group, by group(5).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Whether `name` is one of `members`, names with commas between.
bool groups_is_member(const char *members, const char *name);

// The groups of `user` in `file` (/etc/group): `own` first, then those that list the user; at most
// `max`, at least 1. How many. A file that cannot be read has no groups.
size_t groups_of(const char *file, const char *user, gid_t own, gid_t *out, size_t max);
