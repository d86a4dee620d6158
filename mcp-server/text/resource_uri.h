// SPDX-License-Identifier: Apache-2.0
// URIs of files in sandboxes: sandbox://ID/home/user/x.txt is /home/user/x.txt in sandbox ID.
// Pure: strings in, strings out.
#pragma once
#include "sandbox-backend/base/err.h"

#define RESOURCE_URI_SCHEME    "sandbox"
#define RESOURCE_URI_BYTES_MAX 16384
#define RESOURCE_PATH_MAX      4096 // bytes, decoded

struct resource_uri {
    char *id;   // owned; letters, digits and '-'
    char *path; // owned; absolute, normalised, UTF-8 without NUL; no '/' at its end but for "/"
};

// Parse a URI (RFC 3986). The scheme may be in any case. The path is decoded, then its empty, "."
// and ".." segments are removed, never above the root. ERR_INVALID says what is wrong: another
// scheme, a missing or impossible id, a query or a fragment ('?' and '#' in names are written %3F
// and %23), NUL, a bad escape, invalid UTF-8, or too many bytes.
int resource_uri_parse(const char *uri, struct resource_uri *out, struct err *e);
void resource_uri_fini(struct resource_uri *u);

// Return the URI of an absolute path in a sandbox, a new string. resource_uri_parse returns the
// same id and path.
char *resource_uri_of(const char *id, const char *path);
