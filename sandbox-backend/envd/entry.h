// SPDX-License-Identifier: Apache-2.0
// filesystem.EntryInfo as JSON: what Stat, ListDir, MakeDir and Move say about a file.
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/users.h"

enum entry_form {
    ENTRY_NONE,  // where entries are not always wanted
    ENTRY_BRIEF, // name, type and path: all that E2B's oldest Python client can read
    ENTRY_FULL,
};

// Appends the entry of `path`, shown as `shown` (both absolute, bytes; sanitised for JSON). A
// symbolic link has its target's type and mode, its own size, owner and time, and symlinkTarget; a
// file has the metadata that was noted on it.
// ERR_NOT_FOUND when it is not there.
int entry_put(struct buf *out, enum entry_form form, const char *path, const char *shown,
              const struct users *users, struct err *e);

// Go's os.FileMode text: "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx". At most 16 bytes with its NUL.
#define ENTRY_PERMISSIONS_BYTES 20
void entry_permissions(char out[ENTRY_PERMISSIONS_BYTES], mode_t mode);

// Appends bytes as a JSON string, in quotes; invalid UTF-8 becomes U+FFFD.
void entry_put_string(struct buf *out, const char *s);
