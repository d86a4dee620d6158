// SPDX-License-Identifier: Apache-2.0
// The files of a saved machine. They are in a template's directory gvisor/, and in each image, the
// directory that machine_save fills.
//
//   image.json       the runsc, root file system and machine size to which the image belongs, and
//                    the files' sizes. Written last: a directory without it holds no image
//   checkpoint.img   the sentry's objects
//   pages_meta.img   where each page of pages.img belongs
//   pages.img        the memory of the guest, with the layer above its root file system
//
// pages.img has no checksum. gVisor checks that of checkpoint.img; but reading all of pages.img
// would take as long as the restore, which reads it once. Its size is compared.
//
// gVisor itself compares only its version text, the specification and the processor with those of
// the image. The functions here compare the rest.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/gvisor/bundle.h"

enum { CHECKPOINT_STATE, CHECKPOINT_META, CHECKPOINT_PAGES, CHECKPOINT_FILES };

// Return whether a directory, given as a descriptor, holds a saved machine.
bool checkpoint_exists_at(int dir);
// Open the files for writing, new and empty. Return 0, or -1 with none open.
int checkpoint_create(const char *dir, int fds[CHECKPOINT_FILES], struct err *e);
// Check the image as checkpoint_check does, and open the files that were checked. The descriptors
// keep referring to those files whatever happens to the directory afterwards. Nobody can change the
// files through them (read_only.h).
int checkpoint_open(const char *dir, const struct bundle_template *t, int fds[CHECKPOINT_FILES],
                    struct err *e);
// Do the same with the directory of the descriptor `from`, or fail if it is -1. Errors call the
// directory `dir`.
int checkpoint_open_at(int from, const char *dir, const struct bundle_template *t,
                       int fds[CHECKPOINT_FILES], struct err *e);
void checkpoint_close(int fds[CHECKPOINT_FILES]);
// Write image.json. With `sync`, also sync the whole image and its directory to the disk. *bytes:
// the disk space that the image takes. Blocks, so call it on a worker thread.
int checkpoint_seal(const char *dir, const struct bundle_template *t, bool sync, int64_t *bytes,
                    struct err *e);
// Check that a machine of this template can go on from the image. ERR_NOT_FOUND: no image;
// ERR_INVALID: it is damaged; ERR_PRECONDITION: it belongs to another template, size or runsc. The
// caller adds to the error what to do.
int checkpoint_check(const char *dir, const struct bundle_template *t, struct err *e);
// Return whether a write into the directory failed because the disk is full.
bool checkpoint_fills_disk(const char *dir, const struct err *e);
// Remove the files of the image from the directory, a descriptor. Large files take a while.
void checkpoint_empty_at(int dir);
