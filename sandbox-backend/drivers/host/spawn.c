// SPDX-License-Identifier: Apache-2.0
// Start a program by clone(2) with the semantics of vfork(2): the daemon's memory is not copied,
// every descriptor that is not meant for the child is closed, and the parent learns of a failed
// exec. posix_spawn(3) can neither make the namespaces nor set the parent-death signal.
#include "sandbox-backend/drivers/host/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/child.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define MEMINFO       "/proc/meminfo"
#define SCRATCH_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)
#define SCRATCH_SIZE  "size=64k,nr_inodes=16,mode=0700"
#define FD_SWEEP_MAX  65536 // for kernels without close_range(2), Linux before 5.9

struct plan {
    const struct spawn_opts *opts;
    char *const *env;
    int sources[SPAWN_FDS_MAX]; // the parent's descriptors, all above the child's, so that no dup2
                                // overwrites a later one
    pid_t parent;
    char users[32], groups[32]; // maps of the child's user namespace
    int failed;                 // errno of the child, in memory that both processes share
};

CHILD_CODE static void default_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &standard, NULL); // EINVAL for signals that cannot be set
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

CHILD_CODE static void close_from(int first)
{
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < FD_SWEEP_MAX; fd++)
        close(fd);
}

CHILD_CODE static int write_map(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t len = (ssize_t)strlen(text);
    bool done = fd >= 0 && write(fd, text, (size_t)len) == len;
    if (fd >= 0)
        close(fd);
    return done ? 0 : -1;
}

// Map the child to root in its user namespace, whatever its user outside. As root it keeps its
// capabilities in the namespace across the exec.
CHILD_CODE static int map_user(const struct plan *plan)
{
    if (write_map("/proc/self/setgroups", "deny") != 0 ||
        write_map("/proc/self/uid_map", plan->users) != 0)
        return -1;
    return write_map("/proc/self/gid_map", plan->groups);
}

CHILD_CODE static int change_mounts(const struct spawn_opts *opts)
{
    if (!opts->meminfo && !opts->hidden && !opts->scratch)
        return 0;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        (opts->meminfo && mount(opts->meminfo, MEMINFO, NULL, MS_BIND, NULL) != 0) ||
        (opts->scratch && mount("none", opts->scratch, "tmpfs", SCRATCH_FLAGS, SCRATCH_SIZE) != 0))
        return -1;
    if (!opts->hidden || mount("none", opts->hidden, "tmpfs", MS_RDONLY, NULL) == 0)
        return 0;
    return errno == ENOENT ? 0 : -1;
}

// Runs in the child, on the parent's memory: only system calls from here to the exec.
CHILD_CODE static void become(struct plan *plan)
{
    const struct spawn_opts *opts = plan->opts;
    setsid();
    if (opts->namespaces & CLONE_NEWUSER && map_user(plan) != 0) {
        plan->failed = errno;
        return;
    }
    if (change_mounts(opts) != 0) {
        plan->failed = errno;
        return;
    }
    default_signals();
    for (int i = 0; i < opts->fd_count; i++) {
        if (dup2(plan->sources[i], i) < 0) {
            plan->failed = errno;
            return;
        }
    }
    close_from(opts->fd_count);
    if (opts->dies_with_us) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The parent ended before the prctl above took effect. (In another PID namespace the
        // parent's pid cannot be seen.)
        if (!(opts->namespaces & CLONE_NEWPID) && getppid() != plan->parent)
            return;
    }
    // Where Yama restricts ptrace (ptrace_scope 1), allow any process of this user to trace this
    // one. The setting holds across the exec.
    if (opts->is_open)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    execve(opts->file, opts->argv, plan->env);
    plan->failed = errno;
}

CHILD_CODE static int run_child(void *plan)
{
    become(plan);
    _exit(127);
}

// Start the child. The parent waits for the exec, which takes a few hundred microseconds.
static pid_t start(struct plan *plan)
{
    const struct child_opts opts = {.namespaces = plan->opts->namespaces,
                                    .cgroup_fd = CHILD_NO_CGROUP};
    pid_t pid = child_clone(run_child, plan, &opts, NULL);
    if (pid < 0)
        plan->failed = errno;
    if (pid > 0 && plan->failed) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        pid = -1;
    }
    return pid;
}

static int take_sources(struct plan *plan, int null)
{
    for (int i = 0; i < plan->opts->fd_count; i++) {
        int fd = plan->opts->fds[i] >= 0 ? plan->opts->fds[i] : null;
        plan->sources[i] = fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FDS_MAX);
        if (plan->sources[i] < 0)
            return errno;
    }
    return 0;
}

static void drop_sources(const struct plan *plan)
{
    for (int i = 0; i < SPAWN_FDS_MAX; i++) {
        if (plan->sources[i] >= 0)
            close(plan->sources[i]);
    }
}

pid_t spawn_program(const struct spawn_opts *opts, struct err *e)
{
    const char *path = getenv("PATH");
    char *path_entry auto_free = str_printf("PATH=%s", path ? path : "/usr/bin:/bin");
    char lang[] = "LANG=C";
    char *preload auto_free = opts->preload ? str_printf("LD_PRELOAD=%s", opts->preload) : NULL;
    char *libraries auto_free =
        opts->libraries ? str_printf("LD_LIBRARY_PATH=%s", opts->libraries) : NULL;
    char *const minimal[] = {path_entry, lang, preload ? preload : libraries,
                             preload ? libraries : NULL, NULL};
    struct plan plan = {.opts = opts, .env = opts->env ? opts->env : minimal, .parent = getpid()};
    int null auto_close = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = -1;
    snprintf(plan.users, sizeof plan.users, "0 %u 1", (unsigned)geteuid());
    snprintf(plan.groups, sizeof plan.groups, "0 %u 1", (unsigned)getegid());
    for (int i = 0; i < SPAWN_FDS_MAX; i++)
        plan.sources[i] = -1;
    plan.failed = null < 0 ? errno : take_sources(&plan, null);
    if (!plan.failed)
        pid = start(&plan);
    drop_sources(&plan);
    return pid < 0 ? err_sys(e, plan.failed, "start %s", opts->file) : pid;
}
