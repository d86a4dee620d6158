// SPDX-License-Identifier: Apache-2.0
// Moving a hibernated sandbox to another node of a fleet (docs/fleet.md).
//
// The manifest is {"format", "sandbox": {...}, "id", "tier", "sum", "files"} (image_archive.h).
// "sandbox" is the sandbox's record (daemon/sandbox/record.c) without what belongs to the host: the
// machine and instants on its monotonic clock. It has the sandbox's tokens, the placeholders of its
// secrets and the key of its own certificate authority, but no secret's value.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

#define SANDBOX_ARCHIVE_FORMAT 2

// Write the sandbox `id` of this home, which is hibernated and is being moved
// (daemon/sleep/move.h), to a new file that only this user can read. digest: gets that of the
// contents. Blocking.
int sandbox_archive_export(const char *home, const char *id, const char *path,
                           struct sha256 *digest, struct err *e);

// A sandbox that was read from an archive, in a directory of its own.
struct sandbox_arrival {
    char *dir; // owned; <home>/cache/import-<random>, with the sandbox's directory "sandbox"
    char *id;  // owned
    int lock;  // holds the lock on `dir`
};
// Read an archive, which may come from anybody, and check all of it, and that this host can go on
// from its image. wanted: the id that it must have. Free with sandbox_arrival_fini, also after -1.
// Blocking.
int sandbox_archive_read(struct sandbox_arrival *a, const char *home, const char *wanted,
                         const char *path, struct err *e);
void sandbox_arrival_fini(struct sandbox_arrival *a); // removes the directory
