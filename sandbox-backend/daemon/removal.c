// SPDX-License-Identifier: Apache-2.0
// Removing a directory that may hold large files without holding up the loop.
#include "sandbox-backend/daemon/removal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

static bool cut(int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size <= REMOVAL_STEP_BYTES)
        return false;
    int fd auto_close = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && ftruncate(fd, st.st_size - REMOVAL_STEP_BYTES) == 0;
}

bool removal_step(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return false;
    bool done = false;
    for (const struct dirent *entry; !done && (entry = readdir(d));)
        done = cut(dirfd(d), entry->d_name);
    closedir(d);
    return done;
}
