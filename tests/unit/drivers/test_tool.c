// SPDX-License-Identifier: Apache-2.0
// Running the programs of a template build: their end, environment, time limit and interruption.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "tests/lib/harness/tap.h"

static int null_fd;

static int run(const char *script, int timeout_ms, void (*tick)(void *ctx), struct err *e)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    struct tool tool = {.argv = argv,
                        .package = "dash",
                        .out = null_fd,
                        .log = null_fd,
                        .keep = -1,
                        .timeout_ms = timeout_ms,
                        .tick = tick};
    return tool_run(&tool, e);
}

static void test_ends(void)
{
    struct err e = ERR_INIT;
    is_int(run("true", 0, NULL, &e), 0, "a good end");
    is_int(run("exit 3", 0, NULL, &e), -1, "a bad one");
    ok(strstr(e.msg, "status 3"), "with its status: %s", e.msg);
    e = ERR_INIT;
    is_int(run("kill -SEGV $$", 0, NULL, &e), -1, "a signal");
    ok(strstr(e.msg, "signal 11"), "with its number: %s", e.msg);
    is_int(e.code, ERR_INTERNAL, "of its own making");
    e = ERR_INIT;
    is_int(run("kill -KILL $$", 0, NULL, &e), -1, "a signal that others send");
    is_int(e.code, ERR_BUSY, "which may not come the next time: %s", e.msg);
    e = ERR_INIT;
    is_int(run("sh -c 'kill -KILL $$'; exit $?", 0, NULL, &e), -1, "the same in a shell");
    is_int(e.code, ERR_BUSY, "which says so: %s", e.msg);
}

static void test_missing(void)
{
    struct err e = ERR_INIT;
    const char *argv[] = {"no-such-program", NULL};
    struct tool tool = {.argv = argv, .package = "some-package", .keep = -1};
    is_int(tool_run(&tool, &e), -1, "a missing program");
    is_int(e.code, ERR_NOT_FOUND, "is not found");
    ok(strstr(e.msg, "some-package"), "and the package is named: %s", e.msg);
    char *path auto_free = tool_find("mke2fs", "e2fsprogs", NULL);
    ok(!path || str_ends(path, "/mke2fs"), "sbin is searched too");
}

static void test_output(void)
{
    struct err e = ERR_INIT;
    struct buf out auto_buf = BUF_INIT;
    setenv("PYTHONPATH", "/nowhere", 1);
    setenv("http_proxy", "http://proxy.invalid", 1);
    const char *argv[] = {"sh", "-c",
                          "echo \"$LC_ALL $http_proxy ${PYTHONPATH-unset}\"; echo no >&2", NULL};
    is_int(tool_output(argv, "dash", 100, &out, &e), 0, "runs: %s", e.msg);
    is_str(buf_str(&out), "C.UTF-8 http://proxy.invalid unset\n",
           "proxies pass, the rest of the environment does not");
    buf_clear(&out);
    is_int(tool_output(argv, "dash", 5, &out, &e), -1, "too much output is an error");
}

static void test_timeout(void)
{
    struct err e = ERR_INIT;
    int64_t start = clock_mono_ms();
    is_int(run("sleep 60", 200, NULL, &e), -1, "a program that takes too long");
    is_int(e.code, ERR_TIMEOUT, "%s", e.msg);
    ok(clock_mono_ms() - start < 8000, "is ended soon");
}

static void interrupt(void *ctx)
{
    (void)ctx;
    raise(SIGINT);
}

static void test_interrupt(void)
{
    struct err e = ERR_INIT;
    tool_watch_signals();
    ok(!tool_interrupted(), "nothing yet");
    // The background process must go with its group.
    is_int(run("sleep 60 & wait", 0, interrupt, &e), -1, "an interruption ends it");
    is_int(e.code, ERR_CANCELED, "%s", e.msg);
    ok(tool_interrupted(), "and stays known");
    e = ERR_INIT;
    is_int(run("true", 0, NULL, &e), -1, "nothing more is started");
    is_int(e.code, ERR_CANCELED, "%s", e.msg);
    tool_unwatch_signals();
    tool_watch_signals();
    ok(!tool_interrupted(), "until the next build");
    tool_unwatch_signals();
}

static void test_keep(void)
{
    struct err e = ERR_INIT;
    int kept auto_close = memfd_create("kept", MFD_CLOEXEC);
    int not_kept auto_close = memfd_create("not-kept", MFD_CLOEXEC);
    int inherited auto_close = dup(null_fd); // as from a shell, without close-on-exec
    char *script auto_free = str_printf("echo yes >&%d; [ ! -e /proc/self/fd/%d ] && "
                                        "[ ! -e /proc/self/fd/%d ]",
                                        kept, not_kept, inherited);
    const char *argv[] = {"sh", "-c", script, NULL};
    struct tool tool = {
        .argv = argv, .package = "dash", .out = null_fd, .log = null_fd, .keep = kept};
    is_int(tool_run(&tool, &e), 0, "a kept descriptor is inherited, others are not: %s", e.msg);
    is_int(lseek(kept, 0, SEEK_END), 4, "and can be used");
}

static bool has_stalled(void *ctx)
{
    return ++*(int *)ctx > 2;
}

static void test_stall(void)
{
    struct err e = ERR_INIT;
    int asked = 0;
    const char *argv[] = {"sleep", "60", NULL};
    const struct tool tool = {.argv = argv,
                              .package = "coreutils",
                              .out = null_fd,
                              .log = null_fd,
                              .keep = -1,
                              .has_stalled = has_stalled,
                              .ctx = &asked};
    is_int(tool_run(&tool, &e), -1, "a tool that stalls is ended");
    is_int(e.code, ERR_TIMEOUT, "as a timeout: %s", e.msg);
    ok(strstr(e.msg, "no more data"), "which says why");
}

int main(void)
{
    null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    test_ends();
    test_missing();
    test_output();
    test_timeout();
    test_stall();
    test_interrupt();
    test_keep();
    close(null_fd);
    return tap_done();
}
