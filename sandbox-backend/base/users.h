// SPDX-License-Identifier: Apache-2.0
// The users and groups of a guest, from /etc/passwd and /etc/group (passwd(5), group(5)). The
// guest's programs parse them themselves, because a static program cannot load glibc's name
// services. A file is read again when it has changed.
#pragma once
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define USER_NAME_BYTES 64 // useradd allows 32; longer names are not found
#define USER_HOME_BYTES 512
#define USER_GROUPS_MAX 64 // supplementary groups; further ones are left out

struct user {
    char name[USER_NAME_BYTES];
    char home[USER_HOME_BYTES];
    uid_t uid;
    gid_t gid;
    gid_t groups[USER_GROUPS_MAX]; // with gid
    int group_count;
};

struct users;

struct users *users_new(const char *etc); // "/etc": the directory of passwd and group
void users_free(struct users *u);

// Find a user by name or number. "user:group" is what an image may name: the group, again a name or
// a number, is then the only one. ERR_NOT_FOUND: "unknown user <name>".
int users_find(struct users *u, const char *name, struct user *out, struct err *e);

// Return the name of an id, or NULL. Borrowed until the next users_find.
const char *users_name(const struct users *u, uid_t uid);
const char *users_group_name(const struct users *u, gid_t gid);
