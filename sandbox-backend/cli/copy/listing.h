// SPDX-License-Identifier: Apache-2.0
// The entries of a tree, on the host or in a sandbox: what copies and synchronisation compare.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct buf;
struct stat;
struct remote;
struct sync_rules;

#define LISTING_ENTRIES_MAX 1000000
#define LISTING_BYTES_MAX   (128 << 20) // of a sandbox's answer
#define LISTING_DEPTH_MAX   256
#define LISTING_SIZE_MAX    (1LL << 42) // of a sandbox's file; the sum of all fits an int64_t
// A file of the sandbox may have grown by so many bytes since it was listed.
#define LISTING_GROWTH_BYTES (1 << 20)

// The move of an entry in a synchronisation: what is known before it, and learnt from it.
struct move {
    const struct entry *replaces; // borrowed; of the destination; NULL: nothing is there
    const char *aside;       // borrowed; path that the replaced one of the sandbox gets, or NULL
    bool is_read;            // it did not change while it was read
    bool is_done, is_aside;  // it arrived; the replaced one has its other path
    struct entry *from, *to; // owned; both as they were then; NULL before that
};

struct entry {
    char *path; // owned; relative to the tree, without "./"; any bytes
    char type;  // 'f' a file, 'd' a directory, 'l' a symbolic link, 'o' anything else
    unsigned mode;
    int64_t size; // of a file; 0 for the others
    int64_t seconds;
    long nanoseconds;  // the time of the last change
    char *target;      // owned; of a link, NULL where it is not known
    struct move *move; // borrowed; of a synchronisation, else NULL
};

// Sorted by path in byte order, so a directory comes before what it holds.
struct listing {
    struct entry *entries;
    size_t count, room;
    char kind; // of a sandbox: 'G' listed by GNU's find, 'S' by stat
};

// Add an entry and take `path` and `target`. ERR_LIMIT: too many.
int listing_add(struct listing *l, struct entry entry, struct err *e);
void listing_sort(struct listing *l);
void entry_copy(struct entry *to, const struct entry *from);
void entry_fini(struct entry *entry);
void listing_fini(struct listing *l);
const struct entry *listing_find(const struct listing *l, const char *path); // NULL: none

// Take size, time and permissions of a file.
void entry_take_stat(struct entry *entry, const struct stat *st);
// Return whether a file was not changed since `before`.
bool entry_is_still(int fd, const struct stat *before);
// Note copies of both entries of a move. `to` may be NULL.
void move_note(struct move *move, const struct entry *from, const struct entry *to);
void move_fini(struct move *move);

// Return whether a path is relative and has no empty part, "." or "..".
bool listing_path_is_plain(const char *path);

// List the tree below the directory `root` of the host. `ignored` may be NULL. A directory of
// another file system is entered, a symbolic link never.
int listing_of_host(struct listing *l, int root, const struct sync_rules *ignored, struct err *e);
// List the tree below the directory `path` of the sandbox.
int listing_of_sandbox(struct listing *l, struct remote *r, const char *path,
                       const struct sync_rules *ignored, struct err *e);
// Parse what the sandbox has answered, and change the text.
int listing_parse(struct listing *l, struct buf *text, const struct sync_rules *ignored,
                  struct err *e);
