// SPDX-License-Identifier: Apache-2.0
// Starting a program by vfork(2): the daemon's memory is not copied, every descriptor that is not
// meant for the child is closed, and the parent learns of a failed exec. (posix_spawn(3) would do
// but for the parent-death signal.)
#include "sandbox-backend/drivers/microvm/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FD_SWEEP_MAX 65536 // without close_range(2), Linux before 5.9

struct plan {
    const struct spawn_opts *opts;
    char *const *env;
    int sources[SPAWN_FDS_MAX]; // ours, all above the child's, so that no dup2 hits a later one
    pid_t parent;
    int failed; // errno of the child, in memory that vfork shares
};

static void default_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &standard, NULL); // EINVAL for those that cannot be set
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_from(int first)
{
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < FD_SWEEP_MAX; fd++)
        close(fd);
}

// In the child, on the parent's memory: only system calls from here to the exec.
static void become(struct plan *plan)
{
    const struct spawn_opts *opts = plan->opts;
    setsid();
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
        if (getppid() != plan->parent) // it ended before the line above
            return;
    }
    // Where Yama restricts ptrace (its ptrace_scope 1). It holds across the exec.
    if (opts->is_open)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    execve(opts->file, opts->argv, plan->env);
    plan->failed = errno;
}

// Signals wait meanwhile: a handler of ours must not run in the child.
static pid_t start(struct plan *plan)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    // What the checks object to is what is wanted: the parent waits for the exec, a few hundred
    // microseconds, and the child only makes system calls.
    pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork)
    if (pid == 0) {
        become(plan); // NOLINT(clang-analyzer-unix.Vfork)
        _exit(127);
    }
    if (pid < 0)
        plan->failed = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
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
    char *const minimal[] = {path_entry, lang, NULL};
    struct plan plan = {.opts = opts, .env = opts->env ? opts->env : minimal, .parent = getpid()};
    int null auto_close = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = -1;
    for (int i = 0; i < SPAWN_FDS_MAX; i++)
        plan.sources[i] = -1;
    plan.failed = null < 0 ? errno : take_sources(&plan, null);
    if (!plan.failed)
        pid = start(&plan);
    drop_sources(&plan);
    return pid < 0 ? err_sys(e, plan.failed, "start %s", opts->file) : pid;
}
