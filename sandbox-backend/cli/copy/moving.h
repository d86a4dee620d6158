// SPDX-License-Identifier: Apache-2.0
// Moves listed entries between a directory of the host and one of a sandbox.
//
// Small entries travel in tars of at most MOVING_BATCH_BYTES, each of which is a temporary file
// on both sides; a larger file travels by itself. Both use envd's file transfers, which are faster
// than the streams of a command. Each entry is whole or absent on the host; in the sandbox a tar
// may leave one file half written when the copy is interrupted, and its time then differs.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/copy/bar.h"
#include "sandbox-backend/cli/copy/listing.h"
#include "sandbox-backend/cli/copy/remote.h"

#define MOVING_BATCH_BYTES (16 << 20)
#define MOVING_LARGE_BYTES (4 << 20)
#define MOVING_NAMES_BYTES 16384 // of a batch: busybox's xargs takes no more at once
#define MOVING_BATCH_COUNT 4096

struct moving_count {
    int64_t files, directories, links, bytes;
    int64_t unchanged; // were left alone
    json_t *skipped;   // owned; an array of {"path", "reason"}
};

struct moving {
    struct remote *remote;
    int root;         // of the host; borrowed
    const char *path; // the directory of the sandbox, absolute
    bool keeps_links; // to the host: make links that lead out of the tree
    char kind;        // of the sandbox's listing, for entries that have a move
    struct bar bar;
    struct moving_count count;
};

void moving_init(struct moving *t, struct remote *r, int root, const char *path);
void moving_fini(struct moving *t);
// Copy all entries into the sandbox, or to the host. If they have moves (listing.h), those that
// change meanwhile are left out, which is no failure. The directory of the sandbox exists, or is
// made with `mode`.
int moving_send(struct moving *t, const struct listing *l, unsigned mode, struct err *e);
int moving_fetch(struct moving *t, const struct listing *l, struct err *e);
// Copy one file, whose descriptor is at its beginning, to a path of the sandbox. Where the sandbox
// has no shell, the permissions are those of a new file; *bare is then set.
int moving_send_file(struct moving *t, int fd, const struct entry *entry, const char *path,
                     bool *bare, struct err *e);
// Copy one file of the sandbox to `entry->path` below the root.
int moving_fetch_file(struct moving *t, const char *path, const struct entry *entry, struct err *e);
// Return whether a file does not travel in a tar, so that its time keeps its nanoseconds.
bool moving_is_alone(const struct entry *entry);
void moving_skip(struct moving *t, const char *path, const char *reason);
