// SPDX-License-Identifier: Apache-2.0
// Which version of a file it is: as long as the stamp is the same, so is what was read.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct file_stamp {
    uint64_t device, inode;
    int64_t size;
    struct timespec modified, changed;
};

// False: there is no such file; the stamp is then zero, which no file has.
bool file_stamp_get(const char *path, struct file_stamp *out);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);
