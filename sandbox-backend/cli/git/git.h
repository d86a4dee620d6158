// SPDX-License-Identifier: Apache-2.0
// The git of this host, for cubby work. Its settings here keep it from what a repository of a
// sandbox could misuse: other transports, submodules, invalid objects, programs for diffs.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// Let git find git-remote-cubby, and this program's git-remote the same backend.
struct backend_opts;
int git_prepare(const struct backend_opts *server, struct err *e);

// Run git with arguments (NULL-terminated, without "git") in this directory, its output as lines
// of visible text on our stderr. -1 with ERR_PRECONDITION: it failed, and has said why.
int git_run(const char *const *args, struct err *e);
// The same, but append its output to `out` without the line end at its end, and drop its stderr.
int git_output(const char *const *args, struct buf *out, struct err *e);
