// SPDX-License-Identifier: Apache-2.0
// cubby-mcp: Cubby's tools for one MCP client, over stdin and stdout, or for many over HTTP.
//
// Theory of operation. One loop, one thread. stdout belongs to the protocol: first of all it is
// moved to a descriptor of its own and fd 1 becomes stderr, so that nothing a library prints can
// get between the messages, and children inherit neither. The process keeps no state: sandboxes
// belong to the daemon, which is looked for, and started, by the first call of a tool, never
// before; a client that starts a server for each call, or one to ask for the tools, pays for
// nothing else.
//
// The end: stdin closed, SIGTERM or SIGINT. What is in flight is cancelled, which kills its
// commands; when all of it has ended, connections are closed and the loop runs empty. All of that
// has END_MS; a peer or a daemon that does not answer must not hold the process longer. Sandboxes
// live on until their time is over. The exit code is 0 in each of these cases. With --http it is
// the same but for stdin, which is not looked at; see web_endpoint.c.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mcp-server/config.h"
#include "mcp-server/protocol/session.h"
#include "mcp-server/protocol/transport.h"
#include "mcp-server/tools/fetch_guard.h"
#include "mcp-server/tools/tools.h"
#include "mcp-server/web/web_endpoint.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/keys/token_file.h"
#include "sandbox-backend/log/log.h"

#define END_MS 1500

enum app_state { APP_SERVING, APP_ENDING, APP_CLOSING };

struct app {
    enum app_state state;
    uv_loop_t loop;
    struct config config;
    struct toolbox toolbox;
    struct session *session;           // over stdio
    struct transport_stdio *transport; // the same
    struct web_endpoint *web;          // over HTTP instead
    uv_signal_t on_term, on_int;
    uv_timer_t limit;
};

// ---- 1. stdout

// Returns the descriptor that stands for stdout from now on.
static int move_stdout(void)
{
    int null = open("/dev/null", O_RDWR);
    if (null > STDERR_FILENO)
        close(null); // 0, 1 and 2 are all taken, as they should be
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

static void app_close(struct app *app)
{
    app->state = APP_CLOSING;
    toolbox_close(&app->toolbox);
    uv_unref((uv_handle_t *)&app->limit); // still there to cut short what does not close
}

// Everything in flight has ended, and its answers are queued.
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
    app->state = APP_ENDING;
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
        session_receive(app->session, reply, data, len);
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
    app->session = session_new(&app->loop, &app->toolbox, caller);
    caller_release(caller);
    app->transport = transport_stdio_open(&app->loop, in, out, &EVENTS, app, e);
    if (!app->transport)
        return -1;
    app->session->outlet = transport_stdio_outlet(app->transport);
    return 0;
}

static int open_http(struct app *app, struct err *e)
{
    app->web = web_endpoint_open(&app->toolbox, e);
    return app->web ? 0 : -1;
}

// Nothing is left in the loop but what is needed to the last. A signal's handle that is closed
// gives the signal its default action back, and who sends a second SIGTERM would kill a process
// that is about to exit with 0: so these are blocked from here on.
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
    toolbox_init(&app->toolbox, &app->loop, &app->config);
    int rc = app->config.http ? open_http(app, e) : open_stdio(app, in, out, e);
    if (rc < 0)
        app_close(app);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    close_loop(app);
    if (app->session)
        session_free(app->session);
    toolbox_fini(&app->toolbox);
    return rc;
}

static int usage_error(const struct err *e)
{
    fprintf(stderr, "cubby-mcp: %s\n", e->msg);
    return 2;
}

// Nobody has seen it, and it is kept nowhere.
static int unmake_token(const struct config *c, int sys)
{
    struct err e = ERR_INIT;
    struct err why = ERR_INIT;
    bool is_gone = token_file_remove(c->token_file, c->new_token, &why) == 0;
    err_sys(&e, sys, "the token could not be printed, and %s",
            is_gone ? "was taken out again" : "must be taken out of the file by hand");
    return usage_error(&e);
}

// The token is all that stdout gets, so that a script can take it from there.
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
    struct fetch_guard guard; // read again by each download; here only to say what is wrong
    if (config_parse(&app.config, &argc, argv, &e) < 0 ||
        fetch_guard_init(&guard, &app.config.allow_from, &e) < 0)
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
