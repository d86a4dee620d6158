// SPDX-License-Identifier: Apache-2.0
// cubby exec: run a command in a sandbox as if it ran here. It has our standard streams, we exit
// with its status, and an interrupt ends it.
//
// Exit status, as with env(1), timeout(1) and docker: the command's own; 126 and 127 from envd, for
// a program that cannot be executed or does not exist; 128 + n when signal n ended the command; 124
// when its timeout did; 125 for our own failures: an invalid command line, a command that did not
// run or whose fate is unknown; 130 and 143 when we were interrupted.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/client/client.h"

// ---- our standard input: it goes to the command one piece at a time, each after the piece before
// has arrived, then the end of input

struct exec_stdin {
    uv_loop_t *loop; // borrowed, like all the pointers here
    struct client *client;
    const char *id, *user;
    int64_t pid;
    int fd;               // what is read: 0, or `own`
    int own;              // the pipe opened again; -1 for none
    int flags;            // of descriptor 0 as it was
    bool waits;           // for the poll handle; else the descriptor is always readable
    bool over;            // nothing more is passed on
    struct client_op *op; // in progress
    uv_poll_t poll;
    bool poll_open;
};

#define PIECE_BYTES 262144 // of one SendInput

static void next(struct exec_stdin *in);

// Return whether descriptor 0 is open and not a terminal.
static bool exec_stdin_is_wanted(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && !isatty(STDIN_FILENO);
}

static json_t *selector(const struct exec_stdin *in)
{
    return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)in->pid);
}

// A command that has ended, or has closed its stdin, takes no more input. That is not an error.
static void on_sent(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    struct exec_stdin *in = ctx;
    in->op = NULL;
    if (e)
        in->over = true;
    next(in);
}

static void send_piece(struct exec_stdin *in, const char *data, size_t len)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *request = selector(in);
    base64_encode(&text, data, len);
    json_object_set_new(request, "input", json_pack("{s:s}", "stdin", buf_str(&text)));
    in->op =
        client_rpc(in->client, in->id, "process.Process/SendInput", request, in->user, on_sent, in);
    json_decref(request);
}

static void send_end(struct exec_stdin *in)
{
    json_t *request = selector(in);
    in->over = true;
    in->op = client_rpc(in->client, in->id, "process.Process/CloseStdin", request, in->user,
                        on_sent, in);
    json_decref(request);
}

static void read_piece(struct exec_stdin *in)
{
    char data[PIECE_BYTES];
    ssize_t n = read(in->fd, data, sizeof data);
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && in->waits)))
        next(in);
    else if (n > 0)
        send_piece(in, data, (size_t)n);
    else
        send_end(in);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct exec_stdin *in = poll->data;
    uv_poll_stop(poll);
    read_piece(in);
}

static void next(struct exec_stdin *in)
{
    if (in->over)
        return;
    if (in->waits)
        uv_poll_start(&in->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    else
        read_piece(in);
}

// libuv makes the descriptor that it polls non-blocking, also for other processes that share it. A
// pipe is opened again, so that only we have it; for others exec_stdin_stop restores the flags.
static void open_own(struct exec_stdin *in, mode_t type)
{
    in->flags = fcntl(STDIN_FILENO, F_GETFL);
    in->own = S_ISFIFO(type) ? open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (in->own >= 0) {
        in->fd = in->own;
        fcntl(in->own, F_SETPIPE_SZ, PIECE_BYTES); // the next piece gathers during a request
    }
    in->poll_open = in->waits = uv_poll_init(in->loop, &in->poll, in->fd) == 0;
    in->poll.data = in;
}

static void on_poll_closed(uv_handle_t *handle)
{
    const struct exec_stdin *in = handle->data;
    if (in->own >= 0)
        close(in->own);
    else
        fcntl(STDIN_FILENO, F_SETFL, in->flags);
}

// Start to pass input on, when the other members are set. Reads of regular files and /dev/null,
// which cannot be polled, never block.
static void exec_stdin_start(struct exec_stdin *in, int64_t pid)
{
    struct stat st;
    in->pid = pid;
    in->fd = STDIN_FILENO;
    if (fstat(in->fd, &st) == 0 && !S_ISREG(st.st_mode))
        open_own(in, st.st_mode);
    next(in);
}

// Safe at any time; closes the poll handle.
static void exec_stdin_stop(struct exec_stdin *in)
{
    in->over = true;
    if (in->op)
        client_cancel(in->op);
    if (in->poll_open) {
        in->poll_open = in->waits = false;
        uv_close((uv_handle_t *)&in->poll, on_poll_closed);
    }
}

// ---- the command

#define EXIT_TIMED_OUT 124
#define EXIT_NOT_RUN   125
#define TIMEOUT_MAX_S  (30LL * 24 * 3600)

struct exec {
    struct connection connection;
    struct client_op *op; // NULL once it has ended
    struct exec_stdin in;
    bool passes_stdin;
    uv_signal_t interrupt, terminate;
    int caught;     // the signal that we received; 0: none
    struct err out; // our own stdout or stderr could not be written
    int64_t timeout_s;
    int status;
};

// ---- the signals that end commands, by the names that envd reports (Go's)

static const struct {
    const char *name;
    int number;
} SIGNALS[] = {
    {"hangup", SIGHUP},
    {"interrupt", SIGINT},
    {"quit", SIGQUIT},
    {"illegal instruction", SIGILL},
    {"trace/breakpoint trap", SIGTRAP},
    {"aborted", SIGABRT},
    {"bus error", SIGBUS},
    {"floating point exception", SIGFPE},
    {"killed", SIGKILL},
    {"user defined signal 1", SIGUSR1},
    {"segmentation fault", SIGSEGV},
    {"user defined signal 2", SIGUSR2},
    {"broken pipe", SIGPIPE},
    {"alarm clock", SIGALRM},
    {"terminated", SIGTERM},
};

// Return the number of "signal: killed", "signal: segmentation fault (core dumped)", "signal 34".
static int signal_number(const char *status)
{
    int64_t number = 0;
    if (str_starts(status, "signal "))
        return str_to_int(status + 7, 1, 64, &number) ? (int)number : 0;
    const char *name = str_starts(status, "signal: ") ? status + 8 : status;
    if (str_starts(name, "signal ")) // "signal: signal 34"
        return signal_number(name);
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        if (str_starts(name, SIGNALS[i].name))
            return SIGNALS[i].number;
    return 0;
}

// ---- events
static void on_start(int64_t pid, void *ctx)
{
    struct exec *x = ctx;
    if (x->passes_stdin)
        exec_stdin_start(&x->in, pid);
}

// Blocks while our reader is slow, and so holds the stream back.
static void pass_on(struct exec *x, int fd, const char *data, size_t len)
{
    if (err_is(&x->out))
        return;
    if (fd_write_all(fd, data, len, &x->out) < 0 && x->op)
        client_cancel(x->op); // nobody reads its output: it ends, as by SIGPIPE
}

static void on_stdout(const char *data, size_t len, void *ctx)
{
    pass_on(ctx, STDOUT_FILENO, data, len);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    pass_on(ctx, STDERR_FILENO, data, len);
}

static int status_of(struct exec *x, const struct command_result *r)
{
    struct err e = ERR_INIT;
    switch (r->end) {
    case COMMAND_EXITED:
        return r->exit_code & 0xff;
    case COMMAND_SIGNALED:
        return 128 + signal_number(r->status);
    case COMMAND_TIMED_OUT:
        err_set(&e, ERR_TIMEOUT,
                "the command was killed after %lld s; set a longer time with --timeout",
                (long long)x->timeout_s);
        cli_fail(&e);
        return EXIT_TIMED_OUT;
    case COMMAND_LEFT:
    case COMMAND_FAILED:
        return EXIT_NOT_RUN;
    }
    return EXIT_NOT_RUN;
}

static void complain(const struct err *e)
{
    struct err told = ERR_INIT;
    if (e->code == ERR_CONFLICT)
        err_set(&told, e->code, "%.250s; run cubby resume first", e->msg);
    cli_fail(err_is(&told) ? &told : e);
}

static void on_end(const struct command_result *r, const struct err *e, void *ctx)
{
    struct exec *x = ctx;
    x->op = NULL;
    if (x->caught) {
        x->status = 128 + x->caught;
    } else if (err_is(&x->out)) {
        x->status = 128 + SIGPIPE;
    } else {
        if (e)
            complain(e);
        x->status = status_of(x, r);
    }
    exec_stdin_stop(&x->in);
    uv_stop(&x->connection.loop);
}

// The first signal kills the command; the second one has its default effect.
static void on_signal(uv_signal_t *handle, int number)
{
    struct exec *x = handle->data;
    x->caught = number;
    uv_signal_stop(handle);
    if (x->op)
        client_cancel(x->op);
}

// ---- running
static void watch_signal(struct exec *x, uv_signal_t *handle, int number)
{
    uv_signal_init(&x->connection.loop, handle);
    handle->data = x;
    uv_signal_start(handle, on_signal, number);
}

static void run(struct exec *x, const char *id, const struct command_opts *opts)
{
    static const struct command_events EVENTS = {on_start, on_stdout, on_stderr, on_end};
    x->in.loop = &x->connection.loop;
    x->in.client = x->connection.client;
    x->in.id = id;
    x->in.user = opts->user;
    watch_signal(x, &x->interrupt, SIGINT);
    watch_signal(x, &x->terminate, SIGTERM);
    x->op = client_command(x->connection.client, id, opts, &EVENTS, x);
    while (x->op)
        uv_run(&x->connection.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&x->interrupt, NULL);
    uv_close((uv_handle_t *)&x->terminate, NULL);
}

static int exec_in(const struct backend_opts *server, const char *given, struct command_opts *opts,
                   int64_t timeout_s)
{
    struct err e = ERR_INIT;
    struct exec x = {.timeout_s = timeout_s, .passes_stdin = opts->open_stdin};
    if (connection_open(&x.connection, server, CONNECT_STARTS, &e) < 0) {
        cli_fail(&e);
        return EXIT_NOT_RUN;
    }
    char *id auto_free = connection_resolve(&x.connection, given, &e);
    if (id) {
        run(&x, id, opts);
    } else {
        cli_fail(&e);
        x.status = EXIT_NOT_RUN;
    }
    connection_close(&x.connection);
    return x.status;
}

int verb_exec(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct opt_list envs = {0};
    struct command_opts want = {0};
    int64_t timeout_s = 0;
    bool no_stdin = false;
    const struct opt opts[] = {
        CLI_STRING("user", &want.user, "NAME",
                   "user that runs the command (default: the sandbox's default user)"),
        CLI_STRING("cwd", &want.cwd, "DIR", "working directory (default: that user's home)"),
        CLI_LIST("env", &envs, "NAME=VALUE", "environment variable; may be repeated"),
        CLI_INT("timeout", &timeout_s, "SECONDS", 0, TIMEOUT_MAX_S,
                "kill the command after this time (default: never)"),
        CLI_FLAG("no-stdin", &no_stdin, "do not pass on standard input"),
    };
    const struct cli_usage usage = {
        .synopsis = "exec [OPTIONS] ID -- COMMAND [ARGUMENT...]",
        .text =
            "Runs a command in a sandbox. cubby passes on the command's output byte for byte, and\n"
            "exits with its status: 126 when the program cannot be executed, 127 when it does not\n"
            "exist, 128 + n when signal n ended it, 124 when the timeout did, 125 when cubby "
            "itself\n"
            "failed. Standard input is passed on unless it is a terminal. SIGINT and SIGTERM kill "
            "the\n"
            "command. cubby starts no shell; name one where you need it:\n"
            "cubby exec ID -- sh -c 'ls | wc -l'",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
        .stop_at_operand = true,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done == CLI_USAGE ? EXIT_NOT_RUN : done;
    int command = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    struct err e = ERR_INIT;
    if (argc <= command)
        err_set(&e, ERR_INVALID,
                "exec takes the id of a sandbox and a command; see cubby exec --help");
    if (err_is(&e) || pairs_parse(&envs, "--env", &want.envs, &e) < 0) {
        cli_fail(&e);
        return EXIT_NOT_RUN;
    }
    want.cmd = argv[command];
    want.args = (const char *const *)&argv[command + 1];
    want.timeout_ms = timeout_s * 1000;
    want.open_stdin = !no_stdin && exec_stdin_is_wanted();
    int status = exec_in(&server, argv[1], &want, timeout_s);
    json_decref(want.envs);
    return status;
}
