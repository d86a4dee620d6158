// SPDX-License-Identifier: Apache-2.0
// Which version of a file it is.
#include "sandbox-backend/base/file_stamp.h"

#include <sys/stat.h>

bool file_stamp_get(const char *path, struct file_stamp *out)
{
    struct stat st;
    *out = (struct file_stamp){0};
    if (stat(path, &st) < 0)
        return false;
    *out = (struct file_stamp){
        .device = st.st_dev,
        .inode = st.st_ino,
        .size = st.st_size,
        .modified = st.st_mtim,
        .changed = st.st_ctim,
    };
    return true;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           is_same_time(a->modified, b->modified) && is_same_time(a->changed, b->changed);
}
