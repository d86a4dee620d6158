// SPDX-License-Identifier: Apache-2.0
// The image of a process driver's machine: copies of the files that are its memory and its disk. An
// image of a machine with the real envd has only the user's home directory, not the processes. All
// functions block: for a thread of the pool.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

// Check that the image is whole and its template exists.
int process_image_check(const char *image, const char *template_dir,
                        const struct machine_size *size, struct err *e);
// Copy the files of a machine's directory into `image`, which is empty; image.json comes last. The
// machine must be stopped. On failure `image` is empty again. With `disk_only` the memory is left
// out.
int process_image_write(const char *machine, const char *image, bool disk_only, int64_t *bytes,
                        struct err *e);
// Copy the image into a new machine's directory. ERR_NOT_FOUND when the image is not whole.
int process_image_read(const char *image, const char *machine, struct err *e);
// Return the bytes that a machine's disk takes up.
int64_t process_image_disk_bytes(const char *machine);
