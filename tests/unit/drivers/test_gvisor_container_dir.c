// SPDX-License-Identifier: Apache-2.0
// The directories of containers: which of them are removed.
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/container_dir.h"
#include "tests/lib/harness/tap.h"

static char home[] = "/tmp/gvisor-container-dir-XXXXXX";

static char *make(const char *name)
{
    char *path = str_printf("%s/runsc/%s", home, name);
    ok(mkdir(path, 0700) == 0, "%s", name);
    return path;
}

static void test_a_build(void)
{
    char *daemons auto_free = make("0123456789ab");
    char *left auto_free = make("build-0123456789ab");
    char *other auto_free = make("build-ba9876543210");
    int lock auto_close = open(other, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    is_int(flock(lock, LOCK_EX | LOCK_NB), 0, "another build runs");
    container_dirs_for_build();
    ok(!file_exists(left), "what a killed build has left is removed");
    ok(file_exists(other), "not what one that runs has");
    ok(file_exists(daemons), "nor a daemon's, although nobody has locked it");
    struct container_dir p;
    struct err e = ERR_INIT;
    container_dir_init(&p);
    ok(str_starts(str_base(p.path), "build-"), "this build's own says what it is");
    is_int(container_dir_make(&p, &e), 0, "made: %s", e.msg);
    container_dirs_sweep();
    ok(file_exists(p.path) && file_exists(other) && !file_exists(daemons),
       "a daemon removes all but those of living processes");
    container_dir_fini(&p, true);
}

// ---- a sweep of another process

enum { MADE = 300 };

// A directory that is being made is not locked for a moment.
static void test_a_sweep_meanwhile(void)
{
    static struct container_dir dirs[MADE];
    struct err e = ERR_INIT;
    int lost = 0;
    pid_t sweeper = fork();
    if (sweeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            container_dirs_sweep();
    }
    for (int i = 0; i < MADE; i++) {
        container_dir_init(&dirs[i]);
        lost += container_dir_make(&dirs[i], &e) != 0;
    }
    is_int(lost, 0, "each is made: %s", e.msg);
    kill(sweeper, SIGKILL);
    waitpid(sweeper, NULL, 0);
    for (int i = 0; i < MADE; i++)
        lost += !file_exists(dirs[i].path);
    is_int(lost, 0, "and stays");
    for (int i = 0; i < MADE; i++)
        container_dir_fini(&dirs[i], true);
}

// ---- a process that is just being executed

enum { WORDS = 150000, TRIES = 50 };

static bool has_text(pid_t pid, const char *name, bool *known)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("/proc/%d/%s", (int)pid, name);
    *known = file_read(path, 1 << 22, &text, NULL) == 0;
    return text.len > 0;
}

static bool is_program(pid_t pid, const char *program)
{
    char target[PATH_MAX];
    char *path auto_free = str_printf("/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return str_eq(target, program);
}

// Become a sentry. A large environment makes this long.
static void __attribute__((noreturn)) become(const char *program, const char *dir)
{
    static char word[] = "x", *environment[WORDS + 1];
    char *argument auto_free = str_printf("--root=%s", dir);
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "wait", argument, NULL};
    const struct sched_param none = {0};
    for (int i = 0; i < WORDS; i++)
        environment[i] = word;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sched_setscheduler(0, SCHED_IDLE, &none);
    execve(program, argv, environment);
    _exit(127);
}

// Return a process that is being executed and runs on only while this one sleeps: both have the
// same processor. -1: its program had begun before.
static pid_t start_late(const char *program, const char *dir)
{
    pid_t pid = fork();
    if (pid == 0)
        become(program, dir);
    bool known = true;
    while (known && !is_program(pid, program))
        usleep(100);
    if (known && !has_text(pid, "cmdline", &known) && known)
        return pid;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return -1;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid;
}

static void test_a_process_that_begins(void)
{
    struct container_dir d;
    struct err e = ERR_INIT;
    char *program auto_free = str_printf("%s/runsc-sandbox", home);
    char *copy auto_free = str_printf("cp /proc/%d/exe %s", (int)getpid(), program);
    cpu_set_t one;
    pid_t pid = -1;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ok(system(copy) == 0 && sched_setaffinity(0, sizeof one, &one) == 0, "%s", copy);
    container_dir_init(&d);
    is_int(container_dir_make(&d, &e), 0, "made: %s", e.msg);
    for (int i = 0; i < TRIES && pid < 0; i++)
        pid = start_late(program, d.path);
    ok(pid > 0, "a process is being executed");
    is_int(container_dir_kill(&d), 0, "kill what uses the directory");
    ok(has_ended(pid), "it has been waited for");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    container_dir_fini(&d, true);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc == 3 && str_eq(argv[1], "wait"))
        return pause();
    ok(mkdtemp(home), "a home");
    is_int(container_dirs_open(home, &e), 0, "open: %s", e.msg);
    test_a_build();
    test_a_sweep_meanwhile();
    test_a_process_that_begins();
    container_dirs_close();
    dir_remove(home, NULL);
    return tap_done();
}
