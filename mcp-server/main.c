// SPDX-License-Identifier: Apache-2.0
// cubby-mcp: Cubby's tools for one MCP client, over stdin and stdout.
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
// live on until their time is over. The exit code is 0 in each of these cases.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mcp-server/config.h"
#include "mcp-server/fetch_guard.h"
#include "mcp-server/session.h"
#include "mcp-server/tools.h"
#include "mcp-server/transport.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/log/log.h"

#define END_MS 1500

enum app_state { APP_SERVING, APP_ENDING, APP_CLOSING };

struct app {
    enum app_state state;
    uv_loop_t loop;
    struct config config;
    struct toolbox toolbox;
    struct session *session;
    struct transport_stdio *transport;
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

// Everything in flight has ended, and its answers are queued.
static void on_idle(void *ctx)
{
    struct app *app = ctx;
    app->state = APP_CLOSING;
    transport_stdio_close(app->transport);
    toolbox_close(&app->toolbox);
    uv_close((uv_handle_t *)&app->on_term, NULL);
    uv_close((uv_handle_t *)&app->on_int, NULL);
    uv_unref((uv_handle_t *)&app->limit); // still there to cut short what does not close
}

static void app_end(struct app *app)
{
    if (app->state != APP_SERVING)
        return;
    app->state = APP_ENDING;
    uv_timer_start(&app->limit, on_limit, END_MS, 0);
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

static int serve(struct app *app, int in, int out, struct err *e)
{
    static const struct transport_events EVENTS = {.on_message = on_message, .on_eof = on_eof};
    uv_loop_init(&app->loop);
    uv_timer_init(&app->loop, &app->limit);
    watch(app, &app->on_term, SIGTERM);
    watch(app, &app->on_int, SIGINT);
    toolbox_init(&app->toolbox, &app->loop, &app->config);
    app->session = session_new(&app->loop, &app->toolbox);
    app->transport = transport_stdio_open(&app->loop, in, out, &EVENTS, app, e);
    if (!app->transport)
        return -1;
    uv_run(&app->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&app->limit, NULL);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    session_free(app->session);
    toolbox_fini(&app->toolbox);
    uv_loop_close(&app->loop);
    return 0;
}

static int usage_error(const struct err *e)
{
    fprintf(stderr, "cubby-mcp: %s\n", e->msg);
    return 2;
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
    log_set_level((enum log_level)log_parse_level(app.config.log_level));
    signal(SIGPIPE, SIG_IGN);
    int out = move_stdout();
    int in = move_stdin();
    if (in < 0 || out < 0) {
        fprintf(stderr, "cubby-mcp: stdin and stdout must be open: %s\n", strerror(errno));
        return 2;
    }
    int rc = serve(&app, in, out, &e);
    config_fini(&app.config);
    return rc < 0 ? usage_error(&e) : 0;
}
