// SPDX-License-Identifier: Apache-2.0
// The users and groups of the machine, read from /etc/passwd and /etc/group by ourselves: a static
// program cannot load the name services of glibc. Files are read again when they have changed.
#pragma once
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define USER_NAME_BYTES 64 // useradd allows 32; longer names are not found
#define USER_HOME_BYTES 512
#define USER_GROUPS_MAX 64 // supplementary ones; further ones are left out

struct user {
    char name[USER_NAME_BYTES];
    char home[USER_HOME_BYTES];
    uid_t uid;
    gid_t gid;
    gid_t groups[USER_GROUPS_MAX]; // with gid
    int group_count;
};

struct users;

struct users *users_new(const char *etc); // the directory of passwd and group: "/etc"
void users_free(struct users *u);

// ERR_NOT_FOUND "unknown user <name>".
int users_find(struct users *u, const char *name, struct user *out, struct err *e);

// Names for ids, NULL when there is none. Borrowed until the next users_find.
const char *users_name(const struct users *u, uid_t uid);
const char *users_group_name(const struct users *u, gid_t gid);
