// SPDX-License-Identifier: Apache-2.0
// The HTTP server alone, with the least that can be asked of it: `http-serve [--tls CERT KEY]
// [--head-ms N] [--max N]` listens on a port of 127.0.0.1 that the kernel chooses, and prints it.
// Ends with its stdin.
//
//   /fixed     takes a JSON body and answers 300 bytes of JSON
//   /echo      answers with the body
//   /bytes?n=  answers so many bytes
//   /sse       streams an event, and one for each body POSTed to /tell, until its peer leaves
//   /break     breaks off in the middle of an answer
//   /state     says in JSON how many streams are open, how many were left, what was written
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/net/tls.h"

#define ECHO_MAX_BYTES  ((size_t)64 * 1024 * 1024)
#define FIXED_MAX_BYTES 65536

struct stream {
    struct stream *next, **link;
    struct http_request *req;
};

struct download {
    struct http_request *req;
    size_t left;
};

static struct stream *streams;
static unsigned open_streams, left_streams;
static size_t written; // of downloads
static char fixed[301];

static void on_fixed(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)body;
    (void)len;
    (void)ctx;
    http_respond(req, 200, "application/json", fixed, sizeof fixed - 1);
}

static void on_echo(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    http_respond(req, 200, "application/octet-stream", body, len);
}

// ---- streams

static void on_stream_gone(void *ctx)
{
    struct stream *s = ctx;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    free(s);
    open_streams--;
    left_streams++;
}

static void send_event(const struct stream *s, const char *data)
{
    struct buf event auto_buf = BUF_INIT;
    buf_printf(&event, "data: %s\n\n", data);
    http_response_write(s->req, event.data, event.len);
}

static void on_stream(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)body;
    (void)len;
    (void)ctx;
    struct stream *s = xmalloc(sizeof *s);
    *s = (struct stream){.req = req, .next = streams, .link = &streams};
    if (s->next)
        s->next->link = &s->next;
    streams = s;
    open_streams++;
    http_request_on_close(req, on_stream_gone, s);
    http_response_header(req, "Content-Type", "text/event-stream");
    http_response_begin(req, 200, -1);
    send_event(s, "hello");
}

static void on_tell(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)len;
    (void)ctx;
    for (const struct stream *s = streams; s; s = s->next)
        send_event(s, body);
    http_respond(req, 202, NULL, NULL, 0);
}

// ---- downloads

static void on_download_gone(void *ctx)
{
    free(ctx);
}

static void pump(void *ctx)
{
    static const char BLOCK[32768];
    struct download *d = ctx;
    while (d->left > 0) {
        size_t n = d->left < sizeof BLOCK ? d->left : sizeof BLOCK;
        d->left -= n;
        written += n;
        if (!http_response_write(d->req, BLOCK, n))
            return;
    }
    http_response_end(d->req);
    free(d);
}

static void on_bytes(struct http_request *req)
{
    int64_t n = 0;
    const char *text = http_request_query(req, "n", NULL);
    if (!text || !str_to_int(text, 0, INT64_MAX, &n)) {
        http_respond_error(req, 400, "n is missing");
        return;
    }
    struct download *d = xmalloc(sizeof *d);
    *d = (struct download){.req = req, .left = (size_t)n};
    http_request_on_close(req, on_download_gone, d);
    http_response_on_drain(req, pump, d);
    http_response_begin(req, 200, n);
    pump(d);
}

static void on_break(struct http_request *req)
{
    http_response_begin(req, 200, -1);
    http_response_write(req, "half", 4);
    http_response_abort(req);
}

static void on_state(struct http_request *req)
{
    struct buf state auto_buf = BUF_INIT;
    buf_printf(&state, "{\"streams\":%u,\"left\":%u,\"written\":%zu,\"tls\":%s,\"peer\":\"%s\"}",
               open_streams, left_streams, written, http_request_is_tls(req) ? "true" : "false",
               http_request_peer(req));
    http_respond(req, 200, "application/json", state.data, state.len);
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    const char *path = http_request_path(req);
    if (str_eq(path, "/fixed"))
        http_request_collect(req, FIXED_MAX_BYTES, on_fixed, NULL);
    else if (str_eq(path, "/echo"))
        http_request_collect(req, ECHO_MAX_BYTES, on_echo, NULL);
    else if (str_eq(path, "/sse"))
        http_request_collect(req, 0, on_stream, NULL);
    else if (str_eq(path, "/tell"))
        http_request_collect(req, FIXED_MAX_BYTES, on_tell, NULL);
    else if (str_eq(path, "/bytes"))
        on_bytes(req);
    else if (str_eq(path, "/break"))
        on_break(req);
    else if (str_eq(path, "/state"))
        on_state(req);
    else
        http_respond_error(req, 404, "nothing at %s", path);
}

// ---- the program

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char sink[64];
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(sink, sizeof sink);
}

static void on_stdin(uv_stream_t *in, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    if (n >= 0)
        return;
    uv_close((uv_handle_t *)in, NULL);
    http_server_close(in->data, NULL, NULL);
}

static int serve(const struct http_server_opts *opts)
{
    uv_loop_t loop;
    uv_pipe_t in;
    struct err e = ERR_INIT;
    uv_loop_init(&loop);
    struct http_server *server = http_server_new(&loop, opts);
    if (http_server_listen_tcp(server, "127.0.0.1", 0, &e) != 0) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    uv_pipe_init(&loop, &in, 0);
    in.data = server;
    uv_pipe_open(&in, 0);
    uv_read_start((uv_stream_t *)&in, on_alloc, on_stdin);
    printf("%d\n", http_server_port(server));
    fflush(stdout);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}

int main(int argc, char **argv)
{
    struct http_server_opts opts = {.on_request = on_request};
    struct err e = ERR_INIT;
    int64_t number;
    signal(SIGPIPE, SIG_IGN);
    memset(fixed, 'x', sizeof fixed - 1);
    memcpy(fixed, "{\"text\":\"", 9);
    memcpy(fixed + sizeof fixed - 3, "\"}", 2);
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--tls") && i + 2 < argc) {
            opts.tls = tls_new(argv[i + 1], argv[i + 2], &e);
            if (!opts.tls) {
                fprintf(stderr, "%s\n", e.msg);
                return 1;
            }
            i += 2;
        } else if (str_eq(argv[i], "--head-ms") && i + 1 < argc &&
                   str_to_int(argv[i + 1], 1, 60000, &number)) {
            opts.head_timeout_ms = (uint64_t)number;
            i++;
        } else if (str_eq(argv[i], "--max") && i + 1 < argc &&
                   str_to_int(argv[i + 1], 1, 100000, &number)) {
            opts.max_connections = (unsigned)number;
            i++;
        } else {
            return 2;
        }
    }
    int status = serve(&opts);
    tls_free(opts.tls);
    return status;
}
