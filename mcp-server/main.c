// SPDX-License-Identifier: Apache-2.0
// cubby-mcp: serves Cubby's tools to one MCP client over stdin and stdout, or to many over HTTP.
//
// Theory of operation. One loop, one thread. stdout belongs to the protocol. At the start it moves
// to another descriptor and fd 1 becomes stderr, so that no output of a library gets between the
// messages. Children inherit neither. The process keeps no state: sandboxes belong to the daemon.
// The first call of a tool looks for the daemon and starts it if needed, so a process that only
// lists the tools costs nothing else.
//
// The process ends when stdin closes, or on SIGTERM or SIGINT. Open calls are cancelled, which
// kills their commands. When all have ended, connections are closed and the loop runs empty. All of
// that has END_MS, because a silent peer or daemon must not hold the process longer. Sandboxes live
// on until their time is over. The exit code is 0 in each case. With --http the same holds, except
// for stdin, which is not read; see web_endpoint.c.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mcp-server/config/config.h"
#include "mcp-server/context/prepare.h"
#include "mcp-server/methods/receive.h"
#include "mcp-server/protocol/transport_stdio.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/web/web_endpoint.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/keys/token_file.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/fetch_guard.h"

#define END_MS 1500

// serving -> ending -> closing; serving -> closing when it cannot serve.
enum app_state { APP_SERVING, APP_ENDING, APP_CLOSING };

struct app {
    enum app_state state;
    uv_loop_t loop;
    struct config config;
    struct context context;
    struct session *session;           // over stdio
    struct transport_stdio *transport; // the same
    struct web_endpoint *web;          // over HTTP instead
    uv_signal_t on_term, on_int;
    uv_timer_t limit;
};

// ---- 1. stdout

// Return the descriptor that is stdout from now on.
static int move_stdout(void)
{
    int null = open("/dev/null", O_RDWR);
    if (null > STDERR_FILENO)
        close(null); // 0, 1 and 2 are in use, as they should be
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return -1;
    return out;
}

// The same for stdin: children get an empty one.
static int move_stdin(void)
{
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int empty auto_close = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || empty < 0 || dup2(empty, STDIN_FILENO) < 0)
        return -1;
    return in;
}

// ---- 2. the end

static void on_limit(uv_timer_t *timer)
{
    (void)timer;
    log_warn("exit.forced", "after_ms=%d", END_MS);
    _exit(0);
}

static void set_state(struct app *app, enum app_state next)
{
    assert(next > app->state);
    app->state = next;
}

static void app_close(struct app *app)
{
    set_state(app, APP_CLOSING);
    context_close(&app->context);
    uv_unref((uv_handle_t *)&app->limit); // it still ends the process if a handle does not close
}

// All calls have ended, and their answers are queued.
static void on_idle(void *ctx)
{
    struct app *app = ctx;
    transport_stdio_close(app->transport);
    app_close(app);
}

static void on_web_closed(void *ctx)
{
    app_close(ctx);
}

static void app_end(struct app *app)
{
    if (app->state != APP_SERVING)
        return;
    set_state(app, APP_ENDING);
    uv_timer_start(&app->limit, on_limit, END_MS, 0);
    if (app->web)
        web_endpoint_close(app->web, on_web_closed, app);
    else
        session_close(app->session, on_idle, app);
}

static void on_eof(void *ctx)
{
    app_end(ctx);
}

static void on_signal(uv_signal_t *handle, int number)
{
    log_debug("signal.received", "number=%d", number);
    app_end(handle->data);
}

// ---- 3. serving

static void on_message(struct outlet *reply, const char *data, size_t len, void *ctx)
{
    struct app *app = ctx;
    if (app->state == APP_SERVING)
        receive_message(app->session, reply, data, len);
}

static void watch(struct app *app, uv_signal_t *handle, int number)
{
    uv_signal_init(&app->loop, handle);
    handle->data = app;
    uv_signal_start(handle, on_signal, number);
    uv_unref((uv_handle_t *)handle);
}

static int open_stdio(struct app *app, int in, int out, struct err *e)
{
    static const struct transport_events EVENTS = {.on_message = on_message, .on_eof = on_eof};
    struct caller *caller = caller_new(NULL, 0);
    app->session = session_new(&app->loop, &app->context, caller);
    caller_release(caller);
    app->transport = transport_stdio_open(&app->loop, in, out, &EVENTS, app, e);
    if (!app->transport)
        return -1;
    app->session->outlet = transport_stdio_outlet(app->transport);
    return 0;
}

static int open_http(struct app *app, struct err *e)
{
    app->web = web_endpoint_open(&app->context, e);
    return app->web ? 0 : -1;
}

// Close the last handles of the loop. A closed signal handle restores the default action, and a
// second SIGTERM would then kill a process that is about to exit with 0. So the signals are blocked
// first.
static void close_loop(struct app *app)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGINT);
    pthread_sigmask(SIG_BLOCK, &both, NULL);
    uv_close((uv_handle_t *)&app->on_term, NULL);
    uv_close((uv_handle_t *)&app->on_int, NULL);
    uv_close((uv_handle_t *)&app->limit, NULL);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    uv_loop_close(&app->loop);
}

static int serve(struct app *app, int in, int out, struct err *e)
{
    uv_loop_init(&app->loop);
    uv_timer_init(&app->loop, &app->limit);
    watch(app, &app->on_term, SIGTERM);
    watch(app, &app->on_int, SIGINT);
    context_init(&app->context, &app->loop, &app->config);
    prepare_start(&app->context);
    if (app->config.local_dirs.count > 0) // warns of those that cannot be used
        context_dirs(&app->context, NULL);
    int rc = app->config.http ? open_http(app, e) : open_stdio(app, in, out, e);
    if (rc < 0)
        app_close(app);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    close_loop(app);
    if (app->session)
        session_free(app->session);
    tools_fini(&app->context);
    context_fini(&app->context);
    return rc;
}

static int usage_error(const struct err *e)
{
    fprintf(stderr, "cubby-mcp: %s\n", e->msg);
    return 2;
}

// The token was not printed, so remove it from the file.
static int unmake_token(const struct config *c, int sys)
{
    struct err e = ERR_INIT;
    struct err why = ERR_INIT;
    bool is_gone = token_file_remove(c->token_file, c->new_token, true, &why) == 0;
    err_sys(&e, sys, "the token could not be printed, and %s",
            is_gone ? "was removed from the file again" : "must be removed from the file by hand");
    return usage_error(&e);
}

// Print only the token to stdout, for scripts.
static int make_token(const struct config *c)
{
    struct err e = ERR_INIT;
    char *token auto_free = token_file_add(c->token_file, c->new_token, &TOKEN_BEARER, &e);
    if (!token)
        return usage_error(&e);
    if (puts(token) >= 0 && fflush(stdout) == 0)
        return 0;
    return unmake_token(c, errno);
}

int main(int argc, char **argv)
{
    static struct app app;
    struct err e = ERR_INIT;
    struct fetch_guard guard; // each download parses it again; here only to report an error early
    if (config_parse(&app.config, &argc, argv, &e) < 0 ||
        fetch_guard_init(&guard, &app.config.allow_from, "allow-download-from", &e) < 0)
        return usage_error(&e);
    if (app.config.help) {
        config_help();
        return 0;
    }
    if (app.config.version) {
        puts("cubby-mcp " CUBBY_VERSION);
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    if (app.config.new_token)
        return make_token(&app.config);
    char *complaint auto_free = tools_complaint(&app.config);
    if (complaint) {
        fprintf(stderr, "cubby-mcp: %s\n", complaint);
        return 2;
    }
    log_set_level((enum log_level)log_parse_level(app.config.log_level));
    int out = move_stdout();
    int in = move_stdin();
    if ((in < 0 || out < 0) && !app.config.http) {
        fprintf(stderr, "cubby-mcp: stdin and stdout must be open: %s\n", strerror(errno));
        return 2;
    }
    int rc = serve(&app, in, out, &e);
    config_fini(&app.config);
    return rc < 0 ? usage_error(&e) : 0;
}
