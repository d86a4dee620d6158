// SPDX-License-Identifier: Apache-2.0
// cubby shell: a terminal in a sandbox. envd gives the command a pseudo terminal with a name, the
// process's tag. Our own terminal is raw meanwhile: each key goes there, and envd's terminal
// translates ^C and the like.
//
//   JOINING  -> RUNNING (a process of this name is there) or STARTING (there is none)
//   STARTING -> RUNNING or DONE (it could not start)
//   RUNNING  -> BROKEN (the connection broke; the process may run on) or DONE (it ended; or left)
//   BROKEN   -> RUNNING (joined again) or DONE (it has ended, or nobody answers for RETRY_MS)
#include "sandbox-backend/cli/shell.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/exec.h"
#include "sandbox-backend/cli/input.h"

#define RETRY_MS       60000 // the longest time without a connection
#define RETRY_EVERY_MS 250
#define COLUMNS        80 // of a terminal that does not say its size
#define ROWS           24

enum shell_state { SHELL_JOINING, SHELL_STARTING, SHELL_RUNNING, SHELL_BROKEN, SHELL_DONE };

// The escape keys, as in ssh: ~ is special only at the beginning of a line.
enum shell_keys { KEYS_LINE_START, KEYS_IN_LINE, KEYS_TILDE };

struct shell {
    struct connection *connection;
    const char *id;
    struct command_opts opts;
    enum shell_state state;
    enum shell_keys keys;
    struct client_op *op;     // the command's; NULL between two connections
    struct client_op *resize; // an Update in progress
    bool resize_again;
    struct input in;
    struct termios saved; // of our terminal
    uv_signal_t window, hangup, terminate;
    uv_timer_t again;
    int handles_open;
    int64_t pid;
    int64_t broken_at; // on the monotonic clock
    bool is_named;     // by the person
    bool left;
    int status;
};

static void connect_again(uv_timer_t *timer);

static void set_state(struct shell *s, enum shell_state to)
{
    static const unsigned ALLOWED[] = {
        [SHELL_JOINING] = 1u << SHELL_RUNNING | 1u << SHELL_STARTING | 1u << SHELL_DONE,
        [SHELL_STARTING] = 1u << SHELL_RUNNING | 1u << SHELL_DONE,
        [SHELL_RUNNING] = 1u << SHELL_BROKEN | 1u << SHELL_DONE,
        [SHELL_BROKEN] = 1u << SHELL_RUNNING | 1u << SHELL_DONE,
        [SHELL_DONE] = 0,
    };
    assert(ALLOWED[s->state] & 1u << to);
    s->state = to;
}

// ---- our terminal

int shell_check(struct err *e)
{
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return 0;
    return err_set(e, ERR_INVALID,
                   "standard input and output are not a terminal; cubby exec ID -- COMMAND runs a "
                   "command without one");
}

static void read_size(int *columns, int *rows)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *columns = known ? size.ws_col : COLUMNS;
    *rows = known ? size.ws_row : ROWS;
}

static void make_raw(struct shell *s)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &s->saved) < 0)
        return;
    raw = s->saved;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

// A line between those of the shell, whose cursor may be anywhere.
static void notice(const char *text)
{
    fprintf(stderr, "\r\n[cubby: %s]\r\n", text);
}

// ---- its size

static void send_size(struct shell *s, int fewer_rows);

static void on_resized(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    (void)e; // the next change of size tries again
    struct shell *s = ctx;
    s->resize = NULL;
    if (s->resize_again)
        send_size(s, 0);
}

static void send_size(struct shell *s, int fewer_rows)
{
    int columns;
    int rows;
    s->resize_again = s->resize || fewer_rows;
    if (s->resize || s->state != SHELL_RUNNING)
        return;
    read_size(&columns, &rows);
    json_t *request =
        json_pack("{s:{s:I}, s:{s:{s:i, s:i}}}", "process", "pid", (json_int_t)s->pid, "pty",
                  "size", "cols", columns, "rows", rows > fewer_rows ? rows - fewer_rows : rows);
    s->resize = client_rpc(s->connection->client, s->id, "process.Process/Update", request,
                           s->opts.user, on_resized, s);
    json_decref(request);
}

static void on_window(uv_signal_t *handle, int number)
{
    (void)number;
    send_size(handle->data, 0);
}

// ---- the end

static void finish(struct shell *s, int status)
{
    set_state(s, SHELL_DONE);
    s->status = status;
    uv_stop(&s->connection->loop);
}

// Leave the command: it runs on. Between two connections there is nothing to close.
static void leave(struct shell *s)
{
    s->left = true;
    s->in.over = true;
    if (s->op)
        client_leave(s->op);
    else if (s->state == SHELL_BROKEN)
        finish(s, 0);
}

// Our terminal has gone, or somebody ends us. A shell that the person named runs on; another one
// ends, as it would with its terminal.
static void on_ended(uv_signal_t *handle, int number)
{
    struct shell *s = handle->data;
    s->status = 128 + number;
    if (s->op && s->is_named)
        client_leave(s->op);
    else if (s->op)
        client_cancel(s->op);
    else if (s->state == SHELL_BROKEN)
        finish(s, 128 + number);
}

// ---- keys

static void take_tilde(struct shell *s, char key, struct buf *out)
{
    s->keys = key == '\r' || key == '\n' ? KEYS_LINE_START : KEYS_IN_LINE;
    if (key == '.') {
        leave(s);
    } else if (key == '?') {
        s->keys = KEYS_LINE_START;
        notice("~. leaves the shell, which runs on; ~~ sends ~; ~? shows this");
    } else {
        buf_addc(out, '~');
        if (key != '~')
            buf_addc(out, key);
    }
}

static void on_keys(const char *data, size_t len, struct buf *out, void *ctx)
{
    struct shell *s = ctx;
    for (size_t i = 0; i < len && !s->left; i++) {
        char key = data[i];
        if (s->keys == KEYS_TILDE) {
            take_tilde(s, key, out);
        } else if (s->keys == KEYS_LINE_START && key == '~') {
            s->keys = KEYS_TILDE;
        } else {
            s->keys = key == '\r' || key == '\n' ? KEYS_LINE_START : KEYS_IN_LINE;
            buf_addc(out, key);
        }
    }
}

// ---- the stream

static void on_start(int64_t pid, void *ctx)
{
    struct shell *s = ctx;
    bool joined = s->opts.joins;
    bool first = !s->pid;
    s->pid = pid;
    if (s->state == SHELL_BROKEN)
        notice("connected again");
    set_state(s, SHELL_RUNNING);
    if (first)
        input_start(&s->in, pid);
    if (joined)
        send_size(s, 1); // and then the true size: a program that is told of it draws itself again
}

static void on_output(const char *data, size_t len, void *ctx)
{
    struct shell *s = ctx;
    struct err e = ERR_INIT;
    if (fd_write_all(STDOUT_FILENO, data, len, &e) < 0 && s->op)
        client_cancel(s->op); // our terminal has gone
}

static bool may_come_back(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_REFUSED || e->code == ERR_TIMEOUT;
}

static void take_break(struct shell *s, const struct err *e)
{
    if (s->state == SHELL_RUNNING) {
        set_state(s, SHELL_BROKEN);
        s->broken_at = clock_mono_ms();
        notice("the connection broke; trying again (~. gives up)");
    }
    if (may_come_back(e) && clock_mono_ms() - s->broken_at < RETRY_MS) {
        uv_timer_start(&s->again, connect_again, RETRY_EVERY_MS, 0);
        return;
    }
    exec_complain(e);
    finish(s, EXEC_NOT_RUN);
}

static void begin(struct shell *s, bool joins);

static void on_end(const struct command_result *r, const struct err *e, void *ctx)
{
    struct shell *s = ctx;
    s->op = NULL;
    if (s->status || s->left) { // a signal came, or the person left
        finish(s, s->status);
    } else if (e && s->state == SHELL_JOINING && e->code == ERR_NOT_FOUND) {
        set_state(s, SHELL_STARTING);
        begin(s, false);
    } else if (e && s->pid && (may_come_back(e) || s->state == SHELL_BROKEN)) {
        take_break(s, e);
    } else {
        if (e)
            exec_complain(e);
        finish(s, exec_status(r, 0));
    }
}

static void begin(struct shell *s, bool joins)
{
    static const struct command_events EVENTS = {
        .on_start = on_start, .on_stdout = on_output, .on_stderr = on_output, .on_end = on_end};
    s->opts.joins = joins;
    read_size(&s->opts.columns, &s->opts.rows);
    s->op = client_command(s->connection->client, s->id, &s->opts, &EVENTS, s);
}

static void connect_again(uv_timer_t *timer)
{
    begin(timer->data, true);
}

// ---- running

static void watch(struct shell *s, uv_signal_t *handle, uv_signal_cb cb, int number)
{
    uv_signal_init(&s->connection->loop, handle);
    handle->data = s;
    uv_signal_start(handle, cb, number);
    s->handles_open++;
}

static void on_closed(uv_handle_t *handle)
{
    struct shell *s = handle->data;
    s->handles_open--;
}

static void open_handles(struct shell *s)
{
    watch(s, &s->window, on_window, SIGWINCH);
    watch(s, &s->hangup, on_ended, SIGHUP);
    watch(s, &s->terminate, on_ended, SIGTERM);
    uv_timer_init(&s->connection->loop, &s->again);
    s->again.data = s;
    s->handles_open++;
}

static void close_handles(struct shell *s)
{
    uv_close((uv_handle_t *)&s->window, on_closed);
    uv_close((uv_handle_t *)&s->hangup, on_closed);
    uv_close((uv_handle_t *)&s->terminate, on_closed);
    uv_close((uv_handle_t *)&s->again, on_closed);
    input_stop(&s->in);
    s->resize_again = false;
    if (s->resize)
        client_cancel(s->resize);
    while (s->handles_open || s->resize || !input_is_stopped(&s->in))
        uv_run(&s->connection->loop, UV_RUN_ONCE);
}

static void say_how_to_return(const struct shell *s)
{
    fprintf(stderr, "\nleft; the shell runs on: cubby shell --name %s %s\n", s->opts.tag, s->id);
}

static char *new_name(void)
{
    unsigned short number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (unsigned short)getpid();
    return str_printf("shell-%04x", number);
}

int shell_run(struct connection *c, const char *id, const struct command_opts *opts, bool joins,
              bool *left)
{
    char *name auto_free = opts->tag ? NULL : new_name();
    struct shell s = {
        .connection = c,
        .id = id,
        .opts = *opts,
        .state = joins ? SHELL_JOINING : SHELL_STARTING,
        .in = {.loop = &c->loop, .client = c->client, .id = id, .user = opts->user},
    };
    s.is_named = opts->tag != NULL;
    s.in.stream = "pty";
    s.in.filter = on_keys;
    s.in.ctx = &s;
    s.opts.tag = name ? name : opts->tag;
    s.opts.open_stdin = true;
    open_handles(&s);
    make_raw(&s);
    begin(&s, joins);
    while (s.state != SHELL_DONE)
        uv_run(&c->loop, UV_RUN_DEFAULT);
    close_handles(&s);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &s.saved);
    if (s.left)
        say_how_to_return(&s);
    if (left)
        *left = s.left;
    return s.status;
}

// The command after the id, or else a login shell.
static void choose_command(struct command_opts *want, int argc, char **argv)
{
    static const char *const LOGIN[] = {"-i", "-l", NULL};
    int command = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    want->cmd = argc > command ? argv[command] : "/bin/bash";
    want->args = argc > command ? (const char *const *)&argv[command + 1] : LOGIN;
}

static void add_default(json_t *envs, const char *name, const char *value)
{
    if (value && *value && !json_object_get(envs, name))
        json_object_set_new(envs, name, json_string(value));
}

void shell_add_environment(json_t **envs)
{
    const char *term = getenv("TERM");
    if (!*envs)
        *envs = json_object();
    add_default(*envs, "TERM", term && *term ? term : "xterm-256color");
    add_default(*envs, "COLORTERM", getenv("COLORTERM"));
    add_default(*envs, "LANG", "C.UTF-8");
}

static int shell_in(const struct backend_opts *server, const char *given,
                    const struct command_opts *want)
{
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS_IF_USED, &e) < 0) {
        cli_fail(&e);
        return EXEC_NOT_RUN;
    }
    char *id auto_free = connection_resolve(&c, given, &e);
    if (!id)
        cli_fail(&e);
    int status = id ? shell_run(&c, id, want, want->tag != NULL, NULL) : EXEC_NOT_RUN;
    connection_close(&c);
    return status;
}

int verb_shell(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct opt_list envs = {0};
    struct command_opts want = {0};
    const struct opt opts[] = {
        CLI_STRING("name", &want.tag, "NAME",
                   "return to the shell of this name, or start it (default: start a new one)"),
        CLI_STRING("user", &want.user, "NAME", "user (default: the sandbox's default user)"),
        CLI_STRING("cwd", &want.cwd, "DIR", "working directory (default: that user's home)"),
        CLI_LIST("env", &envs, "NAME=VALUE", "environment variable; may be repeated"),
    };
    const struct cli_usage usage = {
        .synopsis = "shell [OPTIONS] ID [-- COMMAND [ARGUMENT...]]",
        .text = "Opens a terminal in a sandbox and runs a shell, or the command. cubby exits with\n"
                "its status, as cubby exec does. At the beginning of a line ~. leaves the shell,\n"
                "which runs on, and cubby says how to return; ~? shows these keys. If the\n"
                "connection breaks, cubby connects again.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
        .stop_at_operand = true,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done == CLI_USAGE ? EXEC_NOT_RUN : done;
    struct err e = ERR_INIT;
    if (argc < 2)
        err_set(&e, ERR_INVALID, "shell takes the id of a sandbox; see cubby shell --help");
    if (err_is(&e) || shell_check(&e) < 0 || pairs_parse(&envs, "--env", &want.envs, &e) < 0) {
        cli_fail(&e);
        return EXEC_NOT_RUN;
    }
    choose_command(&want, argc, argv);
    shell_add_environment(&want.envs);
    int status = shell_in(&server, argv[1], &want);
    json_decref(want.envs);
    return status;
}
