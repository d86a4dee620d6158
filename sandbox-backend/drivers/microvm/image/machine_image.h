// SPDX-License-Identifier: Apache-2.0
// An image: the directory that machine_save fills and that a machine can be made from. It holds
// what differs from one build of one template. No image needs another image.
//
//   - image.json: format, which template, the files' sizes and sums. Written last: without it there
//     is no image
//   - vmstate: QEMU's devices ("xen-save-devices-state")
//   - pages: memory (page_file.h)
//   - disk.qcow2: clusters, over the template's disk
//
// An image of the disk alone (SAVE_DISK) has neither vmstate nor pages, and image.json says
// "memory": false. It fits any processor and any size, because its machines boot.
//
// Blocking: for a worker.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

#define MACHINE_IMAGE_JSON    "image.json"
#define MACHINE_IMAGE_VMSTATE "vmstate"
#define MACHINE_IMAGE_PAGES   "pages"
#define MACHINE_IMAGE_DISK    "disk.qcow2"

#define MACHINE_IMAGE_VMSTATE_BYTES_MAX (64 << 20) // devices take some 200 KB

// Write image.json, after all other files. With `sync`, first wait until all files and the
// directory are on the disk. *bytes: the room that the image takes.
int machine_image_seal(const char *dir, const struct template *t, bool with_memory, bool sync,
                       int64_t *bytes, struct err *e);
// Tell whether the image has the memory and the devices of its machine. ERR_NOT_FOUND: no image.
int machine_image_has_memory(const char *dir, bool *out, struct err *e);
// Check that a machine can go on from the image with this template. ERR_NOT_FOUND: no image;
// ERR_INVALID: it is damaged; ERR_PRECONDITION: it is of another template. Each error says what to
// do. Takes a millisecond or less, because the contents of pages and disk are not read.
int machine_image_check(const char *dir, const struct template *t, struct err *e);
// Check that the contents of the pages are those that were saved. Reads all of them.
int machine_image_check_pages(const char *dir, struct err *e);
// Remove the files of the image, not the directory.
void machine_image_empty(const char *dir);
