// SPDX-License-Identifier: Apache-2.0
// The files in a sandbox's directory: the record, the image and the machine's own files.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct sandbox;

#define FILES_RECORD     "sandbox.json" // in a sandbox's directory
#define FILES_IMAGE      "image"
#define FILES_NEW_IMAGE  "image.tmp"
#define FILES_ASIDE      "aside"
#define FILES_ASIDE_PART "aside.tmp" // during a move, in either direction

// ---- removal on a thread: an image or a disk may be large, and the loop must not wait for it

// Called once, from the loop. The daemon's log has what could not be removed.
typedef void (*files_cb)(void *ctx);
// Remove `name` below the sandbox's directory. `cb` may be NULL. The sandbox is held (ending.h)
// until then.
void files_remove(struct sandbox *sb, const char *name, files_cb cb, void *ctx);
// Remove everything except the record, the files put aside and, with `keep_image`, the image. A
// driver expects no other files when it makes a machine.
void files_strip(struct sandbox *sb, bool keep_image, files_cb cb, void *ctx);
// Remove a tree that belongs to no sandbox. `event` (a literal) is for the log.
void files_remove_tree(uv_loop_t *loop, const char *path, const char *event, files_cb cb,
                       void *ctx);

// ---- removal on the loop, for the end of a sandbox

// Truncate one large file in `dir` by FILES_STEP_BYTES, before the directory is removed. Return
// false if there is no large file. Unlinking one would free all its blocks and cached pages at
// once, about 70 ms for each GB.
#define FILES_STEP_BYTES 67108864 // about 5 ms of work
bool files_shrink(const char *dir);

// ---- a machine that is put aside while another is tried instead (sleep/rollback.c)
//
// All files but the record and the image are moved from the sandbox's directory into FILES_ASIDE
// below it. The machine keeps them open, but nothing finds it by their names. FILES_ASIDE has all
// the files; FILES_ASIDE_PART has some of them, during a move.

// Remove what an earlier rollback may have left. Call this before the record says that a rollback
// begins.
int files_clear_aside(const char *dir, struct err *e);
int files_put_aside(const char *dir, struct err *e);
// Put the files back, also after a daemon was killed at any step. First remove the files of another
// machine that now have their names.
int files_take_back(const char *dir, struct err *e);
bool files_are_aside(const char *dir); // either directory exists
