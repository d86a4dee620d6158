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

// RFC 3986: the scheme in any case; the path decoded, then its empty, "." and ".." segments
// removed, which never leads above the root. ERR_INVALID says what is wrong: another scheme, no or
// an impossible id, a query or a fragment ('?' and '#' in names are written %3F and %23), NUL, a
// bad escape, bytes that are not UTF-8, too long.
int resource_uri_parse(const char *uri, struct resource_uri *out, struct err *e);
void resource_uri_fini(struct resource_uri *u);

// The URI of an absolute path in a sandbox; new string. Parses to the same.
char *resource_uri_of(const char *id, const char *path);
