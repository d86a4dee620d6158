// SPDX-License-Identifier: Apache-2.0
// PID 1's life after the start: keeps envd running, reaps, ends the machine.
//
// It sleeps in sigtimedwait without a timeout except while a restart is due, so that an idle guest
// has no timer of ours to run (under TCG each one costs the host).
#include "sandbox-backend/guest/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/guest/step.h"

// envd that lived this long starts again at once; one that dies sooner waits, twice as long each
// time, so that a broken envd does not eat the machine.
#define STABLE_MS      5000
#define BACKOFF_MIN_MS 10
#define BACKOFF_MAX_MS 1000
#define STOP_WAIT_MS   500

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define RELAY_PORT      TEXT(ENVD_RELAY_PORT)

struct keeper {
    int program;
    sigset_t waited;
    sigset_t original;
    pid_t pid; // of envd; 0 while it waits for its restart
    int64_t started_ms;
    int64_t backoff_ms;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void run_envd(const struct keeper *k)
{
    static const char *const ARGV[] = {"envd",         "--machine", "yes",
                                       "--relay-port", RELAY_PORT,  NULL};
    static const char *const ENV[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LANG=C.UTF-8",
        NULL,
    };
    setsid();
    sigprocmask(SIG_SETMASK, &k->original, NULL);
    fexecve(k->program, (char *const *)(uintptr_t)ARGV, (char *const *)(uintptr_t)ENV);
    step_say("envd does not start: %s", strerror(errno));
    _exit(127);
}

static void start_envd(struct keeper *k)
{
    k->started_ms = now_ms();
    pid_t pid = fork();
    if (pid == 0)
        run_envd(k);
    k->pid = pid > 0 ? pid : 0;
    if (pid < 0) {
        step_say("fork: %s", strerror(errno));
        k->backoff_ms = BACKOFF_MAX_MS;
    }
}

static void on_envd_end(struct keeper *k, int status)
{
    if (WIFSIGNALED(status))
        step_say("envd was ended by signal %d", WTERMSIG(status));
    else
        step_say("envd ended with status %d", WEXITSTATUS(status));
    k->pid = 0;
    bool stable = now_ms() - k->started_ms >= STABLE_MS;
    k->backoff_ms = stable || !k->backoff_ms ? BACKOFF_MIN_MS : k->backoff_ms * 2;
    if (k->backoff_ms > BACKOFF_MAX_MS)
        k->backoff_ms = BACKOFF_MAX_MS;
}

static void reap(struct keeper *k)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == k->pid)
            on_envd_end(k, status);
}

static void stop_machine(void)
{
    step_say("stopping");
    kill(-1, SIGTERM);
    for (int64_t end = now_ms() + STOP_WAIT_MS; now_ms() < end;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (kill(-1, 0) < 0)
            break; // nobody is left
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(-1, SIGKILL);
    sync();
    mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
    step_end_machine();
}

void supervise(int program)
{
    struct keeper k = {.program = program};
    sigemptyset(&k.waited);
    sigaddset(&k.waited, SIGCHLD);
    sigaddset(&k.waited, SIGTERM);
    sigaddset(&k.waited, SIGINT);
    sigaddset(&k.waited, SIGPWR);
    sigprocmask(SIG_BLOCK, &k.waited, &k.original);
    start_envd(&k);
    step_say("ready");
    for (;;) {
        int signal;
        if (k.pid) {
            signal = sigwaitinfo(&k.waited, NULL);
        } else {
            struct timespec pause = {.tv_sec = k.backoff_ms / 1000,
                                     .tv_nsec = k.backoff_ms % 1000 * 1000000};
            signal = sigtimedwait(&k.waited, NULL, &pause);
            if (signal < 0 && errno == EAGAIN)
                start_envd(&k);
        }
        if (signal == SIGCHLD)
            reap(&k);
        else if (signal > 0)
            stop_machine();
    }
}
