// SPDX-License-Identifier: Apache-2.0
// The daemon is started once, also by several callers at once. This program itself plays the
// daemon.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/client/daemon_start.h"
#include "tests/lib/client/client_fake.h"

#define RACERS 8

// ---- the daemon's part. How it behaves is said by the file <home>/mode.
static void note_start(const char *home)
{
    char *path auto_free = home_path(home, "starts");
    char *line auto_free = str_printf("%d %d %s\n", getpid(), getsid(0) == getpid(),
                                      getenv("SECRET") ? "secret" : "clean");
    int fd auto_close = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    fd_write_all(fd, line, strlen(line), NULL);
}

static int be_daemon(int ready)
{
    const char *home = getenv("CUBBY_HOME");
    char *mode_path auto_free = home_path(home, "mode");
    char *socket_path auto_free = home_path(home, "cubbyd.sock");
    struct buf mode auto_buf = BUF_INIT;
    note_start(home);
    if (file_read(mode_path, 100, &mode, NULL) == 0) {
        if (str_starts(buf_str(&mode), "mute"))
            return 7;
        if (str_starts(buf_str(&mode), "die"))
            raise(SIGKILL);
        fprintf(stderr, "first line\nthis is why\n");
        return 1;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0)
        return 1;
    (void)!write(ready, "ready\n", 6);
    close(ready);
    for (;;) // until the test ends it
        close(accept(fd, NULL, NULL));
}

// ---- the client's part
struct waiting {
    struct server_waiter waiter;
    struct err err;
    bool done;
};

static void on_ready(const struct err *e, void *ctx)
{
    struct waiting *w = ctx;
    w->done = true;
    w->err = e ? *e : ERR_INIT;
}

static void on_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static struct err start(const char *home)
{
    uv_loop_t loop;
    struct waiting w[2] = {{.err = ERR_INIT}};
    char *socket_path auto_free = home_path(home, "cubbyd.sock");
    uv_loop_init(&loop);
    struct daemon_start *d = daemon_start_new(&loop, home, socket_path, "/proc/self/exe");
    for (int i = 0; i < 2; i++) {
        w[i].waiter = (struct server_waiter){.on_ready = on_ready, .ctx = &w[i]};
        daemon_start_wait(d, &w[i].waiter);
    }
    while (!w[0].done || !w[1].done)
        uv_run(&loop, UV_RUN_ONCE);
    bool closed = false;
    daemon_start_close(d, on_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (!closed || uv_loop_close(&loop) != 0 || w[0].err.code != w[1].err.code)
        err_set(&w[0].err, ERR_INTERNAL, "the loop is not empty");
    return w[0].err;
}

static char *new_home(void)
{
    char *home = xstrdup("/tmp/cubby-start-XXXXXX");
    if (!mkdtemp(home))
        abort();
    return home;
}

// The pid of the only daemon that was started, 0 when it is not one.
static pid_t only_start(const char *home, char *line, size_t size)
{
    char *path auto_free = home_path(home, "starts");
    struct buf text auto_buf = BUF_INIT;
    int pid = 0;
    if (file_read(path, 4096, &text, NULL) < 0 ||
        strchr(buf_str(&text), '\n') != text.data + text.len - 1)
        return 0;
    snprintf(line, size, "%s", buf_str(&text));
    return sscanf(line, "%d", &pid) == 1 ? pid : 0;
}

static void test_race(void)
{
    char *home auto_free = new_home();
    char line[200] = "";
    int go[2];
    is_int(pipe(go), 0, "pipe");
    setenv("SECRET", "s", 1);
    for (int i = 0; i < RACERS; i++) {
        if (fork() == 0) {
            char c = 0;
            close(go[1]);
            (void)!read(go[0], &c, 1); // all begin when the test closes the pipe
            struct err e = start(home);
            _exit(err_is(&e) ? 1 : 0);
        }
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < RACERS; i++) {
        int status = -1;
        wait(&status);
        is_int(status, 0, "a racer finds the daemon");
    }
    pid_t pid = only_start(home, line, sizeof line);
    ok(pid > 0, "started once: %s", line);
    ok(strstr(line, " 1 clean"), "in a session of its own, without our secrets: %s", line);
    is_int(kill(pid, 0), 0, "it outlives who started it");
    kill(pid, SIGKILL);
    dir_remove(home, NULL);
}

static void test_failure(void)
{
    char *home auto_free = new_home();
    char *mode auto_free = home_path(home, "mode");
    char line[200] = "";
    file_write_atomic(mode, "fail", 4, 0600, NULL);
    struct err e = start(home);
    is_int(e.code, ERR_UNAVAILABLE, "it did not come up: %s", e.msg);
    ok(strstr(e.msg, "first line | this is why"), "with its last words");
    unlink(mode);
    char *starts auto_free = home_path(home, "starts");
    unlink(starts);
    e = start(home);
    ok(!err_is(&e), "the next one tries again: %s", e.msg);
    pid_t pid = only_start(home, line, sizeof line);
    ok(pid > 0, "once");
    // This process started it, so it would be a zombie if nobody had waited; that is libuv's, which
    // is closed by now.
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    e = start(home);
    is_int(e.code, ERR_UNAVAILABLE, "a stale socket is the daemon's to replace; this one does not");
    dir_remove(home, NULL);
}

// The message says how the daemon ended when its log does not.
static void test_silence(void)
{
    char *home auto_free = new_home();
    char *mode auto_free = home_path(home, "mode");
    file_write_atomic(mode, "mute", 4, 0600, NULL);
    struct err e = start(home);
    is_int(e.code, ERR_UNAVAILABLE, "it ended without a word: %s", e.msg);
    ok(strstr(e.msg, "cubbyd ended with status 7"), "its status is told");
    file_write_atomic(mode, "die", 3, 0600, NULL);
    e = start(home);
    ok(strstr(e.msg, "cubbyd was killed by signal 9"), "its signal is told: %s", e.msg);
    dir_remove(home, NULL);
}

static void test_missing_program(void)
{
    char *home auto_free = new_home();
    char *socket_path auto_free = home_path(home, "cubbyd.sock");
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct waiting w = {.err = ERR_INIT};
    w.waiter = (struct server_waiter){.on_ready = on_ready, .ctx = &w};
    struct daemon_start *d = daemon_start_new(&loop, home, socket_path, "/nonexistent/cubbyd");
    daemon_start_wait(d, &w.waiter);
    is_int(w.err.code, ERR_NOT_FOUND, "no such program: %s", w.err.msg);
    bool closed = false;
    daemon_start_close(d, on_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(uv_loop_close(&loop), 0, "the loop is empty");
    dir_remove(home, NULL);
}

// A holder that dies lets go, and a waiter notices.
static void test_lock(void)
{
    char *home auto_free = new_home();
    char *path auto_free = home_path(home, "lock");
    struct err e = ERR_INIT;
    int held = -1;
    int waits = -1;
    is_int(start_lock_try(path, &held, &e), 0, "taken");
    is_int(start_lock_try(path, &waits, &e), 1, "held");
    char c = 0;
    ok(read(waits, &c, 1) < 0 && errno == EAGAIN, "not readable while it is held");
    close(held);
    is_int(read(waits, &c, 1), 0, "end of file when it is let go");
    close(waits);
    is_int(start_lock_try(path, &held, &e), 0, "taken again");
    close(held);
    unlink(path);
    file_write_atomic(path, "", 0, 0600, NULL);
    is_int(start_lock_try(path, &held, &e), -1, "not a FIFO: %s", e.msg);
    dir_remove(home, NULL);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--ready-fd") == 0)
        return be_daemon(atoi(argv[2]));
    test_lock();
    test_race();
    test_failure();
    test_silence();
    test_missing_program();
    return tap_done();
}
