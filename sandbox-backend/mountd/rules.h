// SPDX-License-Identifier: Apache-2.0
// The rules that hide files of a mounted directory, as .gitignore writes them.
//
// A line is a pattern, a comment (#) or an exception (!pattern). The last line that matches
// decides. A pattern has one or more names with the wildcards of fnmatch(3). With a leading slash
// it begins at the mount's root, else at any directory, as with a leading "**/". A hidden directory
// hides all in it, and an exception does not bring that back.
//
// Rules match names, so a rename could take a file out of a rule of several names: `.git/config`,
// after `.git` is renamed. rules_pin tells such directories, which must keep their names.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

#define RULES_FILE      ".cubbyignore"
#define RULES_BYTES_MAX 65536
#define RULES_MAX       1024
#define RULE_NAMES_MAX  16

struct rules {
    struct rule *items; // owned
    size_t count;
};

extern const char RULES_DEFAULT[]; // text, hidden unless RULES_FILE makes an exception

// Add the lines of a text. ERR_INVALID: a line cannot be kept as it is meant, so the files that it
// shall hide would be seen.
int rules_add(struct rules *r, const char *text, size_t len, struct err *e);
void rules_fini(struct rules *r);

// Return whether the path (wire.h) or a directory on the way to it is hidden.
bool rules_hide(const struct rules *r, const char *path);
// Return whether a rule of several names names this directory on the way. If it got or lost this
// name, the rule might show what it hides now.
bool rules_pin(const struct rules *r, const char *path);
