// SPDX-License-Identifier: Apache-2.0
// cubby run: create a sandbox, run a command in it as cubby exec does, and end the sandbox. The
// sandbox also ends when a signal ends us: during the create, or later.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/create.h"
#include "sandbox-backend/cli/exec.h"
#include "sandbox-backend/cli/input.h"
#include "sandbox-backend/cli/shell.h"

// The options of the command line.
struct run_opts {
    struct create_opts create;
    const char *cwd, *user;
    bool wants_terminal;
    bool keeps; // the sandbox lives on
};

// ---- the create, which a signal cancels

struct creation {
    uv_loop_t *loop;
    struct client_op *op;
    json_t *sandbox; // owned; NULL: failed
    struct err err;
    uv_signal_t interrupt, terminate;
    int handles_open;
    int caught; // the signal; 0: none
};

static void on_created(const json_t *info, const struct err *e, void *ctx)
{
    struct creation *made = ctx;
    made->op = NULL;
    made->sandbox = info ? json_deep_copy(info) : NULL;
    if (e)
        made->err = *e;
    uv_stop(made->loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct creation *made = handle->data;
    made->caught = number;
    if (made->op)
        client_cancel(made->op);
}

static void on_closed(uv_handle_t *handle)
{
    struct creation *made = handle->data;
    made->handles_open--;
}

static void watch(struct creation *made, uv_signal_t *handle, int number)
{
    uv_signal_init(made->loop, handle);
    handle->data = made;
    uv_signal_start(handle, on_signal, number);
    made->handles_open++;
}

static void create(struct creation *made, struct connection *c, const struct sandbox_opts *want)
{
    made->loop = &c->loop;
    watch(made, &made->interrupt, SIGINT);
    watch(made, &made->terminate, SIGTERM);
    made->op = client_create(c->client, want, on_created, made);
    while (made->op)
        uv_run(made->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&made->interrupt, on_closed);
    uv_close((uv_handle_t *)&made->terminate, on_closed);
    while (made->handles_open)
        uv_run(made->loop, UV_RUN_ONCE);
}

// ---- the command, and the end of the sandbox

static void end(struct connection *c, const char *id, const struct run_opts *o, bool left)
{
    struct err e = ERR_INIT;
    if (o->keeps || left)
        fprintf(stderr, "cubby: the sandbox %s lives on; cubby kill %s ends it\n", id, id);
    else if (connection_kill(c, id, &e) < 0 && e.code != ERR_GONE && e.code != ERR_NOT_FOUND)
        cli_fail(&e);
}

static int run_command(struct connection *c, const char *id, const struct run_opts *o, char **words)
{
    bool left = false;
    struct command_opts want = {
        .cmd = words[0],
        .args = (const char *const *)&words[1],
        .cwd = o->cwd,
        .user = o->user,
        .open_stdin = input_is_wanted(),
    };
    int status = 0;
    if (o->wants_terminal) {
        shell_add_environment(&want.envs);
        status = shell_run(c, id, &want, false, &left);
    } else {
        status = exec_run(c, id, &want);
    }
    json_decref(want.envs);
    end(c, id, o, left);
    return status;
}

static int fail(const struct err *e)
{
    cli_fail(e);
    return EXEC_NOT_RUN;
}

static int run_in(struct connection *c, const struct run_opts *o, char **words)
{
    struct creation made = {0};
    create(&made, c, &o->create.want);
    const char *id = json_string_value(json_object_get(made.sandbox, "sandboxID"));
    int status = EXEC_NOT_RUN;
    if (made.caught) {
        status = 128 + made.caught;
        if (id)
            end(c, id, o, false);
    } else if (id) {
        create_warn(made.sandbox);
        status = create_mount_all(c, id, &o->create, &made.err) < 0 ? fail(&made.err)
                                                                    : run_command(c, id, o, words);
    } else {
        create_fail(&made.err);
    }
    json_decref(made.sandbox);
    return status;
}

int verb_run(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct run_opts o = {0};
    struct opt opts[CREATE_OPTS_COUNT + 4] = {
        CLI_STRING("user", &o.user, "NAME",
                   "user that runs the command (default: the sandbox's default user)"),
        CLI_STRING("cwd", &o.cwd, "DIR", "working directory (default: that user's home)"),
        CLI_FLAG("tty", &o.wants_terminal, "give the command a terminal, as cubby shell does"),
        CLI_FLAG("keep", &o.keeps, "do not end the sandbox after the command"),
    };
    create_opts_table(&opts[4], &o.create);
    const struct cli_usage usage = {
        .synopsis = "run [OPTIONS] [--] COMMAND [ARGUMENT...]",
        .text = "Creates a sandbox, runs a command in it and ends the sandbox. Output, input and\n"
                "exit status are those of cubby exec.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
        .stop_at_operand = true,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done == CLI_USAGE ? EXEC_NOT_RUN : done;
    struct err e = ERR_INIT;
    struct connection c;
    int command = argc > 1 && strcmp(argv[1], "--") == 0 ? 2 : 1;
    int status = EXEC_NOT_RUN;
    if (argc <= command)
        err_set(&e, ERR_INVALID, "run takes a command; see cubby run --help");
    if (err_is(&e) || (o.wants_terminal && shell_check(&e) < 0) ||
        create_opts_parse(&o.create, &e) < 0 ||
        connection_open(&c, &server, CONNECT_STARTS, &e) < 0) {
        status = fail(&e);
    } else {
        status = run_in(&c, &o, &argv[command]);
        connection_close(&c);
    }
    create_opts_fini(&o.create);
    return status;
}
