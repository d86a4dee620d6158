// SPDX-License-Identifier: Apache-2.0
// What a thread removes below a sandbox's directory: an image or a disk may be large, and the loop
// must not wait for it.
#pragma once
#include <stdbool.h>

struct sandbox;

typedef void (*dir_work_cb)(void *ctx);

#define DIR_WORK_RECORD "sandbox.json" // in a sandbox's directory
#define DIR_WORK_IMAGE  "image"
#define DIR_WORK_NEW    "image.tmp"

// Removes `name` of it. `cb` (may be NULL) comes once, from the loop; what could not be removed is
// logged. The sandbox is held (ending.h) until then, and goes with it.
void dir_work_remove(struct sandbox *sb, const char *name, dir_work_cb cb, void *ctx);
// Removes all of it but its record, what is aside and, with `keep_image`, its image: as a driver
// wants it that makes a machine there.
void dir_work_strip(struct sandbox *sb, bool keep_image, dir_work_cb cb, void *ctx);
