// SPDX-License-Identifier: Apache-2.0
// cubby web: serves a page on loopback to watch sandboxes and to work in them, until Ctrl-C.
#include "sandbox-backend/web/web.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

struct serve {
    uv_loop_t loop;
    struct web *web;
    uv_signal_t interrupt, terminate, hangup;
    uv_poll_t keyboard;
    bool has_keyboard;
    int number; // of the signal that came
};

static void print_link(struct serve *s)
{
    char *link auto_free = web_link(s->web);
    puts(link);
    fflush(stdout);
}

static void on_closed(void *ctx)
{
    (void)ctx;
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    if (s->number)
        return;
    s->number = number;
    web_close(s->web, on_closed, s);
    close_handle((uv_handle_t *)&s->interrupt);
    close_handle((uv_handle_t *)&s->terminate);
    close_handle((uv_handle_t *)&s->hangup);
    if (s->has_keyboard)
        close_handle((uv_handle_t *)&s->keyboard);
}

// Enter on the keyboard: a link for another browser.
static void on_keyboard(uv_poll_t *handle, int status, int events)
{
    (void)events;
    struct serve *s = handle->data;
    char text[256];
    ssize_t n = status < 0 ? 0 : read(STDIN_FILENO, text, sizeof text);
    if (n <= 0)
        close_handle((uv_handle_t *)handle);
    else if (memchr(text, '\n', (size_t)n))
        print_link(s);
}

static void watch(struct serve *s, uv_signal_t *handle, int number)
{
    uv_signal_init(&s->loop, handle);
    handle->data = s;
    uv_signal_start(handle, on_signal, number);
}

static void watch_all(struct serve *s)
{
    watch(s, &s->interrupt, SIGINT);
    watch(s, &s->terminate, SIGTERM);
    watch(s, &s->hangup, SIGHUP);
    s->has_keyboard = isatty(STDIN_FILENO) && uv_poll_init(&s->loop, &s->keyboard, 0) == 0;
    if (!s->has_keyboard)
        return;
    s->keyboard.data = s;
    uv_poll_start(&s->keyboard, UV_READABLE, on_keyboard);
}

static int serve(const struct backend *backend, int port, struct err *e)
{
    struct serve s = {0};
    uv_loop_init(&s.loop);
    s.web = web_open(&s.loop, backend, port, e);
    if (s.web) {
        watch_all(&s);
        print_link(&s);
        if (s.has_keyboard)
            fputs("The link works once. Enter prints another one; Ctrl-C ends the page.\n", stderr);
    }
    uv_run(&s.loop, UV_RUN_DEFAULT);
    uv_loop_close(&s.loop);
    if (!s.web)
        return cli_fail(e);
    return s.number == SIGINT ? 0 : 128 + s.number;
}

// Start the local daemon, or ask the remote one whether it knows the key: an error is of use here,
// and not in the page.
static int check_backend(const struct backend_opts *server, char **home, struct err *e)
{
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS, e) < 0)
        return -1;
    json_t *stats = connection_stats(&c, NULL, e);
    *home = c.home ? xstrdup(c.home) : NULL;
    connection_close(&c);
    json_decref(stats);
    return stats ? 0 : -1;
}

// Return the URL without slashes at its end. New string.
static char *base_of(const char *url)
{
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    return xstrndup(url, len);
}

static int web_for(const struct backend_opts *server, int port)
{
    struct err e = ERR_INIT;
    char *home auto_free = NULL;
    if (check_backend(server, &home, &e) < 0)
        return cli_fail(&e);
    const char *given = server->backend ? server->backend : server->client.api_url;
    char *url auto_free = base_of(home || !given ? "http://localhost" : given);
    char *path auto_free = home ? home_path(home, "cubbyd.sock") : NULL;
    const struct backend backend = {.url = url,
                                    .unix_socket = path,
                                    .api_key = home ? NULL : server->client.api_key,
                                    .ca_file = home ? NULL : server->client.ca_file};
    return serve(&backend, port, &e);
}

int verb_web(int argc, char **argv)
{
    struct backend_opts server = {0};
    int64_t port = 0;
    const struct opt opts[] = {
        CLI_INT("port", &port, "N", 1024, 65535, "port on loopback (default: a free one)"),
    };
    const struct cli_usage usage = {
        .synopsis = "web [--port N]",
        .text =
            "Serves a page on loopback that shows the sandboxes of a cubbyd: live figures,\n"
            "terminals, files, network, ports and snapshots. Prints a link that opens the page\n"
            "once, for one browser. Whoever has the link may do all that you may. The page\n"
            "ends with Ctrl-C; sandboxes and programs in its terminals run on.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("web takes no operand; see cubby web --help");
    return web_for(&server, (int)port);
}
