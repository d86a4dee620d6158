// SPDX-License-Identifier: Apache-2.0
// The rules of .cubbyignore as cubby sync reads them, with the meaning that they have for mounts.
//
// A line is a pattern, a comment (#) or an exception (!pattern). The last line that matches
// decides. With a leading slash a pattern begins at the top, else at any directory. A hidden
// directory hides all in it, and an exception does not bring that back.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

#define SYNC_RULES_FILE  ".cubbyignore"
#define SYNC_RULES_BYTES (1 << 20)
#define SYNC_RULES_MAX   10000

struct sync_rules;

// Make the rules of a text. NULL with ERR_INVALID: a line names nothing, or there are too many.
struct sync_rules *sync_rules_new(const char *text, size_t len, struct err *e);
void sync_rules_free(struct sync_rules *r);
// Return whether a path or a directory on the way to it is hidden. NULL hides nothing.
bool sync_rules_hide(const struct sync_rules *r, const char *path);
