// SPDX-License-Identifier: Apache-2.0
// The context of a build: the directory that COPY and ADD copy from.
//
// Nothing outside the directory is ever read. A link is stored as a link. Only a link that is
// itself a source, or leads to one, is followed, and only inside the context.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "sandbox-backend/base/err.h"

#define CONTEXT_ENTRIES_MAX 2000000
#define CONTEXT_DEPTH_MAX   200

struct build_context;

// Open a context. `ignore_file` holds the patterns, or NULL for <dir>/.dockerignore. NULL with `e`.
struct build_context *build_context_open(const char *dir, const char *ignore_file, struct err *e);
void build_context_close(struct build_context *c);

// A file, a directory or a link that a step copies.
struct build_context_entry {
    char *path;   // owned; relative to the context
    char *target; // owned; of a link, else NULL
    char *text;   // owned; of a here-document, which is no file of the context; else NULL
    struct stat st;
    bool unpack; // ADD: it is an archive, whose entries are copied instead
};

struct selection {
    struct build_context_entry *entries; // owned; parents before their children
    size_t count, cap;
    json_t *sources; // owned; the paths that were meant, in order, with all globs expanded
    char hash[65];   // of names, modes, targets and contents, not of times and owners
};

// Select what a COPY or ADD step copies. `step` has "sources", "files" (here-documents), and
// "type". ERR_NOT_FOUND: a source matches nothing. A path need not be UTF-8, but a source is.
int build_context_select(struct build_context *c, const json_t *step, struct selection *out,
                         struct err *e);
void selection_fini(struct selection *s);

// Write the entries as a tar to the descriptor. ERR_CONFLICT: a file changed meanwhile.
int build_context_pack(struct build_context *c, const json_t *step, const struct selection *s,
                       int fd, struct err *e);
