// SPDX-License-Identifier: Apache-2.0
// Open a directory through a mount of its own that is read-only.
//
// A descriptor that was opened for reading does not stop the owner of a file: fchmod(2) and similar
// calls check only the caller's user, and whether the mount is read-only. So a short-lived child
// makes a mount, in a mount namespace and, without root, a user namespace of its own. It shares
// this process's descriptors, and leaves the descriptor of the mount behind. The mount is in no
// namespace. It lasts as long as the directory or a file in it is open.
#include "sandbox-backend/drivers/host/read_only.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/child.h"

struct plan {
    const char *dir;
    int fd;
    int failed; // errno of the child
};

CHILD_CODE static int open_in(const char *dir)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    int fd = -1;
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, dir,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0)
        return -1;
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) == 0)
        fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sys = errno;
    close(tree);
    errno = sys;
    return fd;
}

CHILD_CODE static int run_child(void *ctx)
{
    struct plan *plan = ctx;
    plan->fd = open_in(plan->dir);
    plan->failed = plan->fd < 0 ? errno : 0;
    return 0;
}

int read_only_open(const char *dir, struct err *e)
{
    struct plan plan = {.dir = dir, .fd = -1, .failed = EIO};
    const struct child_opts opts = {.namespaces = CLONE_FILES | CLONE_NEWNS |
                                                  (geteuid() == 0 ? 0 : CLONE_NEWUSER),
                                    .cgroup_fd = CHILD_NO_CGROUP};
    pid_t pid = child_clone(run_child, &plan, &opts, NULL);
    if (pid < 0)
        plan.failed = errno;
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return plan.fd >= 0 ? plan.fd : err_sys(e, plan.failed, "open %s read-only", dir);
}
