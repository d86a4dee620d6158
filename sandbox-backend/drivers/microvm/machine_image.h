// SPDX-License-Identifier: Apache-2.0
// An image: what machine_save leaves in a directory, and a machine can be made from. All of it is
// what differs from one build of one template, and belongs to no other image.
//
//   - image.json: format, which template, the files' sizes and sums. Written last: without it there
//     is no image
//   - vmstate: QEMU's devices ("xen-save-devices-state")
//   - pages: memory (page_file.h)
//   - disk.qcow2: clusters, over the template's disk
//
// Blocking: for a worker.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template.h"

#define MACHINE_IMAGE_JSON    "image.json"
#define MACHINE_IMAGE_VMSTATE "vmstate"
#define MACHINE_IMAGE_PAGES   "pages"
#define MACHINE_IMAGE_DISK    "disk.qcow2"

#define MACHINE_IMAGE_VMSTATE_BYTES_MAX (64 << 20) // devices take some 200 KB

// The other files are there: writes image.json. With `sync` all of it, and the directory, is on the
// disk then. *bytes: what it takes up.
int machine_image_seal(const char *dir, const struct template *t, bool sync, int64_t *bytes,
                       struct err *e);
// Whether it can go on from this template: ERR_NOT_FOUND, ERR_INVALID when it is damaged, or
// ERR_PRECONDITION when it is of another one; each says what to do. Takes a millisecond or less:
// the contents of pages and disk are not looked at.
int machine_image_check(const char *dir, const struct template *t, struct err *e);
// Whether the contents of the pages are those that were saved: reads all of them.
int machine_image_check_pages(const char *dir, struct err *e);
// Removes these files, not the directory.
void machine_image_empty(const char *dir);
