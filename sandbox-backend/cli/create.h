// SPDX-License-Identifier: Apache-2.0
// The options of a new sandbox, for the verbs create and run.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/client/client.h"

// As the command line has them.
struct create_opts {
    struct sandbox_opts want; // create_opts_parse fills its JSON
    struct opt_list envs, metadata, secrets, volumes, mounts;
    struct network_opts network;
    int64_t memory, disk; // bytes; 0: those of the template
};

// Write the rows of the options into `out`; their values go to `o`.
#define CREATE_OPTS_COUNT 15
// Mount DIR:/path[:ro] in a sandbox (mount.c). *list: a new reference, all its mounts.
int mount_one(struct connection *c, const char *id, const char *spec, json_t **list, struct err *e);
// Mount all that was given, or end the sandbox, which is not what the caller wants.
int create_mount_all(struct connection *c, const char *id, const struct create_opts *o,
                     struct err *e);
void create_opts_table(struct opt out[CREATE_OPTS_COUNT], struct create_opts *o);

// Check what was given. ERR_INVALID names the option. create_opts_fini frees in every case.
int create_opts_parse(struct create_opts *o, struct err *e);
void create_opts_fini(struct create_opts *o);

// Print the error of a create, with the options in place of the API's members. Return 1.
int create_fail(const struct err *e);

// Print the server's warning about the tier of a new sandbox, if there is one.
void create_warn(const json_t *sandbox);
