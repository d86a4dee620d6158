// SPDX-License-Identifier: Apache-2.0
// The environment of a command. Later wins: envd's PATH, and HOME, USER, LOGNAME; what /init set;
// what the request sets.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/users.h"

struct environment {
    char **envp;      // NULL-terminated; one allocation with its text
    const char *path; // of it; "" when it has none. Borrowed from envp
};

// `global` and `request` are objects of strings; `request` may be NULL.
int environment_init(struct environment *env, const struct user *user, json_t *global,
                     const json_t *request, struct err *e);
void environment_fini(struct environment *env);
