// SPDX-License-Identifier: Apache-2.0
// Fuzz the client end of an HTTP connection with bytes from a guest. The first byte chooses the
// size of the pieces, the second the method of the request. The call completes exactly once.
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/net/http_conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_conn *conn;
static int heads, ends;
static bool closed;

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)ctx;
    if (status < 200 || ++heads > 1)
        abort();
    for (size_t i = 0; i < count; i++)
        if (!*headers[i].name || strpbrk(headers[i].value, "\r\n"))
            abort();
}

static void on_data(const char *bytes, size_t len, void *ctx)
{
    (void)ctx;
    if (!heads || ends || !bytes || !len)
        abort();
    if (bytes[0] == 'p') {
        http_conn_pause(conn);
        http_conn_resume(conn);
    }
}

static void on_end(const struct err *e, void *ctx)
{
    (void)ctx;
    if (++ends > 1 || (!e && !heads))
        abort();
}

static void on_closed(struct http_conn *c, void *ctx)
{
    (void)c;
    (void)ctx;
    closed = true;
}

static const struct http_conn_events EVENTS = {
    .on_head = on_head, .on_data = on_data, .on_end = on_end};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const METHODS[] = {"GET", "HEAD", "POST"};
    int fds[2];
    uv_loop_t loop;
    if (size < 2 || size > 100000 || uv_loop_init(&loop) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    heads = ends = 0;
    closed = false;
    uv_pipe_t *pipe = malloc(sizeof *pipe);
    uv_pipe_init(&loop, pipe, 0);
    uv_pipe_open(pipe, fds[0]);
    conn = http_conn_new((uv_stream_t *)pipe, on_closed, NULL);
    int method = data[1] % 3;
    http_conn_call(conn, METHODS[method], "/", NULL, 0, method == 2 ? -1 : 0, &EVENTS, NULL);
    if (method == 2)
        http_conn_finish(conn);
    uv_run(&loop, UV_RUN_NOWAIT);
    char sink[4096];
    (void)!recv(fds[1], sink, sizeof sink, MSG_DONTWAIT);
    size_t piece = data[0] ? data[0] : size;
    for (size_t at = 2; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        if (send(fds[1], data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    close(fds[1]);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (!closed || ends != 1 || uv_loop_close(&loop) != 0)
        abort();
    return 0;
}
