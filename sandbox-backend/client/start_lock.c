// SPDX-License-Identifier: Apache-2.0
// The lock under which the daemon is started.
#include "sandbox-backend/client/start_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

static int open_fifo(const char *path, int flags, struct err *e)
{
    struct stat st;
    int fd auto_close = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open %s", path);
    if (!S_ISFIFO(st.st_mode))
        return err_set(e, ERR_PRECONDITION, "%s is not a FIFO; remove it", path);
    return steal_fd(&fd);
}

int start_lock_try(const char *path, int *fd, struct err *e)
{
    if (mkfifo(path, 0600) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make %s", path);
    int writer auto_close = open_fifo(path, O_RDWR, e);
    if (writer < 0)
        return -1;
    if (flock(writer, LOCK_EX | LOCK_NB) == 0) {
        *fd = steal_fd(&writer);
        return 0;
    }
    if (errno != EWOULDBLOCK)
        return err_sys(e, errno, "lock %s", path);
    // Opened while a writer (this one) is there: only then does the kernel report that the last
    // writer has gone.
    *fd = open_fifo(path, O_RDONLY, e);
    return *fd < 0 ? -1 : 1;
}
