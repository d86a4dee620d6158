// SPDX-License-Identifier: Apache-2.0
// Writes below one directory of the host. The names and contents are a sandbox's, so they may be
// hostile: each path is resolved by openat2(2) beneath the directory and follows no symbolic link.
// Files appear whole, by a rename. They get no set-user-id bit, and the permissions that the
// process's umask allows.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct entry;

unsigned beneath_mode(unsigned mode); // the permissions that an entry gets here

// A file that is being written under a temporary name.
struct beneath_file {
    int fd;     // to write to
    int dir;    // owned, as the names
    char *name; // the temporary name
    char *last; // the name it gets
};

// Make a directory and its parents; it may exist. A new one is open to this user until
// beneath_dir_finish.
int beneath_dir(int root, const char *path, struct err *e);
int beneath_dir_finish(int root, const struct entry *entry, struct err *e); // its permissions
// Begin a file; its parents are made. Then give it its name, permissions and time, or drop it.
int beneath_file_begin(int root, const char *path, struct beneath_file *f, struct err *e);
int beneath_file_end(struct beneath_file *f, const struct entry *entry, struct err *e);
void beneath_file_drop(struct beneath_file *f);
int beneath_link(int root, const char *path, const char *target, struct err *e); // symbolic
// Give the file `from` a second name. Anything else than a file is refused.
int beneath_hard_link(int root, const char *path, const char *from, struct err *e);
// Open a file or link's directory. Return the descriptor, or -1.
int beneath_open(int root, const char *path, int flags, struct err *e);

// Return whether a path has the entry `was` with its size and time; NULL: nothing is there.
bool beneath_is_unchanged(int root, const char *path, const struct entry *was);

// Remove a file, a link or an empty directory. It may be missing.
int beneath_remove(int root, const char *path, struct err *e);

// Return whether a symbolic link at `path` may lead out of the tree: its target is absolute, or its
// leading ".." are more than the directories above it, or ".." comes after a name.
bool beneath_leads_out(const char *path, const char *target);
