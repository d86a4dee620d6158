// SPDX-License-Identifier: Apache-2.0
// What an image needs to be a guest: the user of commands, and directories to mount on.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/image/tree.h"

// Check that the image has a shell, directories to mount on, and the user of commands; add what is
// missing. user: as an image's USER names it, by name or number, with or without a group; NULL:
// "user", which is added. directory: of commands, which is made; NULL: none.
int fixup_apply(struct tree *t, const char *user, const char *directory, struct err *e);

// ---- the part, for unit tests
// Return the text of passwd with a line for `name`, and that of group with its group, as new
// strings; the first is NULL if passwd has the user already. uid: gets the user's number; home: new
// string.
struct fixup_user {
    char *passwd, *group, *home;
    uint32_t uid, gid;
};
void fixup_user(const char *passwd, const char *group, const char *name, const char *shell,
                struct fixup_user *out);
void fixup_user_fini(struct fixup_user *u);
