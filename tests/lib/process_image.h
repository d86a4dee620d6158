// SPDX-License-Identifier: Apache-2.0
// The image of a process driver's machine: copies of the files that are its memory and its disk.
// What the real envd's guest has by way of processes is not in it, only its user's home directory.
// All of it blocks: for a thread of the pool.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

// Whether it is whole, and the template is there.
int process_image_check(const char *image, const char *template_dir,
                        const struct machine_size *size, struct err *e);
// Copies what is in a machine's directory into `image`, which is empty; image.json comes last. The
// machine stands still. On failure `image` is empty again.
int process_image_write(const char *machine, const char *image, int64_t *bytes, struct err *e);
// Copies it into a new machine's directory. ERR_NOT_FOUND when it is not whole.
int process_image_read(const char *image, const char *machine, struct err *e);
// What a machine's disk takes up.
int64_t process_image_disk_bytes(const char *machine);
