// SPDX-License-Identifier: Apache-2.0
// filesystem.EntryInfo as JSON, with which Stat, ListDir, MakeDir and Move describe a file; and the
// metadata of files.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/users.h"
#include "sandbox-backend/net/http.h"

enum entry_form {
    ENTRY_NONE,  // no entry
    ENTRY_BRIEF, // name, type and path, which E2B's oldest Python client can read
    ENTRY_FULL,
};

// Append the entry of `path`, shown as `shown` (both absolute; invalid UTF-8 is replaced). A
// symbolic link has its target's type and mode, its own size, owner and time, and symlinkTarget. A
// file has its metadata. ERR_NOT_FOUND if it is missing.
int entry_put(struct buf *out, enum entry_form form, const char *path, const char *shown,
              const struct users *users, struct err *e);

// Write Go's os.FileMode text: "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx". At most 16 bytes with its
// NUL.
#define ENTRY_PERMISSIONS_BYTES 20
void entry_permissions(char out[ENTRY_PERMISSIONS_BYTES], mode_t mode);

// Append bytes as a JSON string in quotes; invalid UTF-8 becomes U+FFFD.
void entry_put_string(struct buf *out, const char *s);

// ---- metadata: X-Metadata-<key> headers of an upload, stored as extended attributes user.e2b.<key
// in lower case>, and shown in the file's entry

#define METADATA_KEY_MAX   246  // an attribute's name has at most 255 bytes (xattr(7))
#define METADATA_ENTRY_MAX 4096 // the attribute's name and value together

// Return the metadata in headers as a new object of strings, which may be empty. NULL: ERR_INVALID
// "invalid metadata: ...".
json_t *metadata_from_headers(const struct http_header *headers, size_t count, struct err *e);

// Replace the metadata of an open file by `map`. ERR_INVALID if the file system cannot store it.
int metadata_replace(int fd, json_t *map, struct err *e);
