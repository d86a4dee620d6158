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

// Some templates have it (template/rootfs.c, template/source/guest_python.c). It runs as the user
// that the template build created.
#define KERNEL      "/usr/lib/cubby/kernel"
#define KERNEL_USER "user"
#define KERNEL_ID   1000
#define KERNEL_HOME "/home/user"
#define KERNEL_PATH \
    KERNEL_HOME "/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
#define GROUPS_MAX 64
// The variables of an image, each ended by a NUL, which the Python kernel gets, too. A template of
// Debian packages has none.
#define ENVIRONMENT  "/usr/lib/cubby/environment"
#define ENV_BYTES    (256 * 1024)
#define PASSWD_BYTES (1024 * 1024)
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

// The user that the Python kernel runs as. An image may give it another number and home.
struct kernel_user {
    uid_t uid;
    gid_t gid;
    char home[PATH_MAX];
};

// Read a file into static memory; the child has no other use for it. Return its length.
static size_t read_text(const char *path, char *out, size_t size)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && len < size - 1 && (n = read(fd, out + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    if (fd >= 0)
        close(fd);
    out[len] = '\0';
    return len;
}

// The fields of passwd(5): name, password, uid, gid, comment, home.
static void find_user(struct kernel_user *u)
{
    static char text[PASSWD_BYTES];
    char *rest = text;
    *u = (struct kernel_user){.uid = KERNEL_ID, .gid = KERNEL_ID, .home = KERNEL_HOME};
    read_text("/etc/passwd", text, sizeof text);
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *fields[6] = {NULL};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            fields[i] = strsep(&line, ":");
        if (!fields[5] || strcmp(fields[0], KERNEL_USER) != 0)
            continue;
        u->uid = (uid_t)strtoul(fields[2], NULL, 10);
        u->gid = (gid_t)strtoul(fields[3], NULL, 10);
        snprintf(u->home, sizeof u->home, "%s", fields[5]);
        return;
    }
}

// Set the environment of a login, and the variables of the image, which go before it. PATH, by
// which python3 is found, is among them.
static void set_environment(const struct kernel_user *u)
{
    static char text[ENV_BYTES];
    size_t len = read_text(ENVIRONMENT, text, sizeof text);
    clearenv();
    setenv("PATH", KERNEL_PATH, 1);
    setenv("HOME", u->home, 1);
    setenv("USER", KERNEL_USER, 1);
    setenv("LOGNAME", KERNEL_USER, 1);
    setenv("SHELL", access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh", 1);
    setenv("LC_CTYPE", "C.UTF-8", 1);
    for (char *at = text; at < text + len; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');
        if (!equals || equals == at)
            continue;
        *equals = '\0';
        setenv(at, equals + 1, 1);
        *equals = '=';
    }
}

// Run as the user of the sandbox.
static void run_kernel(const struct kept *k)
{
    if (k->owns_kernel) {
        step_write("/proc/self/oom_score_adj", KERNEL_OOM_SCORE);
        step_write(KERNEL_CGROUP "/cgroup.procs", "0");
    }
    static char *const ARGV[] = {(char *)(uintptr_t) "python3", (char *)(uintptr_t)KERNEL, NULL};
    // It has the groups of envd's commands, so that both can open the same files.
    struct kernel_user user;
    gid_t groups[GROUPS_MAX];
    find_user(&user);
    size_t count = groups_of("/etc/group", KERNEL_USER, user.gid, groups, GROUPS_MAX);
    if (setgroups(count, groups) < 0 || setgid(user.gid) < 0 || setuid(user.uid) < 0 ||
        chdir(user.home) < 0)
        return;
    set_environment(&user);
    execvp("python3", ARGV);
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

// Begin to keep the Python kernel, if the guest has it. A template build installs it in the guest
// of an image, and then sends SIGHUP.
static void take_kernel(struct keeper *k, bool owns_kernel)
{
    if (k->count > 1 || access(KERNEL, F_OK) != 0)
        return;
    if (owns_kernel)
        make_kernel_group();
    k->count = 2;
}

void supervise(int program, bool owns_kernel)
{
    struct keeper k = {
        .kept = {{.name = "envd", .run = run_envd, .file = program, .owns_kernel = owns_kernel},
                 {.name = "the Python kernel", .run = run_kernel, .owns_kernel = owns_kernel}},
        .count = 1,
    };
    sigemptyset(&k.waited);
    sigaddset(&k.waited, SIGCHLD);
    sigaddset(&k.waited, SIGTERM);
    sigaddset(&k.waited, SIGINT);
    sigaddset(&k.waited, SIGPWR);
    sigaddset(&k.waited, SIGHUP);
    sigprocmask(SIG_BLOCK, &k.waited, &k.original);
    take_kernel(&k, owns_kernel);
    int64_t next = start_due(&k);
    step_say("ready");
    for (;; next = start_due(&k)) {
        struct timespec pause = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000};
        int signal =
            next < 0 ? sigwaitinfo(&k.waited, NULL) : sigtimedwait(&k.waited, NULL, &pause);
        if (signal == SIGCHLD)
            reap(&k);
        else if (signal == SIGHUP)
            take_kernel(&k, owns_kernel);
        else if (signal > 0)
            stop_machine();
    }
}
