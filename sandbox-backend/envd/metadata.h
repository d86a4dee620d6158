// SPDX-License-Identifier: Apache-2.0
// What users note on files: X-Metadata-<key> headers of an upload, kept as the extended attributes
// user.e2b.<key in lower case>, and shown by whatever describes the file.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http.h"

#define METADATA_KEY_MAX   246  // an attribute's name has 255 bytes (xattr(7))
#define METADATA_ENTRY_MAX 4096 // the attribute's name and value together

// A new object of strings, empty when there are no such headers. NULL: ERR_INVALID "invalid
// metadata: ...".
json_t *metadata_from_headers(const struct http_header *headers, size_t count, struct err *e);

// Makes `map` all the metadata of an open file. ERR_INVALID when the file system cannot keep it.
int metadata_replace(int fd, json_t *map, struct err *e);

// Appends ,"metadata":{"key":"value"} when the file has any; symbolic links are followed.
void metadata_put(struct buf *out, const char *path);
