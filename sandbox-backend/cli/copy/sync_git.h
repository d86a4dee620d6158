// SPDX-License-Identifier: Apache-2.0
// Bare git repositories: git takes any directory for a repository that holds HEAD and either
// objects and refs or a commondir, and runs what the settings in it say. So a sandbox must not make
// or change one on the host. The rule for `.git` does not cover them.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/copy/listing.h"

// List the directories that hold a repository, or would if all entries of both sides were in one
// place. "" is the top.
int sync_git_find(struct listing *found, const struct listing *host, const struct listing *guest,
                  struct err *e);
// Return the repository that a path is in, nearest to the top, or NULL. Borrowed.
const char *sync_git_repository(const struct listing *found, const char *path);
