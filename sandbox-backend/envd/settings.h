// SPDX-License-Identifier: Apache-2.0
// What POST /init has set: access token, environment, default user and directory. Kept in a file on
// a tmpfs, so that an envd that was killed comes back with the same token.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct settings {
    char *dir;             // owned; where the file is
    char *path;            // owned; the file
    int fd;                // owned; the file
    char *token;           // owned; NULL: none is needed
    json_t *envs;          // owned; object of strings
    char *default_user;    // owned
    char *default_workdir; // owned; NULL: the user's home
    int64_t applied_ns;    // newest timestamp that was applied; 0: none yet
    bool has_ca;           // a certificate authority was installed (trust.h)
    bool partly_published; // a write of what is published (published.h) has failed
};

// Opens and reads the file in `dir`; one that is missing or empty gives the defaults, one that is
// broken is an error.
int settings_init(struct settings *s, const char *dir, struct err *e);
void settings_fini(struct settings *s);
int settings_save(struct settings *s, struct err *e);
