// SPDX-License-Identifier: Apache-2.0
// cubby exec: run a command in a sandbox as if it ran here. It has our standard streams, we exit
// with its status, and an interrupt ends it.
//
// Exit status, as with env(1), timeout(1) and docker: the command's own; 126 and 127 from envd, for
// a program that cannot be executed or does not exist; 128 + n when signal n ended the command; 124
// when its timeout did; 125 for our own failures: an invalid command line, a command that did not
// run or whose fate is unknown; 130 and 143 when we were interrupted.
#include "sandbox-backend/cli/exec.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/input.h"
#include "sandbox-backend/cli/shown_lines.h"

#define TIMEOUT_MAX_S (30LL * 24 * 3600)

struct exec {
    struct connection *connection;
    struct client_op *op; // NULL once it has ended
    struct input in;
    bool passes_stdin;
    uv_signal_t interrupt, terminate;
    int signals_open;
    int caught;      // the signal that we received; 0: none
    struct err out;  // our own stdout or stderr could not be written
    bool shows;      // its stderr only as text
    struct buf line; // of its stderr, until it is whole
    int64_t timeout_ms;
    int status;
};

// ---- events
static void on_start(int64_t pid, void *ctx)
{
    struct exec *x = ctx;
    if (x->passes_stdin)
        input_start(&x->in, pid);
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
    struct exec *x = ctx;
    struct buf shown auto_buf = BUF_INIT;
    if (x->shows) {
        shown_lines_take(&x->line, data, len, &shown);
        data = shown.data;
        len = shown.len;
    }
    if (len)
        pass_on(x, STDERR_FILENO, data, len);
}

static void end_stderr(struct exec *x)
{
    struct buf shown auto_buf = BUF_INIT;
    shown_lines_end(&x->line, &shown);
    if (shown.len)
        pass_on(x, STDERR_FILENO, shown.data, shown.len);
    buf_fini(&x->line);
}

int exec_status(const struct command_result *r, int64_t timeout_ms)
{
    struct err e = ERR_INIT;
    switch (r->end) {
    case COMMAND_EXITED:
        return r->exit_code & 0xff;
    case COMMAND_SIGNALED:
        return 128 + command_signal(r->status);
    case COMMAND_TIMED_OUT:
        err_set(&e, ERR_TIMEOUT,
                "the command was killed after %lld s; set a longer time with --timeout",
                (long long)timeout_ms / 1000);
        cli_fail(&e);
        return EXEC_TIMED_OUT;
    case COMMAND_LEFT:
    case COMMAND_FAILED:
        return EXEC_NOT_RUN;
    }
    return EXEC_NOT_RUN;
}

void exec_complain(const struct err *e)
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
    end_stderr(x);
    if (x->caught) {
        x->status = 128 + x->caught;
    } else if (err_is(&x->out)) {
        x->status = 128 + SIGPIPE;
    } else {
        if (e)
            exec_complain(e);
        x->status = exec_status(r, x->timeout_ms);
    }
    input_stop(&x->in);
    uv_stop(&x->connection->loop);
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
    uv_signal_init(&x->connection->loop, handle);
    handle->data = x;
    uv_signal_start(handle, on_signal, number);
    x->signals_open++;
}

static void on_signal_closed(uv_handle_t *handle)
{
    struct exec *x = handle->data;
    x->signals_open--;
}

static int run(struct connection *c, const char *id, const struct command_opts *opts, bool shows)
{
    static const struct command_events EVENTS = {
        .on_start = on_start, .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_end};
    struct exec x = {
        .connection = c,
        .timeout_ms = opts->timeout_ms,
        .passes_stdin = opts->open_stdin,
        .shows = shows,
        .in = {.loop = &c->loop, .client = c->client, .id = id, .user = opts->user},
    };
    x.in.stream = "stdin";
    watch_signal(&x, &x.interrupt, SIGINT);
    watch_signal(&x, &x.terminate, SIGTERM);
    x.op = client_command(c->client, id, opts, &EVENTS, &x);
    while (x.op)
        uv_run(&c->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&x.interrupt, on_signal_closed);
    uv_close((uv_handle_t *)&x.terminate, on_signal_closed);
    while (x.signals_open || !input_is_stopped(&x.in))
        uv_run(&c->loop, UV_RUN_ONCE);
    return x.status;
}

int exec_run(struct connection *c, const char *id, const struct command_opts *opts)
{
    return run(c, id, opts, false);
}

int exec_run_shown(struct connection *c, const char *id, const struct command_opts *opts)
{
    return run(c, id, opts, true);
}

static int exec_in(const struct backend_opts *server, const char *given,
                   const struct command_opts *opts)
{
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS, &e) < 0) {
        cli_fail(&e);
        return EXEC_NOT_RUN;
    }
    char *id auto_free = connection_resolve(&c, given, &e);
    if (!id)
        cli_fail(&e);
    int status = id ? exec_run(&c, id, opts) : EXEC_NOT_RUN;
    connection_close(&c);
    return status;
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
        return done == CLI_USAGE ? EXEC_NOT_RUN : done;
    int command = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    struct err e = ERR_INIT;
    if (argc <= command)
        err_set(&e, ERR_INVALID,
                "exec takes the id of a sandbox and a command; see cubby exec --help");
    if (err_is(&e) || pairs_parse(&envs, "--env", &want.envs, &e) < 0) {
        cli_fail(&e);
        return EXEC_NOT_RUN;
    }
    want.cmd = argv[command];
    want.args = (const char *const *)&argv[command + 1];
    want.timeout_ms = timeout_s * 1000;
    want.open_stdin = !no_stdin && input_is_wanted();
    int status = exec_in(&server, argv[1], &want);
    json_decref(want.envs);
    return status;
}
