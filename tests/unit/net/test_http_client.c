// SPDX-License-Identifier: Apache-2.0
// The HTTP client against our server: methods, bodies both ways, and every way to end.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/un.h>

#include "tests/lib/net/http_fetcher.h"

static int server_closes; // requests that ended without an answer

// ---- the server

static void on_gone(void *ctx)
{
    (void)ctx;
    server_closes++;
}

static void on_echo(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    const char *type = http_request_header(req, "Content-Type");
    http_response_header(req, "X-Method", http_request_method(req));
    http_response_header(req, "X-Type", type ? type : "none");
    const char *custom = http_request_header(req, "X-Empty");
    http_response_header(req, "X-Custom", custom ? custom : "absent");
    http_respond(req, 200, NULL, body, len);
}

static size_t pump_left;

static void pump(void *ctx)
{
    static char block[40000];
    struct http_request *req = ctx;
    while (pump_left > 0) {
        size_t n = pump_left < sizeof block ? pump_left : sizeof block;
        pump_left -= n;
        if (!http_response_write(req, block, n))
            return;
    }
    http_response_end(req);
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    http_request_on_close(req, on_gone, NULL);
    const char *p = http_request_path(req);
    if (str_eq(p, "/echo")) {
        http_request_collect(req, 100000000, on_echo, NULL);
    } else if (str_eq(p, "/pump")) {
        pump_left = 10000000;
        http_response_on_drain(req, pump, req);
        http_response_begin(req, 200, -1);
        pump(req);
    } else if (str_eq(p, "/half")) {
        http_response_begin(req, 200, 10);
        http_response_write(req, "half", 4);
        http_response_end(req);
    } else if (!str_eq(p, "/hold")) {
        http_respond_error(req, 404, "nothing at %s", p);
    }
}

// ---- bodies

static ssize_t read_body(void *into, size_t room, void *ctx)
{
    struct outcome *o = ctx;
    if (o->upload_pauses && ++o->pieces % 2) {
        fetcher_resume_later(o);
        return HTTP_READ_PAUSE;
    }
    size_t n = o->upload_left < room ? o->upload_left : room;
    o->upload_left -= n;
    memset(into, 'u', n);
    return (ssize_t)n;
}

static ssize_t abort_body(void *into, size_t room, void *ctx)
{
    (void)into;
    (void)room;
    (void)ctx;
    return HTTP_READ_ABORT;
}

static void over_unix(struct outcome *o, const char *method, const char *target, const char *body)
{
    char *url auto_free = str_printf("http://localhost%s", target);
    fetcher_fetch(o, (struct http_fetch_opts){.method = method,
                                              .url = url,
                                              .unix_socket = fetcher.path,
                                              .body = body,
                                              .body_len = body ? strlen(body) : 0});
}

// ---- tests

static void test_methods(void)
{
    static const struct {
        const char *method, *body, *type;
    } CASES[] = {
        {"GET", NULL, "none"},     {"POST", "a=b", "none"}, {"POST", NULL, "none"},
        {"DELETE", NULL, "none"},  {"PUT", "x", "none"},    {"PATCH", "xyz", "none"},
        {"OPTIONS", NULL, "none"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct outcome o = OUTCOME;
        over_unix(&o, CASES[i].method, "/echo", CASES[i].body);
        is_int(o.status, 200, "%s", CASES[i].method);
        is_str(o.method, CASES[i].method, "the method");
        is_str(o.type, CASES[i].type, "no type that nobody said");
        is_str(buf_str(&o.body), CASES[i].body ? CASES[i].body : "", "the body");
        ok(!err_is(&o.e) && o.ends == 1 && o.heads == 1, "one end: %s", o.e.msg);
        buf_fini(&o.body);
    }
    struct outcome o = OUTCOME;
    over_unix(&o, "HEAD", "/echo", NULL);
    ok(o.status == 200 && str_eq(o.method, "HEAD") && !err_is(&o.e), "HEAD");
    const struct http_header headers[] = {{"Content-Type", "text/x"}, {"X-Empty", ""}};
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "POST",
                                               .url = "http://h/echo",
                                               .unix_socket = fetcher.path,
                                               .headers = headers,
                                               .header_count = 2,
                                               .body = "x\0y",
                                               .body_len = 3});
    ok(str_eq(o.type, "text/x") && o.body.len == 3, "a type and a body of bytes");
    is_str(o.custom, "", "an empty header is sent");
    buf_fini(&o.body);
    const struct http_header evil = {"X", "a\r\nb: c"};
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET",
                                               .url = "http://h/echo",
                                               .unix_socket = fetcher.path,
                                               .headers = &evil,
                                               .header_count = 1});
    is_int(o.e.code, ERR_INVALID, "a header with a line break: %s", o.e.msg);
    o = OUTCOME;
    over_unix(&o, "GET", "/nothing", NULL);
    ok(o.status == 404 && !err_is(&o.e), "404 is an answer like any other");
    buf_fini(&o.body);
}

static void test_streams(void)
{
    struct outcome o = OUTCOME;
    over_unix(&o, "GET", "/pump", NULL);
    is_int(o.body.len, 10000000, "a large answer");
    buf_fini(&o.body);
    o = OUTCOME;
    o.pause_every = 3;
    over_unix(&o, "GET", "/pump", NULL);
    is_int(o.body.len, 10000000, "and with pauses (%d pieces)", o.pieces);
    buf_fini(&o.body);
    for (int i = 0; i < 4; i++) {
        bool known = i % 2;
        o = OUTCOME;
        o.upload_left = 3000000;
        o.upload_pauses = i >= 2;
        fetcher_fetch(&o, (struct http_fetch_opts){.method = "POST",
                                                   .url = "http://h/echo",
                                                   .unix_socket = fetcher.path,
                                                   .read_body = read_body,
                                                   .body_total = known ? 3000000 : -1});
        ok(o.body.len == 3000000 && str_eq(o.method, "POST"), "an upload, %s, %s",
           known ? "length known" : "chunked", i >= 2 ? "with pauses" : "at once");
        buf_fini(&o.body);
    }
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "PUT",
                                               .url = "http://h/echo",
                                               .unix_socket = fetcher.path,
                                               .read_body = abort_body,
                                               .body_total = -1});
    is_int(o.e.code, ERR_CANCELED, "an upload given up: %s", o.e.msg);
    o = OUTCOME;
    over_unix(&o, "GET", "/half", NULL);
    ok(o.e.code == ERR_UNAVAILABLE && o.heads == 1, "an answer cut short: %s", o.e.msg);
    buf_fini(&o.body);
}

static void test_ends(void)
{
    struct outcome o = OUTCOME;
    fetcher_start(&o, (struct http_fetch_opts){
                          .method = "GET", .url = "http://h/hold", .unix_socket = fetcher.path});
    for (int i = 0; i < 10; i++)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    server_closes = 0;
    http_fetch_cancel(o.fetch);
    is_int(o.ends, 0, "canceling ends nothing at once");
    ok(fetcher_wait(&o.ends) && o.e.code == ERR_CANCELED, "but soon");
    ok(fetcher_wait(&server_closes), "and the server learns it");
    o = OUTCOME;
    fetcher_start(&o, (struct http_fetch_opts){
                          .method = "GET", .url = "http://h/echo", .unix_socket = fetcher.path});
    http_fetch_cancel(o.fetch);
    ok(fetcher_wait(&o.ends) && o.e.code == ERR_CANCELED, "canceled before it began");
    struct outcome other = OUTCOME;
    o = OUTCOME;
    o.start_other = &other;
    over_unix(&o, "POST", "/echo", "x");
    ok(fetcher_wait(&other.ends) && !err_is(&other.e) && other.body.len == 10000000,
       "a request made in a callback of another");
    buf_fini(&o.body);
    buf_fini(&other.body);
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET",
                                               .url = "http://h/hold",
                                               .unix_socket = fetcher.path,
                                               .total_timeout_ms = 30});
    is_int(o.e.code, ERR_TIMEOUT, "too slow: %s", o.e.msg);
    o = OUTCOME;
    fetcher_fetch(
        &o, (struct http_fetch_opts){.method = "GET", .url = "http://h/", .unix_socket = "/nope"});
    ok(o.e.code == ERR_REFUSED, "no socket: %s", o.e.msg);
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = "not a url"});
    is_int(o.e.code, ERR_INVALID, "no URL: %s", o.e.msg);
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = "file:///etc/passwd"});
    is_int(o.e.code, ERR_INVALID, "another scheme: %s", o.e.msg);
}

// ---- a peer that resets the connection

// Listen on a TCP port or, without `port`, on a unix socket in the fetcher's directory.
static int listen_raw(int *port, struct sockaddr_un *path)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof tcp;
    int fd = socket(port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    path->sun_family = AF_UNIX;
    snprintf(path->sun_path, sizeof path->sun_path, "%s/raw", fetcher.dir);
    int bad = port ? bind(fd, (struct sockaddr *)&tcp, sizeof tcp)
                   : bind(fd, (struct sockaddr *)path, sizeof *path);
    if (bad || listen(fd, 10) != 0)
        abort();
    if (port && getsockname(fd, (struct sockaddr *)&tcp, &len) == 0)
        *port = ntohs(tcp.sin_port);
    return fd;
}

static bool is_readable(int fd)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

// Accept a connection and wait for its request. Then send the answer, and close without reading
// the request: the kernel resets the connection. All this happens between two turns of the loop,
// so the client sees the answer and the reset together.
static void answer_and_reset(int listener, const char *answer, size_t len)
{
    int64_t end = clock_mono_ms() + FETCHER_WAIT_MS;
    while (!is_readable(listener) && clock_mono_ms() < end)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    int fd = accept(listener, NULL, NULL);
    while (!is_readable(fd) && clock_mono_ms() < end)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    ok(len == 0 || send(fd, answer, len, MSG_NOSIGNAL) == (ssize_t)len, "the peer answers");
    close(fd);
}

static void check_reset(int listener, const struct http_fetch_opts *opts, size_t body)
{
    struct outcome o = OUTCOME;
    struct buf answer = {0};
    char *filler auto_free = xcalloc(body + 1, 1);
    if (body) {
        buf_printf(&answer, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                   body);
        buf_add(&answer, filler, body);
    }
    o.upload_left = 3000000;
    fetcher_start(&o, *opts);
    answer_and_reset(listener, answer.data, answer.len);
    ok(fetcher_wait(&o.ends), "%s ends", opts->method);
    if (body)
        ok(!err_is(&o.e) && o.body.len == body, "an answer before a reset is whole: %s", o.e.msg);
    else
        ok(o.e.code == ERR_UNAVAILABLE && strstr(o.e.msg, "Connection reset by peer"),
           "a reset is told as such: %s", o.e.msg);
    buf_fini(&answer);
    buf_fini(&o.body);
}

static void test_resets(void)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        int port = 0;
        struct sockaddr_un path = {0};
        int listener = listen_raw(tcp ? &port : NULL, &path);
        char *url auto_free = str_printf("http://127.0.0.1:%d/", port);
        const char *unix_socket = tcp ? NULL : path.sun_path;
        struct http_fetch_opts get = {.method = "GET", .url = url, .unix_socket = unix_socket};
        struct http_fetch_opts upload = get;
        upload.method = "POST";
        upload.read_body = read_body;
        upload.body_total = 3000000;
        for (int i = 0; i < 10; i++) {
            check_reset(listener, &get, 0);
            check_reset(listener, &upload, 0);
            // A unix socket holds more than the client reads at once, so it reads twice.
            check_reset(listener, &get, tcp ? 20000 : 140000);
        }
        close(listener);
        if (!tcp)
            unlink(path.sun_path);
    }
}

static void test_closing(void)
{
    struct outcome one = OUTCOME;
    struct outcome two = OUTCOME;
    two.close_client = true;
    fetcher_start(&one, (struct http_fetch_opts){
                            .method = "GET", .url = "http://h/hold", .unix_socket = fetcher.path});
    fetcher_start(&two, (struct http_fetch_opts){.method = "POST",
                                                 .url = "http://h/echo",
                                                 .unix_socket = fetcher.path,
                                                 .body = "x",
                                                 .body_len = 1});
    ok(fetcher_wait(&two.ends) && two.e.code == ERR_CANCELED,
       "closing in a callback ends the caller");
    ok(one.ends == 1 && one.e.code == ERR_CANCELED, "and the others");
    int64_t end = clock_mono_ms() + FETCHER_WAIT_MS;
    while (!two.client_closed && clock_mono_ms() < end)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    ok(two.client_closed && one.ends == 1 && two.ends == 1, "once");
    buf_fini(&two.body);
    fetcher.client = http_client_new(&fetcher.loop);
    struct outcome never = OUTCOME;
    http_client_close(steal(&fetcher.client), fetcher_on_client_closed, &never);
    while (!never.client_closed && clock_mono_ms() < end)
        uv_run(&fetcher.loop, UV_RUN_NOWAIT);
    ok(never.client_closed, "a client that never asked closes, too");
}

static void test_latency(void)
{
    enum { N = 200 };
    int64_t best = INT64_MAX;
    const char *const methods[] = {"GET", "POST"};
    for (int m = 0; m < 2; m++) {
        uint64_t begin = uv_hrtime();
        for (int i = 0; i < N; i++) {
            struct outcome o = OUTCOME;
            o.fetch = http_fetch_start(fetcher.client,
                                       &(struct http_fetch_opts){.method = methods[m],
                                                                 .url = "http://h/echo",
                                                                 .unix_socket = fetcher.path},
                                       &FETCHER_EVENTS, &o);
            fetcher_wait(&o.ends);
            buf_fini(&o.body);
        }
        int64_t us = (int64_t)(uv_hrtime() - begin) / N / 1000;
        printf("# %s over a unix socket, client and server in one process: %d us\n", methods[m],
               (int)us);
        best = us < best ? us : best;
    }
    ok(best < 5000, "a local request takes microseconds");
}

int main(void)
{
    fetcher_open(on_request);
    test_methods();
    test_streams();
    test_ends();
    test_resets();
    test_latency();
    test_closing();
    fetcher_close();
    return tap_done();
}
