// SPDX-License-Identifier: Apache-2.0
// The state that POST /init sets: access token, environment, default user and directory.
//
// envd.json keeps it on a tmpfs, so an envd that was killed comes back with the same token. Other
// programs in the guest read the environment from files beside it: environment.json is an object of
// strings, which the Python kernel reads when a run starts; .E2B_SANDBOX, .E2B_SANDBOX_ID and
// .E2B_TEMPLATE_ID hold the variables of those names, which E2B's tools look for.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct settings {
    char *dir;             // owned; the directory of the files
    char *path;            // owned; envd.json
    int fd;                // owned; envd.json
    char *token;           // owned; NULL: requests need none
    json_t *envs;          // owned; object of strings
    char *default_user;    // owned
    char *default_workdir; // owned; NULL: the user's home
    int64_t applied_ns;    // newest timestamp that was applied; 0: none yet
    bool has_ca;           // a certificate authority is installed (guest/renewal.h)
    bool partly_published; // a write of the environment's files has failed
};

// Open and read envd.json in `dir`. A missing or empty file gives the defaults; a malformed one is
// an error.
int settings_init(struct settings *s, const char *dir, struct err *e);
void settings_fini(struct settings *s);

// Write envd.json.
int settings_save(struct settings *s, struct err *e);

// Replace the environment (an object of strings) and write the files that changed, each as a whole.
// With `inherit`, variables that `envs` does not name stay. Without it, only the sandbox's own
// E2B_* variables stay. `envs` is changed; a reference is taken. After a failure the environment is
// the old one, and the next call writes all files.
int settings_set_environment(struct settings *s, json_t *envs, bool inherit, struct err *e);
