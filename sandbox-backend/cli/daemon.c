// SPDX-License-Identifier: Apache-2.0
// cubby daemon: cubbyd in the foreground; cubby daemon status: whether one runs, and where; cubby
// daemon stop: ends it.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/daemon_phase.h"
#include "sandbox-backend/cli/listening.h"
#include "sandbox-backend/cli/session.h"

#define STOP_WAIT_MS  120000 // a machine whose memory is being written to the disk is waited for
#define LOOK_EVERY_MS 20

// ---- status
static void print_running(const char *home, const json_t *list)
{
    char *url auto_free = listening_url(home);
    printf("runs\nsocket: %s/cubbyd.sock\nurl: %s\nsandboxes: %zu\n", home,
           url ? url : "none (cubbyd --listen)", json_array_size(list));
}

// That it gave no list may have any reason: `e`.
static int print_other(const char *home, const struct err *e)
{
    static const char *const TEXTS[] = {[DAEMON_NONE] = "does not run",
                                        [DAEMON_RUNS] = "is starting",
                                        [DAEMON_STOPS] = "is stopping"};
    enum daemon_phase phase = DAEMON_NONE;
    if (!daemon_phase_explains(home, e, &phase))
        return cli_fail(e);
    printf("%s\nhome: %s\n", TEXTS[phase], home);
    return 1;
}

static int status(int argc, char **argv)
{
    const struct cli_usage usage = {
        "daemon status",
        "Says whether the daemon runs, is starting, is stopping or does not run; where it\n"
        "listens, and how many sandboxes it has. The exit status is 0 when it runs, else 1.",
        NULL, 0, false};
    struct err e = ERR_INIT;
    struct session s;
    const struct session_opts here = {0};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("daemon status takes no operand");
    if (session_open(&s, &here, SESSION_NEVER_START, &e) < 0)
        return cli_fail(&e);
    json_t *list = session_list(&s, &e);
    if (list)
        print_running(s.home, list);
    int result = list ? 0 : print_other(s.home, &e);
    json_decref(list);
    session_close(&s);
    return result;
}

// ---- stop
// Who listens there; 0 for nobody.
static pid_t listener(const char *socket_path)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    int fd auto_close = fd_connect_unix(socket_path);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return 0;
    return peer.pid ? peer.pid : -1;
}

// *process is a descriptor of who was told; -1 when nobody listens (yet, or any more).
static int tell(const char *home, int number, int *process, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.sock");
    pid_t pid = listener(path);
    if (pid < 0)
        return err_set(e, ERR_PRECONDITION,
                       "cubbyd runs in another PID namespace; send it signal %d there", number);
    int fd auto_close = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0 || listener(path) != pid) // its number may be another's by now
        return 0;
    if (syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0)
        *process = steal_fd(&fd);
    else if (errno != ESRCH)
        return err_sys(e, errno, "end cubbyd (process %d)", (int)pid);
    return 0;
}

// Whether it has ended within a moment.
static bool has_ended(int process)
{
    struct pollfd gone = {.fd = process, .events = POLLIN};
    return poll(&gone, 1, LOOK_EVERY_MS) > 0;
}

// One that is on its end already is waited for by its lock.
static int end(const char *home, int number, bool *was_there, struct err *e)
{
    enum daemon_phase phase;
    int process auto_close = -1;
    int64_t until = clock_mono_ms() + STOP_WAIT_MS;
    while (clock_mono_ms() < until) {
        if (daemon_phase(home, &phase, e) < 0)
            return -1;
        if (phase == DAEMON_NONE)
            return 0;
        *was_there = true;
        if (phase == DAEMON_RUNS && tell(home, number, &process, e) < 0)
            return -1;
        while (process >= 0 && clock_mono_ms() < until)
            if (has_ended(process))
                return 0;
        poll(NULL, 0, LOOK_EVERY_MS);
    }
    return err_set(e, ERR_TIMEOUT, "cubbyd has not ended after %d s; see %s/cubbyd.log",
                   STOP_WAIT_MS / 1000, home);
}

static int stop(int argc, char **argv)
{
    bool keep = false;
    bool was_there = false;
    const struct opt opts[] = {
        {"keep", NULL, OPT_FLAG, &keep, NULL, "leave its sandboxes for the next daemon", 0, 0,
         NULL},
    };
    const struct cli_usage usage = {
        "daemon stop [--keep]",
        "Stops the daemon, and returns when it has ended. It ends its sandboxes with it, paused\n"
        "and hibernated ones too; with --keep those that run go on without it, and the next\n"
        "daemon finds all of them. Snapshots and templates stay. The next verb that needs a\n"
        "daemon starts one. One that systemd has started is stopped by systemctl.",
        opts, ARRAY_LEN(opts), false};
    struct err e = ERR_INIT;
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("daemon stop takes no operand; see cubby daemon stop --help");
    char *home auto_free = home_open(&e);
    if (!home || end(home, keep ? SIGUSR1 : SIGTERM, &was_there, &e) < 0)
        return cli_fail(&e);
    puts(was_there ? "stopped" : "does not run");
    return 0;
}

// ---- the daemon itself
// All its options are cubbyd's own, and so is most of its help.
static int run(char **argv)
{
    struct err e = ERR_INIT;
    char *program auto_free = self_program("cubbyd", &e);
    if (!program)
        return cli_fail(&e);
    argv[0] = program;
    fflush(stdout);
    execv(program, argv);
    err_sys(&e, errno, "run %s", program);
    return cli_fail(&e);
}

int verb_daemon(int argc, char **argv)
{
    static char help[] = "--help";
    const char *what = argc > 1 ? argv[1] : "";
    if (str_eq(what, "status"))
        return status(argc - 1, argv + 1);
    if (str_eq(what, "stop"))
        return stop(argc - 1, argv + 1);
    if (str_eq(what, help) || str_eq(what, "-h")) {
        puts("Usage: cubby daemon [options of cubbyd, below]\n"
             "       cubby daemon status\n"
             "       cubby daemon stop [--keep]\n\n"
             "Runs the daemon in the foreground; says whether one runs; stops it.\n");
        argv[1] = help;
    }
    return run(argv);
}
