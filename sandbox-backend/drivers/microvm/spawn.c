// SPDX-License-Identifier: Apache-2.0
// Starting a program by clone(2) as vfork(2) does it: the daemon's memory is not copied, every
// descriptor that is not meant for the child is closed, and the parent learns of a failed exec.
// (posix_spawn(3) would do but for the namespaces and the parent-death signal.)
#include "sandbox-backend/drivers/microvm/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FD_SWEEP_MAX 65536 // without close_range(2), Linux before 5.9
#define STACK_BYTES  65536

// What the child runs leaves its frames behind by execve(2): the address sanitizer, which sees it
// in the parent's memory, must not mark them.
#ifdef __SANITIZE_ADDRESS__
#define IN_CHILD __attribute__((no_sanitize_address, noinline))
#else
#define IN_CHILD
#endif

struct plan {
    const struct spawn_opts *opts;
    char *const *env;
    int sources[SPAWN_FDS_MAX]; // ours, all above the child's, so that no dup2 hits a later one
    pid_t parent;
    char users[32], groups[32]; // maps of its user namespace
    int failed;                 // errno of the child, in memory that both share
};

IN_CHILD static void default_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &standard, NULL); // EINVAL for those that cannot be set
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

IN_CHILD static void close_from(int first)
{
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < FD_SWEEP_MAX; fd++)
        close(fd);
}

IN_CHILD static int write_map(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t len = (ssize_t)strlen(text);
    bool done = fd >= 0 && write(fd, text, (size_t)len) == len;
    if (fd >= 0)
        close(fd);
    return done ? 0 : -1;
}

// As root in it, whoever it is outside: so it keeps its rights over the namespace when it executes
// the program.
IN_CHILD static int map_user(const struct plan *plan)
{
    if (write_map("/proc/self/setgroups", "deny") != 0 ||
        write_map("/proc/self/uid_map", plan->users) != 0)
        return -1;
    return write_map("/proc/self/gid_map", plan->groups);
}

// In the child, on the parent's memory: only system calls from here to the exec.
IN_CHILD static void become(struct plan *plan)
{
    const struct spawn_opts *opts = plan->opts;
    setsid();
    if (opts->namespaces & CLONE_NEWUSER && map_user(plan) != 0) {
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
        // It ended before the line above. (From another process namespace it is not seen.)
        if (!(opts->namespaces & CLONE_NEWPID) && getppid() != plan->parent)
            return;
    }
    // Where Yama restricts ptrace (its ptrace_scope 1). It holds across the exec.
    if (opts->is_open)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    execve(opts->file, opts->argv, plan->env);
    plan->failed = errno;
}

IN_CHILD static int run_child(void *plan)
{
    become(plan);
    _exit(127);
}

// Signals wait meanwhile: a handler of ours must not run in the child. The parent waits for the
// exec, a few hundred microseconds.
static pid_t start(struct plan *plan)
{
    sigset_t all, before;
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        plan->failed = errno;
        return -1;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    int flags = CLONE_VM | CLONE_VFORK | SIGCHLD | plan->opts->namespaces;
    pid_t pid = clone(run_child, stack + STACK_BYTES, flags, plan);
    if (pid < 0)
        plan->failed = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    munmap(stack, STACK_BYTES);
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
    char *const minimal[] = {path_entry, lang, preload, NULL};
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
