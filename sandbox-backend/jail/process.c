// SPDX-License-Identifier: Apache-2.0
// Namespaces, user, capabilities and limits of the process.
#include "sandbox-backend/jail/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/jail.h"

#define SECURE_ALL                                                                           \
    (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                         \
     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | \
     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

// Two calls do not justify linking libcap.
static int get_capabilities(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(SYS_capget, &header, data);
}

static int set_capabilities(const struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(SYS_capset, &header, data);
}

int identity_become(unsigned id, unsigned group, struct err *e)
{
    struct __user_cap_data_struct had[2];
    if (setgroups(0, NULL) != 0)
        return err_sys(e, errno, "leave all groups");
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || setresgid(group, group, group) != 0 ||
        setresuid(id, id, id) != 0)
        return err_sys(e, errno, "become user %u", id);
    // The change of user clears the effective ones and keeps the permitted ones.
    if (get_capabilities(had) != 0)
        return err_sys(e, errno, "read the capabilities");
    for (size_t i = 0; i < ARRAY_LEN(had); i++)
        had[i].effective = had[i].permitted;
    return set_capabilities(had) == 0 ? 0 : err_sys(e, errno, "keep the capabilities");
}

static int drop_bounding_set(struct err *e)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EPERM)
            return err_sys(e, errno, "drop capability %lu", cap);
    return 0;
}

int identity_drop(struct err *e)
{
    static const struct __user_cap_data_struct none[2];
    struct __user_cap_data_struct left[2];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return err_sys(e, errno, "set no_new_privs");
    // A rootless process without a user namespace may do neither, and needs neither.
    if (drop_bounding_set(e) != 0)
        return -1;
    if (prctl(PR_SET_SECUREBITS, SECURE_ALL, 0, 0, 0) != 0 && errno != EPERM)
        return err_sys(e, errno, "set the secure bits");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
        set_capabilities(none) != 0)
        return err_sys(e, errno, "drop the capabilities");
    if (get_capabilities(left) != 0)
        return err_sys(e, errno, "read the capabilities");
    if (left[0].permitted || left[1].permitted || left[0].inheritable || left[1].inheritable)
        return err_set(e, ERR_INTERNAL,
                       "the process still has capabilities after it dropped them all");
    return 0;
}

// ---- namespaces, and the users of its user namespace

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

// Enter them one by one, because a failure to enter all together does not tell which one failed.
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
    // A process that changes its rights is not dumpable, and its files in /proc/self then belong to
    // root.
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
        return err_sys(e, errno, "become dumpable");
    if (write_map(proc, "setgroups", "deny", e) != 0 || write_map(proc, "uid_map", users, e) != 0)
        return -1;
    return write_map(proc, "gid_map", groups, e);
}

// ---- resource limits

#define OPEN_FILES_VMM     1024
#define OPEN_FILES_NETWORK 4096         // POLLSET_MAX of netd/wire/pollset.h
#define PROCESSES          512          // includes threads; control groups limit a machine to fewer
#define FILE_BYTES         (64LL << 20) // of a network process, which writes logs and counters

bool limits_count_by_namespace(void)
{
    struct utsname kernel;
    int major = 0, minor = 0;
    return uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

static int lower(__rlimit_resource_t what, rlim_t most, const char *name, struct err *e)
{
    struct rlimit r;
    if (getrlimit(what, &r) != 0)
        return err_sys(e, errno, "read the limit of %s", name);
    r.rlim_max = r.rlim_max < most ? r.rlim_max : most;
    r.rlim_cur = r.rlim_cur < r.rlim_max ? r.rlim_cur : r.rlim_max;
    if (setrlimit(what, &r) != 0)
        return err_sys(e, errno, "set the limit of %s", name);
    return 0;
}

int limits_set(enum jail_kind kind, bool counted_alone, struct err *e)
{
    bool vmm = kind == JAIL_VMM, files = kind == JAIL_FILES;
    const struct {
        __rlimit_resource_t what;
        rlim_t most;
        const char *name;
    } limits[] = {{RLIMIT_CORE, 0, "core dumps"},
                  {RLIMIT_NOFILE, vmm ? OPEN_FILES_VMM : OPEN_FILES_NETWORK, "open files"},
                  {RLIMIT_FSIZE, vmm || files ? RLIM_INFINITY : FILE_BYTES, "a file's size"},
                  {RLIMIT_NPROC, counted_alone ? PROCESSES : RLIM_INFINITY, "processes"},
                  {RLIMIT_MSGQUEUE, 0, "message queues"},
                  {RLIMIT_RTPRIO, 0, "real-time priority"},
                  {RLIMIT_NICE, 0, "priority"}};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (lower(limits[i].what, limits[i].most, limits[i].name, e) != 0)
            return -1;
    return 0;
}
