// SPDX-License-Identifier: Apache-2.0
// Files in a sandbox: the absolute path of a file that a tool reads, the error when it cannot be
// read, entries of directories, and the path of a new file.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mcp-server/tools/call/tools.h"

// Make the call's argument `path` absolute, relative to the home of the call's user, then call
// `then`, from the loop or at once. `what` is static, such as "read the file". Call
// tool_call_client first.
void guest_file_find(struct tool_call *c, const char *what, void (*then)(struct tool_call *c));
// End the call for an error about its `path` or `sandbox_file_path`: file_not_found,
// is_a_directory, not_a_file, or what else e says. Copies *e.
void guest_file_fail(struct tool_call *c, const char *what, const struct err *e);

// ---- an entry of envd's filesystem calls (filesystem.EntryInfo). Any other JSON counts as an
// entry without members.

bool guest_entry_is_dir(const json_t *entry); // or a link to one
const char *guest_entry_type(
    const json_t *entry); // "file", "directory" or "other"; for a link that of its target
int64_t guest_entry_size(const json_t *entry); // bytes; -1: unknown

// ---- the path of an uploaded or downloaded file

// Find the path. `wanted` is a directory when it ends in '/' or its last component has no extension
// and is not `name`, or when it is a directory in the sandbox; then `name` is appended. Otherwise
// it is the path of the file. `path` is a new string. on_found may be called inside this function.
void guest_path_find(struct tool_call *c, const char *wanted, const char *name,
                     void (*on_found)(struct tool_call *c, char *path, void *ctx), void *ctx);
