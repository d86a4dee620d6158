// SPDX-License-Identifier: Apache-2.0
// The methods of filesystem.Filesystem. Two of them can take long. They work in slices, and the
// loop serves other requests between the slices.
#pragma once
#include <stdint.h>

#include "sandbox-backend/envd/fs/entry.h"
#include "sandbox-backend/envd/rpc/rpc.h"

extern const struct rpc_method FS_METHODS[];
extern const size_t FS_METHOD_COUNT;

// Return the member `name` of a request as an absolute path. New string, or NULL.
char *fs_path(const struct rpc *call, const json_t *request, const char *name, struct err *e);
// ERR_NOT_FOUND or ERR_INVALID unless `path` is a directory.
int fs_check_dir(const char *path, struct err *e);

// Return the form of entries for this client. If it is the brief form, set the response header that
// says so.
enum entry_form fs_entry_form(struct rpc *call);

// List the tree below `dir` (absolute; owned from then on) to `depth` levels, and end the call.
void fs_list(struct rpc *call, char *dir, uint32_t depth);
