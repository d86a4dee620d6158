// SPDX-License-Identifier: Apache-2.0
// Running the programs of a template build, with support for interruption.
#include "sandbox-backend/drivers/host/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/host/distribution.h"

#define TICK_MS 150
// On SIGTERM, mmdebstrap unmounts and removes what it made.
#define STOP_GRACE_MS 10000
#define SHELL_SIGNAL  128
#define ENV_MAX       32

static volatile sig_atomic_t interrupted;
static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
static int watchers; // calls of tool_watch_signals that have no tool_unwatch_signals yet
static struct sigaction previous[ARRAY_LEN(SIGNALS)];

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

void tool_watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}; // no SA_RESTART: a signal must end waits
    if (watchers++)
        return;
    interrupted = 0;
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        sigaction(SIGNALS[i], &action, &previous[i]);
}

void tool_unwatch_signals(void)
{
    if (--watchers)
        return;
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        sigaction(SIGNALS[i], &previous[i], NULL);
}

bool tool_interrupted(void)
{
    return interrupted != 0;
}

// Return the PATH for tools. A user's PATH often lacks the directory of mke2fs. New string.
static char *search_path(void)
{
    const char *path = getenv("PATH");
    return str_printf("%s:/usr/sbin:/sbin", path && *path ? path : "/usr/local/bin:/usr/bin:/bin");
}

char *tool_find(const char *name, const char *package, struct err *e)
{
    char *path auto_free = search_path();
    char *rest = path;
    if (strchr(name, '/') && access(name, X_OK) == 0)
        return xstrdup(name);
    for (char *dir; (dir = strsep(&rest, ":"));) {
        char *file auto_free = str_printf("%s/%s", *dir ? dir : ".", name);
        if (access(file, X_OK) == 0)
            return steal(&file);
    }
    char *how auto_free = distribution_install(package);
    err_set(e, ERR_NOT_FOUND, "%s is not installed; to install it: %s", name, how);
    return NULL;
}

// Return the environment of a tool. A build must not depend on what the user's shell exports
// (PYTHON*, PIP_*, DEB*), so only the variables for the network and for the directory of temporary
// files pass.
static char **tool_env(const char *const *extra, bool keeps_pip)
{
    static const char *const KEPT[] = {"HOME",       "USER",        "LOGNAME",   "TMPDIR",
                                       "http_proxy", "https_proxy", "ftp_proxy", "no_proxy",
                                       "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};
    char **env = xcalloc(ENV_MAX, sizeof(*env));
    int n = 0;
    char *path auto_free = search_path();
    env[n++] = str_printf("PATH=%s", path);
    env[n++] = xstrdup("LC_ALL=C.UTF-8");
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++)
        if (getenv(KEPT[i]))
            env[n++] = str_printf("%s=%s", KEPT[i], getenv(KEPT[i]));
    for (char **v = environ; keeps_pip && *v && n < ENV_MAX - 1; v++)
        if (str_starts(*v, "PIP_"))
            env[n++] = xstrdup(*v);
    for (; extra && *extra && n < ENV_MAX - 1; extra++)
        env[n++] = xstrdup(*extra);
    return env;
}

static void free_env(char **env)
{
    for (char **v = env; *v; v++)
        free(*v);
    free(env);
}

static void default_signals(void)
{
    static const int DEFAULTS[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(DEFAULTS); i++)
        signal(DEFAULTS[i], SIG_DFL);
}

static void __attribute__((noreturn))
run_program(const struct tool *tool, const char *path, char *const *env)
{
    int in = tool->in ? tool->in : open("/dev/null", O_RDONLY);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(tool->out, STDOUT_FILENO) < 0 ||
        dup2(tool->log, STDERR_FILENO) < 0 || (tool->cwd && chdir(tool->cwd) < 0))
        _exit(126);
    // Descriptors that this process inherited without close-on-exec end here too: mmdebstrap passes
    // the next free number to sh as "cat >&12", and dash takes one digit only.
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (tool->keep >= 0)
        fcntl(tool->keep, F_SETFD, 0);
    // The mounts that mmdebstrap makes below the build must not outlive it: removing the directory
    // would otherwise remove the host's /dev. Without permission for unshare, mmdebstrap cannot
    // mount either.
    if (tool->own_mounts && unshare(CLONE_NEWNS) == 0)
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    execve(path, (char *const *)(uintptr_t)tool->argv, env);
    dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

static void __attribute__((noreturn)) end_as(int status)
{
    if (WIFSIGNALED(status)) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 126);
}

// Run as the leader of the tool's process group, and kill the whole group when `alive` is closed.
// Only the build holds the other end of `alive`. A parent-death signal would not do: it reaches one
// process, and the children of mmdebstrap would not notice.
static void __attribute__((noreturn))
guard(const struct tool *tool, const char *path, char *const *env, int alive)
{
    setpgid(0, 0);
    default_signals();
    pid_t pid = fork();
    if (pid == 0)
        run_program(tool, path, env);
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        signal(SIGNALS[i], SIG_IGN); // the leader ignores the signals that are sent to the group
    int status = 0;
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        _exit(126);
    struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = alive, .events = POLLIN}};
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    if (!p[0].revents) {
        kill(0, SIGTERM);
        if (poll(p, 1, STOP_GRACE_MS) <= 0)
            kill(0, SIGKILL); // this process too
    }
    waitpid(pid, &status, 0);
    end_as(status);
}

// Wait until the process has ended or `until_ms` (a monotonic time; -1 for none) has passed. Return
// true if it has ended. With `heed`, an interruption ends the wait early, with false.
static bool wait_gone(int pidfd, int64_t until_ms, bool heed, const struct tool *tool)
{
    for (;;) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        if (poll(&p, 1, TICK_MS) > 0)
            return true;
        if (tool->tick)
            tool->tick(tool->ctx);
        if ((heed && tool->has_stalled && tool->has_stalled(tool->ctx)) || (heed && interrupted) ||
            (until_ms >= 0 && clock_mono_ms() >= until_ms))
            return false;
    }
}

// Return ERR_BUSY for a signal that another program or a kernel without memory has sent.
static enum err_code code_of_signal(int number)
{
    return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP
               ? ERR_BUSY
               : ERR_INTERNAL;
}

static int judge(const char *name, int status, struct err *e)
{
    if (WIFSIGNALED(status))
        return err_set(e, code_of_signal(WTERMSIG(status)), "%s was ended by signal %d (%s)", name,
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status)) // a shell reports a signal of its command as 128 + its number
        return err_set(e, code_of_signal(WEXITSTATUS(status) - SHELL_SIGNAL),
                       "%s failed with status %d", name, WEXITSTATUS(status));
    return 0;
}

// Ask all processes of the group to stop, and kill those that do not.
static void stop(const struct tool *tool, pid_t pid, int pidfd)
{
    kill(-pid, SIGTERM);
    if (!wait_gone(pidfd, clock_mono_ms() + STOP_GRACE_MS, false, tool))
        kill(-pid, SIGKILL);
}

static int await_end(const struct tool *tool, pid_t pid, struct err *e)
{
    int pidfd auto_close = (int)syscall(SYS_pidfd_open, pid, 0);
    int64_t until = tool->timeout_ms ? clock_mono_ms() + tool->timeout_ms : -1;
    int status = 0;
    bool failed = true;
    if (pidfd < 0) {
        err_sys(e, errno, "pidfd_open");
        kill(-pid, SIGKILL);
    } else if (wait_gone(pidfd, until, true, tool)) {
        failed = false;
    } else {
        if (interrupted)
            err_set(e, ERR_CANCELED, "interrupted");
        else if (until < 0 || clock_mono_ms() < until)
            err_set(e, ERR_TIMEOUT, "%s got no more data and was ended", tool->argv[0]);
        else
            err_set(e, ERR_TIMEOUT, "%s took longer than %d s", tool->argv[0],
                    tool->timeout_ms / 1000);
        stop(tool, pid, pidfd);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return failed ? -1 : judge(tool->argv[0], status, e);
}

int tool_run(const struct tool *tool, struct err *e)
{
    char *path auto_free = tool_find(tool->argv[0], tool->package, e);
    if (!path)
        return -1;
    if (interrupted)
        return err_set(e, ERR_CANCELED, "interrupted");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "pipe");
    int read_end auto_close = ends[0];
    int write_end auto_close = ends[1]; // closed at the return, or when this process is killed
    char **env = tool_env(tool->env, tool->keeps_pip);
    pid_t pid = fork();
    if (pid == 0) {
        close(write_end);
        guard(tool, path, env, read_end);
    }
    int sys = errno;
    free_env(env);
    if (pid < 0)
        return err_sys(e, sys, "start %s", tool->argv[0]);
    setpgid(pid, pid); // both sides call setpgid, so the group exists whichever runs first
    return await_end(tool, pid, e);
}

int tool_run_like(const struct tool *like, const char *const *argv, const char *package,
                  struct err *e)
{
    struct tool tool = *like;
    tool.argv = argv;
    tool.package = package;
    return tool_run(&tool, e);
}

int tool_output(const char *const *argv, const char *package, size_t max, struct buf *out,
                struct err *e)
{
    // The output goes to an unnamed file, so that nothing has to read it while the tool runs.
    int fd auto_close = (int)syscall(SYS_memfd_create, "tool", 1U /* MFD_CLOEXEC */);
    int null auto_close = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || null < 0)
        return err_sys(e, errno, "%s", argv[0]);
    struct tool tool = {.argv = argv, .package = package, .out = fd, .log = null, .keep = -1};
    if (tool_run(&tool, e) < 0)
        return -1;
    char *path auto_free = str_printf("/proc/self/fd/%d", fd);
    return file_read(path, max, out, e);
}
