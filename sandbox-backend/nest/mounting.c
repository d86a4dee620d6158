// SPDX-License-Identifier: Apache-2.0
// Mounting in a guest of bubblewrap.
#include "sandbox-backend/nest/mounting.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/jail/process.h"
#include "sandbox-backend/mountd/wire.h"
#include "sandbox-backend/nest/filter.h"
#include "sandbox-backend/nest/nest.h"
#include "sandbox-backend/nest/users.h"

#define ENTERED (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET)
#define DEVICE  "/dev/fuse"
#define BENEATH 0x200 // MOVE_MOUNT_BENEATH, which the C library does not know yet

// Descriptors of the host, opened before the guest's root is this process's, and of the mount.
struct parts {
    int dev, proc, null, program; // of the host
    int fuse, mount;
};

// ---- 1. the guest's namespaces

static int open_host(const struct mounting *m, struct parts *p, struct err *e)
{
    p->dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    p->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    p->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    p->program = open(m->program, O_RDONLY | O_CLOEXEC);
    if (p->dev < 0 || p->proc < 0 || p->null < 0 || p->program < 0)
        return err_sys(e, errno, "open %s and the devices", m->program);
    return 0;
}

static int wait_for_go(int fd, struct err *e)
{
    char byte;
    ssize_t n;
    while ((n = read(fd, &byte, 1)) < 0 && errno == EINTR)
        ;
    close(fd);
    return n == 1 ? 0 : err_set(e, ERR_CANCELED, "the daemon cancelled the mount");
}

static int enter(const struct mounting *m, struct parts *p, struct err *e)
{
    if (setns(m->guest, ENTERED) < 0)
        return err_sys(e, errno, "enter the guest's namespaces");
    // The user of the host that opens the device is still the daemon's, but its rights are the
    // guest's: the kernel wants a descriptor of the users of the mount.
    p->fuse = openat(p->dev, "fuse", O_RDWR | O_CLOEXEC);
    if (p->fuse < 0)
        return err_set(e, ERR_PRECONDITION,
                       "the host's " DEVICE " cannot be opened, which a mount under bubblewrap "
                       "needs: %s",
                       strerror(errno));
    return users_become_root(e);
}

// ---- 2. the mount

// Unmount what a descriptor is the root of. umount2(2) takes no descriptor, and a path of the guest
// may lead elsewhere by now.
static void unmount(const struct parts *p, int fd)
{
    char name[16];
    int fds auto_close = openat(p->proc, "self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(name, sizeof name, "%d", fd);
    if (fds >= 0 && fchdir(fds) == 0)
        umount2(name, MNT_DETACH);
    if (chdir("/") < 0)
        return; // the guest's root is always there
}

// Open the target, which is made if it is missing. *left_over: it is the root of a mount whose
// mountfs was killed, or is about to end.
static int open_target(const char *target, bool *left_over, struct err *e)
{
    struct statfs fs;
    int fd auto_close = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && dir_make(target, 0755, e) < 0) {
        if (e->sys == ENOTCONN || e->sys == ECONNABORTED) // a mount above it is about to go
            e->code = ERR_UNAVAILABLE;
        return -1;
    }
    if (fd < 0 && (fd = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return err_sys(e, errno, "open %s", target);
    bool answers = fstatfs(fd, &fs) == 0;
    *left_over = !answers && (errno == ENOTCONN || errno == ECONNABORTED);
    if (answers && fs.f_type == FUSE_SUPER_MAGIC)
        return err_set(e, ERR_CONFLICT, "%s leads into another mount", target);
    return steal_fd(&fd);
}

// glibc has these calls since 2.36, and the portable programs need no newer one than 2.34.
static int fs_set(int fs, unsigned what, const char *key, const char *value)
{
    return (int)syscall(SYS_fsconfig, fs, what, key, value, 0);
}

static int fs_open(const char *kind)
{
    return (int)syscall(SYS_fsopen, kind, FSOPEN_CLOEXEC);
}

static int fs_mount(int fs, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
}

static int configure(int fs, int fuse, bool read_only)
{
    char number[16];
    const char *const texts[][2] = {{"source", "cubby"},   {"subtype", "cubby"}, {"fd", number},
                                    {"rootmode", "40000"}, {"user_id", "0"},     {"group_id", "0"}};
    const char *const flags[] = {"allow_other", "default_permissions", read_only ? "ro" : NULL};
    snprintf(number, sizeof number, "%d", fuse);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (fs_set(fs, FSCONFIG_SET_STRING, texts[i][0], texts[i][1]) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(flags) && flags[i]; i++)
        if (fs_set(fs, FSCONFIG_SET_FLAG, flags[i], NULL) < 0)
            return -1;
    return fs_set(fs, FSCONFIG_CMD_CREATE, NULL, NULL);
}

static int make_mount(const struct mounting *m, struct parts *p, struct err *e)
{
    unsigned flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (m->read_only ? MOUNT_ATTR_RDONLY : 0);
    int fs auto_close = fs_open("fuse");
    if (fs < 0 || configure(fs, p->fuse, m->read_only) < 0 || (p->mount = fs_mount(fs, flags)) < 0)
        return err_set(e, ERR_PRECONDITION, "this host's kernel cannot mount %s by FUSE: %s",
                       m->target, strerror(errno));
    return 0;
}

static int attach(int mount, int target, unsigned flags)
{
    return (int)syscall(SYS_move_mount, mount, "", target, "",
                        MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH | flags);
}

// Put the mount in the place of one that is left over. It comes beneath that one first, so that
// nobody writes to the directory below in between. Linux before 6.5 cannot do that.
static int replace(const struct mounting *m, const struct parts *p, int old, struct err *e)
{
    bool left_over;
    bool is_beneath = attach(p->mount, old, BENEATH) == 0;
    unmount(p, old);
    if (is_beneath)
        return 0;
    int target auto_close = open_target(m->target, &left_over, e);
    if (target < 0)
        return -1;
    return attach(p->mount, target, 0) < 0 ? err_sys(e, errno, "mount %s", m->target) : 0;
}

// The target is a descriptor, so the guest cannot put another directory there in between.
static int mount_at(const struct mounting *m, struct parts *p, struct err *e)
{
    bool left_over;
    if (make_mount(m, p, e) < 0)
        return -1;
    int target auto_close = open_target(m->target, &left_over, e);
    if (target < 0)
        return -1;
    if (left_over)
        return replace(m, p, target, e);
    return attach(p->mount, target, 0) < 0 ? err_sys(e, errno, "mount %s", m->target) : 0;
}

// ---- 3. mountfs

static void __attribute__((noreturn))
run_program(const struct mounting *m, const struct parts *p, int says, struct err *e)
{
    char *fuse auto_free = str_printf(MOUNT_FUSE_NAME "=%d", p->fuse);
    const char *given = getenv(MOUNT_TOKEN_NAME);
    char *token auto_free = str_printf(MOUNT_TOKEN_NAME "=%s", given ? given : "");
    char *env[] = {token, fuse, NULL};
    char *argv[] = {(char *)(uintptr_t) "mountfs",
                    (char *)(uintptr_t)m->port,
                    (char *)(uintptr_t)m->target,
                    (char *)(uintptr_t)m->user,
                    m->read_only ? (char *)(uintptr_t) "ro" : NULL,
                    NULL};
    setsid();
    if (dup2(p->null, STDIN_FILENO) < 0 || dup2(says, STDOUT_FILENO) < 0 ||
        fd_set_cloexec(p->fuse, false, e) < 0 || identity_drop(e) < 0 || filter_load(e) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        fprintf(stderr, NEST_SAYS "%s\n", err_is(e) ? e->msg : strerror(errno));
    else if (fexecve(p->program, argv, env) < 0)
        fprintf(stderr, NEST_SAYS "start %s: %s\n", m->program, strerror(errno));
    _exit(1);
}

// Return the process. *says gets a byte when it serves.
static pid_t start_program(const struct mounting *m, struct parts *p, int *says, struct err *e)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int out auto_close = pair[1];
    *says = pair[0];
    if (unshare(CLONE_NEWPID) < 0)
        return err_sys(e, errno, "make a process namespace");
    pid_t child = fork();
    if (child == 0)
        run_program(m, p, out, e);
    close(steal_fd(&p->fuse)); // the kernel ends all requests when the last one is closed
    return child < 0 ? err_sys(e, errno, "start a process") : child;
}

// ---- 4. the keeper

// Wait until the program or the guest has ended. Return whether the program ended by itself.
static bool keep(pid_t child, int holder)
{
    int status = 0;
    int program auto_close = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd fds[] = {{.fd = program, .events = POLLIN}, {.fd = holder, .events = POLLIN}};
    while (program >= 0 && poll(fds, ARRAY_LEN(fds), -1) < 0)
        ;
    if (program < 0 || fds[1].revents)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void __attribute__((noreturn))
run_keeper(const struct mounting *m, struct parts *p, int served)
{
    struct err e = ERR_INIT;
    char byte;
    int says = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // until the mount is served
    setsid();
    pid_t child = start_program(m, p, &says, &e);
    bool serves = child > 0 && read(says, &byte, 1) == 1;
    if (err_is(&e))
        fprintf(stderr, NEST_SAYS "%s\n", e.msg);
    prctl(PR_SET_PDEATHSIG, 0);
    for (int i = 0; i <= STDERR_FILENO; i++)
        dup2(p->null, i);
    close(p->dev);
    close(p->program);
    close(m->guest);
    bool is_told = serves && write(served, "", 1) == 1;
    close(served);
    if (child > 0 && !is_told)
        kill(child, SIGKILL);
    if ((child > 0 && keep(child, m->holder)) || !is_told)
        unmount(p, p->mount);
    _exit(0);
}

int mounting_run(const struct mounting *m, struct err *e)
{
    struct parts p = {-1, -1, -1, -1, -1, -1};
    int pair[2];
    char byte;
    signal(SIGPIPE, SIG_IGN);
    if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0) // mountfs inherits none
        return err_sys(e, errno, "keep descriptors");
    if (open_host(m, &p, e) < 0 || wait_for_go(m->go, e) < 0 || enter(m, &p, e) < 0 ||
        mount_at(m, &p, e) < 0)
        return -1;
    pid_t keeper = pipe2(pair, O_CLOEXEC) < 0 ? -1 : fork();
    if (keeper < 0) {
        err_sys(e, errno, "start a process");
        unmount(&p, p.mount);
        return -1;
    }
    if (keeper == 0) {
        close(pair[0]);
        run_keeper(m, &p, pair[1]);
    }
    close(pair[1]);
    close(steal_fd(&p.fuse));
    bool serves = read(pair[0], &byte, 1) == 1;
    close(pair[0]);
    return serves ? 0 : err_set(e, ERR_UNAVAILABLE, "mountfs did not start");
}
