// SPDX-License-Identifier: Apache-2.0
// The methods of filesystem.Filesystem, and the two of them that may take long. Those work in
// slices, between which the loop does other things.
#pragma once
#include <stdint.h>

#include "sandbox-backend/envd/entry.h"
#include "sandbox-backend/envd/rpc.h"

extern const struct rpc_method FS_METHODS[];
extern const size_t FS_METHOD_COUNT;

// The member `name` of a request as an absolute path; new string.
char *fs_path(const struct rpc *call, const json_t *request, const char *name, struct err *e);
// ERR_NOT_FOUND, ERR_INVALID unless it is a directory.
int fs_check_dir(const char *path, struct err *e);

// How entries are told to this caller, and a header of the answer that says so when it is not in
// full.
enum entry_form fs_entry_form(struct rpc *call);

// Lists what is below `dir` (taken; absolute), `depth` levels deep, and ends the call.
void fs_list(struct rpc *call, char *dir, uint32_t depth);
// Removes `path` (taken; absolute) and all below it, and ends the call. A call whose client leaves
// is carried out all the same.
void fs_remove(struct rpc *call, char *path);
