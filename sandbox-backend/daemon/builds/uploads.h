// SPDX-License-Identifier: Apache-2.0
// Uploads: the archives that COPY steps of builds need, as E2B's SDKs send them.
//
//   <home>/builds/files/<name>/
//     <hash>.tar     the archive; <hash> is the SDK's, of names, modes and contents
//     <hash>.json    {"owner", "sha256", "bytes"}, of the archive's bytes
//     .part-<token>  an upload in progress
//
// The daemon cannot check the SDK's hash. So it only names the file, below the template's name, and
// a build's cache uses the SHA-256 of the bytes that came. An archive is kept for a day after its
// last use. One owner may have half of the space.
//
// A grant is the permission for one upload. Its token stands in the URL, because SDKs send no API
// key with an upload.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

#define UPLOADS_GRANT_MS (60 * 60 * 1000)
#define UPLOADS_KEEP_NS  (24LL * 3600 * 1000000000)
#define UPLOADS_GRANTS   1000 // at once

struct upload_grant;
struct upload_file;

struct uploads {
    const char *node;  // borrowed; of new tokens; NULL: none
    char *dir;         // owned; <home>/builds/files
    int64_t one_bytes; // largest archive
    int64_t all_bytes; // of all archives together
    TAILQ_HEAD(, upload_grant) grants;
    TAILQ_HEAD(, upload_file) files;
    size_t grant_count;
};

// Read what is there, and remove the parts of interrupted uploads.
int uploads_open(struct uploads *u, const char *home, int64_t one_bytes, int64_t all_bytes,
                 struct err *e);
void uploads_fini(struct uploads *u); // no upload may be in progress
// Remove what was not used for a day.
void uploads_sweep(struct uploads *u);

bool uploads_has(const struct uploads *u, const char *name, const char *hash);
// Return the token of a new grant, borrowed until it is used or expires; NULL with ERR_LIMIT.
const char *uploads_grant(struct uploads *u, const char *owner, const char *name, const char *hash,
                          struct err *e);

// One upload in progress. Each ends with upload_end or upload_cancel, which free it.
struct upload;
// length: as http_request_length. ERR_NOT_FOUND: the token is unknown, was used, or has expired.
// ERR_TOO_LARGE, ERR_LIMIT: the archive is too large, or there is no space for it.
struct upload *upload_begin(struct uploads *u, const char *token, int64_t length, struct err *e);
int upload_write(struct upload *up, const void *data, size_t len, struct err *e);
int upload_end(struct upload *up, struct err *e); // the archive is then there
void upload_cancel(struct upload *up);

// Make a hard link of an archive at `to`, so that a build keeps it, and return the SHA-256 of its
// bytes as a new string of hexadecimal digits. NULL: ERR_NOT_FOUND when it was not uploaded.
char *uploads_link(struct uploads *u, const char *name, const char *hash, const char *to,
                   struct err *e);
