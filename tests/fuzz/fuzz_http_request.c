// SPDX-License-Identifier: Apache-2.0
// Fuzz the HTTP server with a peer's bytes, through a socket. The first byte chooses the size of
// the pieces. Each request ends exactly once, the answers are complete, and the server closes and
// leaves nothing behind.
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static int open_requests;

static void on_close(void *ctx)
{
    (void)ctx;
    open_requests--;
}

static void answer(struct http_request *req, const char *body, size_t len)
{
    open_requests--;
    http_respond(req, 200, "text/plain", body, len);
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    if (strlen(body) > len)
        abort();
    answer(req, body, len);
}

static void on_data(struct http_request *req, const char *bytes, size_t len, void *ctx)
{
    (void)req;
    (void)ctx;
    if (len == 0 || !bytes)
        abort();
}

static void on_end(struct http_request *req, void *ctx)
{
    (void)ctx;
    answer(req, "", 0);
}

// What the handler does depends on the target, so that the fuzzer can choose.
static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    static const struct http_body_events events = {on_data, on_end};
    open_requests++;
    http_request_on_close(req, on_close, NULL);
    size_t count;
    const struct http_header *headers = http_request_headers(req, &count);
    for (size_t i = 0; i < count; i++)
        if (!*headers[i].name || strpbrk(headers[i].value, "\r\n"))
            abort();
    bool bad;
    http_request_query(req, "q", &bad);
    switch (http_request_path(req)[1]) {
    case 'c':
        http_request_collect(req, 100, on_body, NULL);
        break;
    case 's':
        http_request_stream(req, &events, NULL);
        break;
    case 'a':
        open_requests--;
        http_response_begin(req, 200, -1);
        http_response_write(req, "x", 1);
        http_response_abort(req);
        break;
    case 'h':
        break; // never answered
    default:
        answer(req, "ok", 2);
    }
}

static void turns(int fd)
{
    char sink[4096];
    for (int i = 0; i < 4; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        while (recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
            ;
    }
}

static void on_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static int dial(struct http_server *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct err e = ERR_INIT;
    // A bind without a path makes the kernel choose an abstract name.
    if (bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)) != 0 ||
        getsockname(listener, (struct sockaddr *)&name, &len) != 0 ||
        http_server_listen_fd(s, listener, &e) != 0 ||
        connect(fd, (struct sockaddr *)&name, len) != 0)
        abort();
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 100000)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    log_set_fd(-1);
    uv_loop_init(&loop);
    open_requests = 0;
    struct http_server *server =
        http_server_new(&loop, &(struct http_server_opts){.on_request = on_request});
    int fd = dial(server);
    size_t piece = data[0] ? data[0] : size;
    for (size_t at = 1; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        if (send(fd, data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        turns(fd);
    }
    close(fd);
    turns(-1);
    bool closed = false;
    http_server_close(server, on_closed, &closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (!closed || open_requests != 0 || uv_loop_close(&loop) != 0)
        abort();
    return 0;
}
