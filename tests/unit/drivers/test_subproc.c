// SPDX-License-Identifier: Apache-2.0
// Processes that this program must end: started, found again, killed; and what they inherit.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "tests/lib/harness/tap.h"

static uv_loop_t loop;

struct seen {
    int exits;
    int status;
    int closed;
};

static void on_exit_(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct seen *s = ctx;
    s->exits++;
    s->status = status;
    uv_stop(&loop);
}

static void on_closed(void *ctx)
{
    ((struct seen *)ctx)->closed++;
}

static void on_late(uv_timer_t *timer)
{
    ok(false, "within 10 s");
    uv_stop(timer->loop);
}

// Turns the loop until something stops it.
static void turn(void)
{
    uv_timer_t guard;
    uv_timer_init(&loop, &guard);
    uv_timer_start(&guard, on_late, 10000, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void close_one(struct subproc *p, struct seen *s)
{
    subproc_close(p, on_closed, s);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(s->closed, 1, "closed");
}

static struct subproc *sh(const char *script, int out, struct seen *s, struct err *e)
{
    char *text auto_free = xstrdup(script);
    char name[] = "sh", option[] = "-c";
    char *argv[] = {name, option, text, NULL};
    const int fds[] = {-1, out, out};
    struct spawn_opts opts = {.file = "/bin/sh", .argv = argv, .fds = fds, .fd_count = 3};
    return subproc_start(&loop, &opts, on_exit_, s, e);
}

static void test_exit_status(void)
{
    struct seen s = {0};
    struct err e = ERR_INIT;
    char text[64];
    struct subproc *p = sh("exit 3", -1, &s, &e);
    ok(p && subproc_pid(p) > 0 && subproc_start_time(p) > 0, "started: %s", e.msg);
    turn();
    is_int(s.exits, 1, "its end is told");
    ok(subproc_has_exited(p), "and known");
    subproc_describe(s.status, text, sizeof text);
    is_str(text, "exited with status 3", "how");
    ok(waitpid(subproc_pid(p), NULL, WNOHANG) == -1, "no zombie is left");
    subproc_kill(p);
    close_one(p, &s);
    subproc_describe(-1, text, sizeof text);
    is_str(text, "ended", "how, when nobody knows");
}

static void test_kill(void)
{
    struct seen s = {0};
    struct err e = ERR_INIT;
    char text[64];
    struct subproc *p = sh("trap '' TERM; exec sleep 1000", -1, &s, &e);
    ok(getpgid(subproc_pid(p)) == subproc_pid(p), "in a session of its own");
    subproc_kill(p);
    turn();
    subproc_describe(s.status, text, sizeof text);
    is_str(text, "was killed (signal 9)", "how");
    close_one(p, &s);
}

static void test_no_such_program(void)
{
    struct err e = ERR_INIT;
    char name[] = "x";
    char *argv[] = {name, NULL};
    struct spawn_opts opts = {.file = "/nonexistent/x", .argv = argv};
    ok(!subproc_start(&loop, &opts, on_exit_, NULL, &e), "cannot start");
    is_int(e.code, ERR_NOT_FOUND, "%s", e.msg);
    ok(waitpid(-1, NULL, WNOHANG) == -1, "no child is left");
}

// A child of the test, but not of the module: what an earlier daemon left.
static void test_adopt(void)
{
    struct seen a = {0}, b = {0};
    struct err e = ERR_INIT;
    struct subproc *first = sh("exec sleep 1000", -1, &a, &e);
    pid_t pid = subproc_pid(first);
    uint64_t start_time = subproc_start_time(first);
    ok(!subproc_adopt(&loop, pid, start_time + 1, on_exit_, &b, &e), "another start time");
    is_int(e.code, ERR_GONE, "is another process: %s", e.msg);
    e = ERR_INIT;
    subproc_close(first, on_closed, &a);
    uv_run(&loop, UV_RUN_NOWAIT);
    ok(kill(pid, 0) == 0, "letting go does not end it");
    struct subproc *p = subproc_adopt(&loop, pid, start_time, on_exit_, &b, &e);
    ok(p != NULL, "found: %s", e.msg);
    is_int(subproc_start_time(p), start_time, "the same start time");
    subproc_kill(p);
    turn();
    is_int(b.exits, 1, "its end is told");
    is_int(b.status, SIGKILL, "and how, because it is a child of this process");
    close_one(p, &b);
    ok(!subproc_adopt(&loop, pid, start_time, on_exit_, &b, &e), "a zombie is gone");
    waitpid(pid, NULL, 0);
    ok(!subproc_adopt(&loop, pid, start_time, on_exit_, &b, &e), "and so is what was reaped");
    ok(!subproc_adopt(&loop, -5, 0, on_exit_, &b, &e), "no pid");
    is_int(a.exits, 0, "nothing was told after letting go");
}

static void test_inheritance(void)
{
    struct seen s = {0};
    struct err e = ERR_INIT;
    int out[2];
    int leak = open("/dev/zero", O_RDONLY); // on purpose without close-on-exec
    if (pipe2(out, O_CLOEXEC) != 0 || leak < 0)
        abort();
    char text[512] = "";
    signal(SIGPIPE, SIG_IGN);
    struct subproc *p = sh("cd /proc/$$/fd; readlink * | grep -c zero; readlink 0; echo $LANG; "
                           // glibc keeps signals 32 and 33 for itself, and make's children may have
                           // them ignored.
                           "i=$(sed -n 's/SigIgn:.\\s*/0x/p' /proc/$$/status); "
                           "echo $((i & ~0x180000000))",
                           out[1], &s, &e);
    close(out[1]);
    turn();
    size_t len = 0;
    for (ssize_t n = 1; n > 0; len += n > 0 ? (size_t)n : 0)
        n = read(out[0], text + len,
                 sizeof text - 1 - len); // to the end: the shell writes in pieces
    is_str(text, "0\n/dev/null\nC\n0\n",
           "descriptors, stdin, environment and signals are what was asked for");
    close(out[0]);
    close(leak);
    close_one(p, &s);
}

// Targets that are also sources, in the worst order.
static void test_crossed_fds(void)
{
    struct err e = ERR_INIT;
    int a[2], b[2];
    char text[8] = "";
    char name[] = "sh", option[] = "-c", script[] = "echo a >&3; echo b >&4";
    char *argv[] = {name, option, script, NULL};
    if (pipe2(a, O_CLOEXEC) != 0 || pipe2(b, O_CLOEXEC) != 0)
        abort();
    int four = fcntl(a[1], F_DUPFD_CLOEXEC, 4), three = fcntl(b[1], F_DUPFD_CLOEXEC, 3);
    const int fds[] = {-1, -1, -1, four, three};
    struct spawn_opts opts = {.file = "/bin/sh", .argv = argv, .fds = fds, .fd_count = 5};
    pid_t pid = spawn_program(&opts, &e);
    ok(pid > 0 && waitpid(pid, NULL, 0) == pid, "ran: %s", e.msg);
    ok(read(a[0], text, 2) == 2 && text[0] == 'a', "descriptor 3");
    ok(read(b[0], text, 2) == 2 && text[0] == 'b', "descriptor 4");
    const int mine[] = {a[0], a[1], b[0], b[1], four, three};
    for (size_t i = 0; i < ARRAY_LEN(mine); i++)
        close(mine[i]);
}

static void test_childlog(void)
{
    struct seen s = {0};
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT;
    int fd = childlog_open("test", &e);
    ok(fd >= 0, "a log: %s", e.msg);
    char *none auto_free = childlog_last_line(fd);
    is_str(none, "", "empty at first");
    struct subproc *p =
        sh("i=0; while [ $i -lt 4000 ]; do echo 0123456789; i=$((i+1)); done", fd, &s, &e);
    turn();
    childlog_read(fd, &text);
    is_int(text.len, CHILDLOG_BYTES, "bounded, and the writer did not wait");
    close_one(p, &s);
    close(fd);
    buf_fini(&text);

    s = (struct seen){0};
    fd = childlog_open("test", &e);
    p = sh("echo first; printf 'b\\033[1m\\n\\n'; exec sleep 1000", fd, &s, &e);
    for (int i = 0; i < 2000 && text.len < 10; i++) { // until it has spoken
        buf_clear(&text);
        childlog_read(fd, &text);
        usleep(1000);
    }
    int again = childlog_reopen(subproc_pid(p));
    char *line auto_free = childlog_last_line(again);
    is_str(line, "b?[1m", "the last line, printable, through the process");
    subproc_kill(p);
    turn();
    close_one(p, &s);
    close(again);
    close(fd);
    buf_fini(&text);
}

// In a container, orphans are PID 1's children: a sentry, whose parent ends, may be the daemon's.
static void test_an_orphan_that_has_become_a_child(void)
{
    struct seen s = {0};
    struct err e = ERR_INIT;
    int names[2];
    pid_t orphan = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    ok(pipe(names) == 0, "a pipe");
    pid_t parent = fork();
    if (parent == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        _exit(write(names[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    is_int(read(names[0], &orphan, sizeof orphan), sizeof orphan, "it has a child");
    waitpid(parent, NULL, 0);
    struct subproc *p = subproc_watch(&loop, orphan, on_exit_, &s, &e);
    ok(p, "which is watched when its parent has ended: %s", e.msg);
    subproc_kill(p);
    turn();
    is_int(s.exits, 1, "its end is seen");
    ok(WIFSIGNALED(s.status), "with its status");
    is_int(waitpid(orphan, NULL, WNOHANG), -1, "and nothing of it is left to be reaped");
    close_one(p, &s);
    close(names[0]);
    close(names[1]);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

int main(void)
{
    uv_loop_init(&loop);
    test_exit_status();
    test_kill();
    test_no_such_program();
    test_adopt();
    test_inheritance();
    test_crossed_fds();
    test_childlog();
    test_an_orphan_that_has_become_a_child();
    is_int(uv_loop_close(&loop), 0, "no handle is left");
    return tap_done();
}
