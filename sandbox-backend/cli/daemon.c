// SPDX-License-Identifier: Apache-2.0
// cubby daemon: run cubbyd in the foreground; cubby daemon status: show whether it runs, and where
// it listens; cubby daemon stop: end it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

// ---- the phase of a home's daemon

#define TEXT_BYTES_MAX 100
#define URL_BYTES_MAX  300

// The lock file holds "<pid>\n", and while the daemon stops a second line that says so.
static bool says_that_it_stops(int lock)
{
    struct buf text auto_buf = BUF_INIT;
    return fd_read_all(lock, TEXT_BYTES_MAX, &text, NULL) == 0 &&
           strstr(buf_str(&text), "\nstopping\n");
}

int daemon_phase(const char *home, enum daemon_phase *out, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.lock");
    int lock auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (lock < 0 && errno != ENOENT)
        return err_sys(e, errno, "open %s", path);
    if (lock < 0 || flock(lock, LOCK_SH | LOCK_NB) == 0)
        *out = DAEMON_NONE;
    else
        *out = says_that_it_stops(lock) ? DAEMON_STOPS : DAEMON_RUNS;
    return 0;
}

static bool is_forbidden(const char *socket_path)
{
    int fd auto_close = fd_connect_unix(socket_path);
    return fd < 0 && errno == EACCES;
}

// A daemon whose socket this user may not open listens, whatever its phase says.
bool daemon_phase_explains(const char *home, const struct err *why, enum daemon_phase *out)
{
    struct err unknown = ERR_INIT;
    char *path auto_free = home_path(home, "cubbyd.sock");
    return !is_forbidden(path) && daemon_phase(home, out, &unknown) == 0 &&
           (*out == DAEMON_STOPS || why->code == ERR_UNAVAILABLE);
}

// A daemon that was killed leaves its cubbyd.url behind.
static bool runs(const char *home)
{
    enum daemon_phase phase = DAEMON_NONE;
    struct err e = ERR_INIT;
    return daemon_phase(home, &phase, &e) == 0 && phase != DAEMON_NONE;
}

char *daemon_url(const char *home)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = home_path(home, "cubbyd.url");
    if (!runs(home) || file_read(path, URL_BYTES_MAX, &text, NULL) < 0)
        return NULL;
    const char *url = buf_str(&text);
    size_t len = strcspn(url, "\n");
    return len ? xstrndup(url, len) : NULL;
}

#define STOP_WAIT_MS  120000 // the daemon waits for a machine that is being saved
#define LOOK_EVERY_MS 20

// ---- status
static json_t *state_of(const char *home, const char *state)
{
    return json_pack("{s:s, s:o}", "state", state, "home", json_lossy_string(home, strlen(home)));
}

static void print_running(const char *home, const json_t *list, bool as_json)
{
    char *url auto_free = daemon_url(home);
    if (!as_json) {
        printf("runs\nsocket: %s/cubbyd.sock\nurl: %s\nsandboxes: %zu\n", home,
               url ? url : "none (set with cubbyd --listen)", json_array_size(list));
        return;
    }
    json_t *all = state_of(home, "running");
    json_object_set_new(all, "url", url ? json_string(url) : json_null());
    json_object_set_new(all, "sandboxes", json_integer((json_int_t)json_array_size(list)));
    cli_print_json(all);
    json_decref(all);
}

// The daemon gave no list; `e` says why.
static int print_other(const char *home, const struct err *e, bool as_json)
{
    static const char *const TEXTS[] = {[DAEMON_NONE] = "does not run",
                                        [DAEMON_RUNS] = "is starting",
                                        [DAEMON_STOPS] = "is stopping"};
    static const char *const STATES[] = {
        [DAEMON_NONE] = "none", [DAEMON_RUNS] = "starting", [DAEMON_STOPS] = "stopping"};
    enum daemon_phase phase = DAEMON_NONE;
    if (!daemon_phase_explains(home, e, &phase))
        return cli_fail(e);
    json_t *all = state_of(home, STATES[phase]);
    if (as_json)
        cli_print_json(all);
    else
        printf("%s\nhome: %s\n", TEXTS[phase], home);
    json_decref(all);
    return 1;
}

static int status(int argc, char **argv)
{
    bool as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the state as JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "daemon status [--json]",
        .text = "Says whether the daemon runs, starts, stops or does not run, where it listens, "
                "and how\n"
                "many sandboxes it has. The exit status is 0 when it runs, else 1.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
    };
    struct err e = ERR_INIT;
    struct connection c;
    const struct backend_opts here = {0};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("daemon status takes no operand; see cubby daemon status --help");
    if (connection_open(&c, &here, CONNECT_NEVER_STARTS, &e) < 0)
        return cli_fail(&e);
    json_t *list = connection_list(&c, &e);
    if (list)
        print_running(c.home, list, as_json);
    int result = list ? 0 : print_other(c.home, &e, as_json);
    json_decref(list);
    connection_close(&c);
    return result;
}

// ---- stop
// Return the process that listens there; 0: none; -1: it is in another PID namespace.
static pid_t listener(const char *socket_path)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    int fd auto_close = fd_connect_unix(socket_path);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return 0;
    return peer.pid ? peer.pid : -1;
}

// Send the signal to the daemon. *process is a pidfd of it; -1 when nobody listens (yet, or any
// more).
static int tell(const char *home, int number, int *process, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.sock");
    if (is_forbidden(path))
        return err_set(e, ERR_DENIED,
                       "permission denied on %s: run as the user that started cubbyd", path);
    pid_t pid = listener(path);
    if (pid < 0)
        return err_set(e, ERR_PRECONDITION,
                       "cubbyd runs in another PID namespace, such as a container's; send signal "
                       "%d to cubbyd there",
                       number);
    int fd auto_close = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0 || listener(path) != pid) // the pid may have been reused
        return 0;
    if (syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0)
        *process = steal_fd(&fd);
    else if (errno != ESRCH)
        return err_sys(e, errno, "end cubbyd (process %d)", (int)pid);
    return 0;
}

// Wait a moment for the end of the process. Return whether it has ended.
static bool has_ended(int process)
{
    struct pollfd gone = {.fd = process, .events = POLLIN};
    return poll(&gone, 1, LOOK_EVERY_MS) > 0;
}

// If the daemon is already stopping, wait until it releases its lock.
int daemon_end(const char *home, int number, bool *was_there, struct err *e)
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
    return err_set(e, ERR_TIMEOUT,
                   "cubbyd was told to stop but still runs after %d s; see why in %s/cubbyd.log",
                   STOP_WAIT_MS / 1000, home);
}

static int stop(int argc, char **argv)
{
    bool keep = false, as_json = false;
    bool was_there = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the result as JSON"),
        CLI_FLAG("keep", &keep, "leave the sandboxes for the next daemon"),
    };
    const struct cli_usage usage = {
        .synopsis = "daemon stop [--keep] [--json]",
        .text = "Stops the daemon, and returns when it has ended. All its sandboxes end with it, "
                "paused\n"
                "ones too. With --keep they stay: running ones keep running, and the next daemon "
                "takes\n"
                "them over. Snapshots and templates stay. The next verb that needs a daemon starts "
                "one.\n"
                "Use systemctl to stop a daemon that systemd started.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
    };
    struct err e = ERR_INIT;
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("daemon stop takes no operand; see cubby daemon stop --help");
    char *home auto_free = home_open(&e);
    if (!home || daemon_end(home, keep ? SIGUSR1 : SIGTERM, &was_there, &e) < 0)
        return cli_fail(&e);
    cli_print_word("result", was_there ? "stopped" : "does not run", as_json);
    return 0;
}

// ---- the daemon itself
// cubbyd parses all the options, and prints most of the help.
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
             "Runs the daemon in the foreground, shows its state, or stops it.\n");
        argv[1] = help;
    }
    return run(argv);
}
