// SPDX-License-Identifier: Apache-2.0
// Namespaces of the process's own, and the users of its user namespace.
#include "sandbox-backend/jail/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/walls.h"

#define HOST_NAME "sandbox"

static const struct {
    enum wall wall;
    int flag;
} ENTERED[] = {{WALL_MOUNT, CLONE_NEWNS},
               {WALL_NETWORK, CLONE_NEWNET},
               {WALL_IPC, CLONE_NEWIPC},
               {WALL_UTS, CLONE_NEWUTS},
               {WALL_CGROUP, CLONE_NEWCGROUP}};

int namespace_flag(int wall)
{
    for (size_t i = 0; i < ARRAY_LEN(ENTERED); i++)
        if ((int)ENTERED[i].wall == wall)
            return ENTERED[i].flag;
    return wall == WALL_USER ? CLONE_NEWUSER : wall == WALL_PID ? CLONE_NEWPID : 0;
}

// One after another, as a refusal of all together does not say which it is about.
static int enter_singly(unsigned walls, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(ENTERED); i++)
        if (walls & WALL_BIT(ENTERED[i].wall) && unshare(ENTERED[i].flag) != 0)
            return err_sys(e, errno, "%s", wall_what(ENTERED[i].wall));
    return 0;
}

int namespaces_enter(unsigned walls, struct err *e)
{
    int flags = 0;
    for (size_t i = 0; i < ARRAY_LEN(ENTERED); i++)
        flags |= walls & WALL_BIT(ENTERED[i].wall) ? ENTERED[i].flag : 0;
    if (flags && unshare(flags) != 0 && enter_singly(walls, e) != 0)
        return -1;
    if (flags & CLONE_NEWUTS && sethostname(HOST_NAME, strlen(HOST_NAME)) != 0)
        return err_sys(e, errno, "set the host name");
    return 0;
}

static int write_map(int proc, const char *file, const char *text, struct err *e)
{
    int fd auto_close = openat(proc, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return err_sys(e, errno, "write %s", file);
    return 0;
}

int namespaces_enter_user(int proc, unsigned inside, struct err *e)
{
    char users[48], groups[48];
    snprintf(users, sizeof users, "%u %u 1", inside, (unsigned)geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", inside, (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) != 0)
        return err_sys(e, errno, "%s", wall_what(WALL_USER));
    // Whoever changes his rights is not dumpable, and what is below /proc/self then is root's.
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
        return err_sys(e, errno, "become dumpable");
    if (write_map(proc, "setgroups", "deny", e) != 0 || write_map(proc, "uid_map", users, e) != 0)
        return -1;
    return write_map(proc, "gid_map", groups, e);
}
