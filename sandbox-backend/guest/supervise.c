// SPDX-License-Identifier: Apache-2.0
// The work of init after the start: keep envd and the Python kernel running, reap ended processes,
// end the machine.
//
// It sleeps in sigtimedwait without a timeout unless a restart is due, so that an idle guest has no
// timer of init's (under TCG each timer costs the host).
#include "sandbox-backend/guest/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/guest/python_kernel.h"
#include "sandbox-backend/guest/step.h"

// A program that ran this long is restarted at once. One that ends sooner is restarted after a
// wait, which doubles each time, so that a broken program does not use up the processor.
#define STABLE_MS      5000
#define BACKOFF_MIN_MS 10
#define BACKOFF_MAX_MS 1000
#define STOP_WAIT_MS   500

#define NOT_FOUND 127 // exit status of a child whose program is not there, as in a shell

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define RELAY_PORT      TEXT(ENVD_RELAY_PORT)

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

enum { ENVD, PYTHON_KERNEL, KEPT };

struct keeper {
    struct kept kept[KEPT];
    size_t count; // PYTHON_KERNEL: without it
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

static void run_python_kernel(const struct kept *k)
{
    python_kernel_run(k->owns_kernel);
}

static void start(const struct keeper *keeper, struct kept *k)
{
    k->started_ms = now_ms();
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        sigprocmask(SIG_SETMASK, &keeper->original, NULL);
        k->run(k);
        int sys = errno;
        step_say("%s does not start: %s", k->name, strerror(sys));
        _exit(sys == ENOENT ? NOT_FOUND : 1);
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

// A template may have lost python3. Then there is nothing to start again and again.
static bool has_no_python(size_t i, int status)
{
    return i == PYTHON_KERNEL && WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND;
}

static void reap(struct keeper *keeper)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < keeper->count; i++)
            if (pid == keeper->kept[i].pid) {
                on_end(&keeper->kept[i], status);
                if (has_no_python(i, status))
                    keeper->count = PYTHON_KERNEL;
            }
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

// Begin to keep the Python kernel, if the guest has it.
static void take_python_kernel(struct keeper *k, bool owns_kernel)
{
    if (k->count > PYTHON_KERNEL || !python_kernel_is_here())
        return;
    if (owns_kernel)
        python_kernel_make_group();
    k->count = KEPT;
}

void supervise(int program, bool owns_kernel, bool holds_python)
{
    struct keeper k = {
        .kept = {[ENVD] =
                     {.name = "envd", .run = run_envd, .file = program, .owns_kernel = owns_kernel},
                 [PYTHON_KERNEL] = {.name = "the Python kernel",
                                    .run = run_python_kernel,
                                    .owns_kernel = owns_kernel}},
        .count = PYTHON_KERNEL,
    };
    sigemptyset(&k.waited);
    sigaddset(&k.waited, SIGCHLD);
    sigaddset(&k.waited, SIGTERM);
    sigaddset(&k.waited, SIGINT);
    sigaddset(&k.waited, SIGPWR);
    sigaddset(&k.waited, SIGHUP);
    sigprocmask(SIG_BLOCK, &k.waited, &k.original);
    if (!holds_python)
        take_python_kernel(&k, owns_kernel);
    int64_t next = start_due(&k);
    step_say("ready");
    for (;; next = start_due(&k)) {
        struct timespec pause = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000};
        int signal =
            next < 0 ? sigwaitinfo(&k.waited, NULL) : sigtimedwait(&k.waited, NULL, &pause);
        if (signal == SIGCHLD)
            reap(&k);
        else if (signal == SIGHUP)
            take_python_kernel(&k, owns_kernel);
        else if (signal > 0)
            stop_machine();
    }
}
