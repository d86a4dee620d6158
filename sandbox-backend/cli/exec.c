// SPDX-License-Identifier: Apache-2.0
// cubby exec: runs a command in a sandbox as if it ran here: its streams are ours, its exit status
// is ours, and an interrupt ends it.
//
// Exit status, as env(1), timeout(1) and docker have it: the command's own; 126 and 127 are envd's
// for a program that cannot be executed or is not there; 128 + n when signal n ended it; 124 when
// its timeout did; 125 for all that is ours: a command line that cannot be understood, a command
// that did not run, one whose fate is not known; 130 and 143 when we were interrupted.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/exec_stdin.h"
#include "sandbox-backend/cli/pairs.h"
#include "sandbox-backend/cli/session.h"

#define EXIT_TIMED_OUT 124
#define EXIT_NOT_RUN   125
#define TIMEOUT_MAX_S  (30LL * 24 * 3600)

struct exec {
    struct session session;
    struct client_op *op; // NULL once it has ended
    struct exec_stdin in;
    bool passes_stdin;
    uv_signal_t interrupt, terminate;
    int caught;     // signal that we were sent
    struct err out; // our own stdout or stderr could not be written
    int64_t timeout_s;
    int status;
};

// ---- the signals that end commands, by the names that envd gives them (Go's)
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

// Of "signal: killed", "signal: segmentation fault (core dumped)", "signal 34".
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

// Blocks while our reader is slow, and with it the stream: that is the back-pressure.
static void pass_on(struct exec *x, int fd, const char *data, size_t len)
{
    if (err_is(&x->out))
        return;
    if (fd_write_all(fd, data, len, &x->out) < 0 && x->op)
        client_cancel(x->op); // nobody reads what it says: it ends, as by SIGPIPE
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
        err_set(&e, ERR_TIMEOUT, "the command was killed, its timeout of %lld s is over",
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
        err_set(&told, e->code, "%.250s, and go on after cubby resume", e->msg);
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
    uv_stop(&x->session.loop);
}

// The first asks the command to be killed; with a second one the default is back.
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
    uv_signal_init(&x->session.loop, handle);
    handle->data = x;
    uv_signal_start(handle, on_signal, number);
}

static void run(struct exec *x, const char *id, const struct command_opts *opts)
{
    static const struct command_events EVENTS = {on_start, on_stdout, on_stderr, on_end};
    x->in.loop = &x->session.loop;
    x->in.client = x->session.client;
    x->in.id = id;
    x->in.user = opts->user;
    watch_signal(x, &x->interrupt, SIGINT);
    watch_signal(x, &x->terminate, SIGTERM);
    x->op = client_command(x->session.client, id, opts, &EVENTS, x);
    while (x->op)
        uv_run(&x->session.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&x->interrupt, NULL);
    uv_close((uv_handle_t *)&x->terminate, NULL);
}

static int exec_in(const struct session_opts *server, const char *given, struct command_opts *opts,
                   int64_t timeout_s)
{
    struct err e = ERR_INIT;
    struct exec x = {.timeout_s = timeout_s, .passes_stdin = opts->open_stdin};
    if (session_open(&x.session, server, SESSION_MAY_START, &e) < 0) {
        cli_fail(&e);
        return EXIT_NOT_RUN;
    }
    char *id auto_free = session_resolve(&x.session, given, &e);
    if (id) {
        run(&x, id, opts);
    } else {
        cli_fail(&e);
        x.status = EXIT_NOT_RUN;
    }
    session_close(&x.session);
    return x.status;
}

int verb_exec(int argc, char **argv)
{
    struct session_opts server = {0};
    struct opt_list envs = {0};
    struct command_opts want = {0};
    int64_t timeout_s = 0;
    bool no_stdin = false;
    const struct opt opts[] = {
        {"user", NULL, OPT_STRING, &want.user, "NAME", "who runs it (the sandbox's own user)", 0, 0,
         NULL},
        {"cwd", NULL, OPT_STRING, &want.cwd, "DIR", "where it runs (that user's home)", 0, 0, NULL},
        {"env", NULL, OPT_LIST, &envs, "NAME=VALUE", "its environment; may be repeated", 0, 0,
         NULL},
        {"timeout", NULL, OPT_INT, &timeout_s, "SECONDS", "kill it after that long (never)", 0,
         TIMEOUT_MAX_S, NULL},
        {"no-stdin", NULL, OPT_FLAG, &no_stdin, NULL, "do not pass standard input on", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "exec [OPTIONS] ID -- COMMAND [ARGUMENT...]",
        "Runs a command in a sandbox. Its output is this program's output, byte for byte, and\n"
        "its exit status this program's: 126 when it cannot be executed, 127 when there is no\n"
        "such program, 128 + n when signal n ended it, 124 when the timeout did, 125 when cubby\n"
        "itself failed. Standard input is passed on unless it is a terminal. An interrupt\n"
        "(SIGINT, SIGTERM) kills the command. There is no shell unless the command is one:\n"
        "cubby exec ID -- sh -c 'ls | wc -l'",
        opts, ARRAY_LEN(opts), true};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done == CLI_USAGE ? EXIT_NOT_RUN : done;
    int command = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    struct err e = ERR_INIT;
    if (argc <= command)
        err_set(&e, ERR_INVALID, "exec takes a sandbox's id and a command; see cubby exec --help");
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
