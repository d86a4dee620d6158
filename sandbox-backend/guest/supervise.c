// SPDX-License-Identifier: Apache-2.0
// The work of init after the start: keep envd and the Python kernel running, reap ended processes,
// end the machine.
//
// It sleeps in sigtimedwait without a timeout unless a restart is due, so that an idle guest has no
// timer of init's (under TCG each timer costs the host).
#include "sandbox-backend/guest/supervise.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/groups.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/guest/step.h"

// A program that ran this long is restarted at once. One that ends sooner is restarted after a
// wait, which doubles each time, so that a broken program does not use up the processor.
#define STABLE_MS      5000
#define BACKOFF_MIN_MS 10
#define BACKOFF_MAX_MS 1000
#define STOP_WAIT_MS   500

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define RELAY_PORT      TEXT(ENVD_RELAY_PORT)

// Some templates have it (template/rootfs.c). It runs as the user that the template build created.
#define KERNEL      "/usr/lib/cubby/kernel"
#define KERNEL_HOME "/home/user"
#define KERNEL_USER "user"
#define KERNEL_ID   1000
#define GROUPS_MAX  64
// A control group of its own, so that envd can stop it (envd/guest/quiesce.c).
#define KERNEL_CGROUP "/sys/fs/cgroup/kernel"
// When memory runs out, commands and contexts must end before the server and the zygote, without
// which all contexts are lost. envd sets a score of its own.
#define KERNEL_OOM_SCORE "-500"

struct kept {
    const char *name;
    void (*run)(const struct kept *k); // runs in the child; returns if the program does not start
    int file;                          // for envd: its open program file
    bool owns_kernel;                  // the guest has a kernel of its own
    pid_t pid;                         // 0 while it waits for a restart
    int64_t started_ms;
    int64_t backoff_ms;
    int64_t due_ms; // time of its restart
};

struct keeper {
    struct kept kept[2];
    size_t count;
    sigset_t waited;
    sigset_t original;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void run_envd(const struct kept *k)
{
    const char *const argv[] = {"envd",         "--machine", k->owns_kernel ? "yes" : "shared",
                                "--relay-port", RELAY_PORT,  NULL};
    static const char *const ENV[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LANG=C.UTF-8",
        NULL,
    };
    fexecve(k->file, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)ENV);
}

// Run as the user of the sandbox, with the environment of a login.
static void run_kernel(const struct kept *k)
{
    if (k->owns_kernel) {
        step_write("/proc/self/oom_score_adj", KERNEL_OOM_SCORE);
        step_write(KERNEL_CGROUP "/cgroup.procs", "0");
    }
    static char *const ARGV[] = {(char *)(uintptr_t) "python3", (char *)(uintptr_t)KERNEL, NULL};
    static const char *const ENV[] = {
        "PATH=" KERNEL_HOME "/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
        "HOME=" KERNEL_HOME,
        "USER=" KERNEL_USER,
        "LOGNAME=" KERNEL_USER,
        "SHELL=/bin/bash",
        "LC_CTYPE=C.UTF-8",
        NULL,
    };
    // It has the groups of envd's commands, so that both can open the same files.
    gid_t groups[GROUPS_MAX];
    size_t count = groups_of("/etc/group", KERNEL_USER, KERNEL_ID, groups, GROUPS_MAX);
    if (setgroups(count, groups) < 0 || setgid(KERNEL_ID) < 0 || setuid(KERNEL_ID) < 0 ||
        chdir(KERNEL_HOME) < 0)
        return;
    execve("/usr/bin/python3", ARGV, (char *const *)(uintptr_t)ENV);
}

// The file pids.max exists in a guest of gVisor only.
static void make_kernel_group(void)
{
    if (mkdir(KERNEL_CGROUP, 0755) < 0 && errno != EEXIST)
        step_say("mkdir " KERNEL_CGROUP ": %s", strerror(errno));
    if (access(KERNEL_CGROUP "/pids.max", W_OK) == 0)
        step_write(KERNEL_CGROUP "/pids.max", TEXT(LIMIT_KERNEL_TASKS));
}

static void start(const struct keeper *keeper, struct kept *k)
{
    k->started_ms = now_ms();
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        sigprocmask(SIG_SETMASK, &keeper->original, NULL);
        k->run(k);
        step_say("%s does not start: %s", k->name, strerror(errno));
        _exit(127);
    }
    k->pid = pid > 0 ? pid : 0;
    if (pid < 0) {
        step_say("fork: %s", strerror(errno));
        k->due_ms = now_ms() + BACKOFF_MAX_MS;
    }
}

static void on_end(struct kept *k, int status)
{
    if (WIFSIGNALED(status))
        step_say("%s was ended by signal %d", k->name, WTERMSIG(status));
    else
        step_say("%s ended with status %d", k->name, WEXITSTATUS(status));
    k->pid = 0;
    bool stable = now_ms() - k->started_ms >= STABLE_MS;
    k->backoff_ms = stable || !k->backoff_ms ? BACKOFF_MIN_MS : k->backoff_ms * 2;
    if (k->backoff_ms > BACKOFF_MAX_MS)
        k->backoff_ms = BACKOFF_MAX_MS;
    k->due_ms = now_ms() + k->backoff_ms;
}

static void reap(struct keeper *keeper)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < keeper->count; i++)
            if (pid == keeper->kept[i].pid)
                on_end(&keeper->kept[i], status);
}

static void stop_machine(void)
{
    step_say("stopping");
    kill(-1, SIGTERM);
    for (int64_t end = now_ms() + STOP_WAIT_MS; now_ms() < end;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (kill(-1, 0) < 0)
            break; // no process is left
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(-1, SIGKILL);
    sync();
    mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
    step_end_machine();
}

// Start what is due. Return the ms until the next start; -1: everything runs.
static int64_t start_due(struct keeper *keeper)
{
    int64_t next = -1;
    for (size_t i = 0; i < keeper->count; i++) {
        struct kept *k = &keeper->kept[i];
        if (!k->pid && k->due_ms <= now_ms())
            start(keeper, k);
        int64_t wait = k->pid ? -1 : k->due_ms - now_ms();
        if (!k->pid && (next < 0 || wait < next))
            next = wait > 0 ? wait : 0;
    }
    return next;
}

void supervise(int program, bool owns_kernel)
{
    struct keeper k = {
        .kept = {{.name = "envd", .run = run_envd, .file = program, .owns_kernel = owns_kernel},
                 {.name = "the Python kernel", .run = run_kernel, .owns_kernel = owns_kernel}},
        .count = access(KERNEL, F_OK) == 0 ? 2 : 1,
    };
    sigemptyset(&k.waited);
    sigaddset(&k.waited, SIGCHLD);
    sigaddset(&k.waited, SIGTERM);
    sigaddset(&k.waited, SIGINT);
    sigaddset(&k.waited, SIGPWR);
    sigprocmask(SIG_BLOCK, &k.waited, &k.original);
    if (k.count > 1 && owns_kernel)
        make_kernel_group();
    int64_t next = start_due(&k);
    step_say("ready");
    for (;; next = start_due(&k)) {
        struct timespec pause = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000};
        int signal =
            next < 0 ? sigwaitinfo(&k.waited, NULL) : sigtimedwait(&k.waited, NULL, &pause);
        if (signal == SIGCHLD)
            reap(&k);
        else if (signal > 0)
            stop_machine();
    }
}
