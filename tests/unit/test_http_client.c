// SPDX-License-Identifier: Apache-2.0
// The HTTP client against our server and against a peer that dies at the wrong moment.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_client.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/tap.h"

#define WAIT_MS 30000

static uv_loop_t loop;
static struct http_server *server;
static struct http_client *client;
static char *path;
static int port;
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

static void redirect(struct http_request *req)
{
    http_response_header(req, "Location", http_request_query(req, "to", NULL));
    http_respond(req, 302, "text/plain", "moved", 5);
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
    } else if (str_eq(p, "/redirect")) {
        redirect(req);
    } else if (str_eq(p, "/loop")) {
        http_response_header(req, "Location", "/loop");
        http_respond(req, 302, NULL, NULL, 0);
    } else if (str_eq(p, "/half")) {
        http_response_begin(req, 200, 10);
        http_response_write(req, "half", 4);
        http_response_end(req);
    } else if (!str_eq(p, "/hold")) {
        http_respond_error(req, 404, "nothing at %s", p);
    }
}

// ---- the client's side

struct outcome {
    int status, heads, ends;
    struct buf body;
    char url[200], method[20], type[60], custom[20];
    struct err e;
    int pause_every; // refuse each nth piece once
    int pieces;
    size_t upload_left;
    bool upload_pauses;
    bool close_client; // in on_data
    struct outcome *start_other;
    bool client_closed;
    bool denied_loopback2;
    struct http_fetch *fetch;
};

static bool wait_for(const int *counter)
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!*counter && clock_mono_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    return *counter > 0;
}

static void copy_header(char *to, size_t size, const struct http_header *h, size_t n, const char *k)
{
    const char *v = http_header_get(h, n, k);
    snprintf(to, size, "%s", v ? v : "(none)");
}

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    struct outcome *o = ctx;
    o->status = status;
    o->heads++;
    snprintf(o->url, sizeof o->url, "%s", url);
    copy_header(o->method, sizeof o->method, headers, count, "x-method");
    copy_header(o->type, sizeof o->type, headers, count, "x-type");
    copy_header(o->custom, sizeof o->custom, headers, count, "x-custom");
}

static void on_client_closed(void *ctx)
{
    ((struct outcome *)ctx)->client_closed = true;
}

static void on_resume_timer(uv_timer_t *timer)
{
    struct outcome *o = timer->data;
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    if (!o->ends) {
        http_fetch_resume_download(o->fetch);
        http_fetch_resume_upload(o->fetch);
    }
}

static void resume_later(struct outcome *o)
{
    uv_timer_t *timer = malloc(sizeof *timer);
    uv_timer_init(&loop, timer);
    timer->data = o;
    uv_timer_start(timer, on_resume_timer, 1, 0);
}

static const struct http_fetch_events EVENTS;

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct outcome *o = ctx;
    if (o->pause_every && ++o->pieces % o->pause_every == 0) {
        resume_later(o);
        return false;
    }
    buf_add(&o->body, data, len);
    if (o->start_other) {
        struct outcome *other = steal(&o->start_other);
        other->fetch = http_fetch_start(
            client,
            &(struct http_fetch_opts){.method = "GET", .url = "http://h/pump", .unix_socket = path},
            &EVENTS, other);
    }
    if (o->close_client)
        http_client_close(steal(&client), on_client_closed, o);
    return true;
}

static void on_end(const struct err *e, void *ctx)
{
    struct outcome *o = ctx;
    o->ends++;
    if (e)
        o->e = *e;
}

static ssize_t read_body(void *into, size_t room, void *ctx)
{
    struct outcome *o = ctx;
    if (o->upload_pauses && ++o->pieces % 2) {
        resume_later(o);
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

static bool allow_one(const struct sockaddr *address, void *ctx)
{
    (void)ctx;
    return address->sa_family == AF_INET &&
           ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

static const struct http_fetch_events EVENTS = {on_head, on_data, on_end};

static void start(struct outcome *o, struct http_fetch_opts opts)
{
    o->fetch = http_fetch_start(client, &opts, &EVENTS, o);
    is_int(o->ends, 0, "nothing ends within the call");
}

static void fetch(struct outcome *o, struct http_fetch_opts opts)
{
    start(o, opts);
    ok(wait_for(&o->ends), "%s %s ends", opts.method, opts.url);
}

// Headers come one by one in `text`: "200 <url> <body>" or the error's code.
static void over_unix(struct outcome *o, const char *method, const char *target, const char *body)
{
    char *url auto_free = str_printf("http://localhost%s", target);
    fetch(o, (struct http_fetch_opts){.method = method,
                                      .url = url,
                                      .unix_socket = path,
                                      .body = body,
                                      .body_len = body ? strlen(body) : 0});
}

static char *tcp_url(const char *target)
{
    return str_printf("http://127.0.0.1:%d%s", port, target);
}

#define OUTCOME                  \
    (struct outcome)             \
    {                            \
        .e = {.code = ERR_NONE } \
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
    fetch(&o, (struct http_fetch_opts){.method = "POST",
                                       .url = "http://h/echo",
                                       .unix_socket = path,
                                       .headers = headers,
                                       .header_count = 2,
                                       .body = "x\0y",
                                       .body_len = 3});
    ok(str_eq(o.type, "text/x") && o.body.len == 3, "a type and a body of bytes");
    is_str(o.custom, "", "an empty header is sent");
    buf_fini(&o.body);
    const struct http_header evil = {"X", "a\r\nb: c"};
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET",
                                       .url = "http://h/echo",
                                       .unix_socket = path,
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
        fetch(&o, (struct http_fetch_opts){.method = "POST",
                                           .url = "http://h/echo",
                                           .unix_socket = path,
                                           .read_body = read_body,
                                           .body_total = known ? 3000000 : -1});
        ok(o.body.len == 3000000 && str_eq(o.method, "POST"), "an upload, %s, %s",
           known ? "length known" : "chunked", i >= 2 ? "with pauses" : "at once");
        buf_fini(&o.body);
    }
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "PUT",
                                       .url = "http://h/echo",
                                       .unix_socket = path,
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
    start(&o,
          (struct http_fetch_opts){.method = "GET", .url = "http://h/hold", .unix_socket = path});
    for (int i = 0; i < 10; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    server_closes = 0;
    http_fetch_cancel(o.fetch);
    is_int(o.ends, 0, "canceling ends nothing at once");
    ok(wait_for(&o.ends) && o.e.code == ERR_CANCELED, "but soon");
    ok(wait_for(&server_closes), "and the server learns it");
    o = OUTCOME;
    start(&o,
          (struct http_fetch_opts){.method = "GET", .url = "http://h/echo", .unix_socket = path});
    http_fetch_cancel(o.fetch);
    ok(wait_for(&o.ends) && o.e.code == ERR_CANCELED, "canceled before it began");
    struct outcome other = OUTCOME;
    o = OUTCOME;
    o.start_other = &other;
    over_unix(&o, "POST", "/echo", "x");
    ok(wait_for(&other.ends) && !err_is(&other.e) && other.body.len == 10000000,
       "a request made in a callback of another");
    buf_fini(&o.body);
    buf_fini(&other.body);
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET",
                                       .url = "http://h/hold",
                                       .unix_socket = path,
                                       .total_timeout_ms = 30});
    is_int(o.e.code, ERR_TIMEOUT, "too slow: %s", o.e.msg);
    o = OUTCOME;
    fetch(&o,
          (struct http_fetch_opts){.method = "GET", .url = "http://h/", .unix_socket = "/nope"});
    ok(o.e.code == ERR_UNAVAILABLE && o.e.sys == ENOENT, "no socket: %d %s", o.e.sys, o.e.msg);
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = "not a url"});
    is_int(o.e.code, ERR_INVALID, "no URL: %s", o.e.msg);
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = "file:///etc/passwd"});
    is_int(o.e.code, ERR_INVALID, "another scheme: %s", o.e.msg);
}

static void test_redirects(void)
{
    char *url auto_free = tcp_url("/redirect?to=/redirect%3Fto=/echo");
    struct outcome o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = url, .max_redirects = 5});
    char *last auto_free = tcp_url("/echo");
    ok(o.status == 200 && o.heads == 1 && o.body.len == 0, "only the last answer is told");
    is_str(o.url, last, "with its URL");
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = url});
    ok(o.status == 302 && str_eq(buf_str(&o.body), "moved"), "or the first, when none is followed");
    buf_fini(&o.body);
    char *endless auto_free = tcp_url("/loop");
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = endless, .max_redirects = 3});
    is_int(o.e.code, ERR_LIMIT, "too many: %s", o.e.msg);
    char *out auto_free = tcp_url("/redirect?to=file:///etc/passwd");
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = out, .max_redirects = 3});
    is_int(o.e.code, ERR_INVALID, "to another scheme: %s", o.e.msg);
}

static void test_addresses(void)
{
    setenv("http_proxy", "http://127.0.0.2:1", 1);
    char *good auto_free = tcp_url("/echo");
    char *other auto_free = str_printf("http://127.0.0.2:%d/echo", port);
    char *hop auto_free = str_printf("http://127.0.0.1:%d/redirect?to=%s", port, other);
    struct outcome o = OUTCOME;
    struct http_fetch_opts opts = {.method = "GET", .max_redirects = 3, .allow_address = allow_one};
    opts.url = good;
    fetch(&o, opts);
    ok(o.status == 200 && !err_is(&o.e), "an allowed address, and no proxy: %s", o.e.msg);
    unsetenv("http_proxy");
    o = OUTCOME;
    fetch(&o, (struct http_fetch_opts){.method = "GET", .url = other});
    is_int(o.status, 200, "the other one without rules; its connection is kept");
    o = OUTCOME;
    opts.url = other;
    fetch(&o, opts);
    ok(o.e.code == ERR_DENIED && !o.heads, "not with rules: %s", o.e.msg);
    o = OUTCOME;
    opts.url = hop;
    fetch(&o, opts);
    ok(o.e.code == ERR_DENIED && !o.heads, "nor after a redirect: %s", o.e.msg);
}

// ---- a peer that dies

static struct {
    int listener, requests, answered;
    bool dies_idle; // right after the answer
} dying;

static void drop_poll(uv_poll_t *poll)
{
    uv_os_fd_t fd;
    uv_fileno((uv_handle_t *)poll, &fd);
    uv_close((uv_handle_t *)poll, (uv_close_cb)free);
    close(fd);
}

static void on_dying_read(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_os_fd_t fd;
    uv_fileno((uv_handle_t *)poll, &fd);
    char request[4096];
    ssize_t n = recv(fd, request, sizeof request, 0);
    if (n <= 0) {
        drop_poll(poll);
        return;
    }
    dying.requests++;
    static const char ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (dying.answered++ == 0 || dying.dies_idle)
        send(fd, ANSWER, sizeof ANSWER - 1, MSG_NOSIGNAL);
    if (dying.answered > 1 || dying.dies_idle)
        drop_poll(poll); // unanswered, it was carried out, and nobody will ever hear of it
}

static void on_dying_accept(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
    int fd = accept(dying.listener, NULL, NULL);
    uv_poll_t *one = malloc(sizeof *one);
    uv_poll_init(&loop, one, fd);
    uv_poll_start(one, UV_READABLE, on_dying_read);
}

static void test_never_twice(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    dying.listener = socket(AF_INET, SOCK_STREAM, 0);
    ok(bind(dying.listener, (struct sockaddr *)&address, len) == 0 &&
           listen(dying.listener, 5) == 0 &&
           getsockname(dying.listener, (struct sockaddr *)&address, &len) == 0,
       "a peer");
    uv_poll_t listening;
    uv_poll_init(&loop, &listening, dying.listener);
    uv_poll_start(&listening, UV_READABLE, on_dying_accept);
    char *url auto_free = str_printf("http://127.0.0.1:%d/", ntohs(address.sin_port));
    static const char *const METHODS[] = {"POST", "DELETE", "PUT", "GET"};
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++) {
        dying.requests = dying.answered = 0;
        struct outcome o = OUTCOME;
        fetch(&o, (struct http_fetch_opts){.method = "GET", .url = url});
        is_str(buf_str(&o.body), "ok", "the first request fills the pool");
        buf_fini(&o.body);
        o = OUTCOME;
        bool is_get = str_eq(METHODS[i], "GET");
        fetch(&o, (struct http_fetch_opts){.method = METHODS[i],
                                           .url = url,
                                           .body = i == 0 ? "b" : NULL,
                                           .body_len = i == 0});
        is_int(o.e.code, ERR_UNAVAILABLE, "a connection from the pool dies: %s", o.e.msg);
        is_int(dying.requests, is_get ? 3 : 2, "%s is %s", METHODS[i],
               is_get ? "repeated" : "not repeated");
    }
    dying.dies_idle = true;
    for (int i = 0; i < 20; i++) {
        dying.requests = 0;
        struct outcome o = OUTCOME;
        fetch(&o, (struct http_fetch_opts){.method = "POST", .url = url});
        ok(!err_is(&o.e) && dying.requests == 1, "POST %d when the last connection is dead: %s", i,
           o.e.msg);
        buf_fini(&o.body);
    }
    uv_close((uv_handle_t *)&listening, NULL);
    close(dying.listener);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void test_closing(void)
{
    struct outcome one = OUTCOME;
    struct outcome two = OUTCOME;
    two.close_client = true;
    start(&one,
          (struct http_fetch_opts){.method = "GET", .url = "http://h/hold", .unix_socket = path});
    start(&two, (struct http_fetch_opts){.method = "POST",
                                         .url = "http://h/echo",
                                         .unix_socket = path,
                                         .body = "x",
                                         .body_len = 1});
    ok(wait_for(&two.ends) && two.e.code == ERR_CANCELED, "closing in a callback ends the caller");
    ok(one.ends == 1 && one.e.code == ERR_CANCELED, "and the others");
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!two.client_closed && clock_mono_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    ok(two.client_closed && one.ends == 1 && two.ends == 1, "once");
    buf_fini(&two.body);
    client = http_client_new(&loop);
    struct outcome never = OUTCOME;
    http_client_close(client, on_client_closed, &never);
    while (!never.client_closed && clock_mono_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
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
            o.fetch = http_fetch_start(client,
                                       &(struct http_fetch_opts){.method = methods[m],
                                                                 .url = "http://h/echo",
                                                                 .unix_socket = path},
                                       &EVENTS, &o);
            wait_for(&o.ends);
            buf_fini(&o.body);
        }
        int64_t us = (int64_t)(uv_hrtime() - begin) / N / 1000;
        printf("# %s over a unix socket, client and server in one process: %d us\n", methods[m],
               (int)us);
        best = us < best ? us : best;
    }
    ok(best < 5000, "a local request takes microseconds");
}

static void on_server_closed(void *ctx)
{
    *(int *)ctx = 1;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    char dir[] = "/tmp/test-client-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    path = str_printf("%s/s", dir);
    uv_loop_init(&loop);
    server = http_server_new(&loop, &(struct http_server_opts){.on_request = on_request});
    struct err e = ERR_INIT;
    ok(http_server_listen_unix(server, path, 0600, &e) == 0 &&
           http_server_listen_tcp(server, "0.0.0.0", 0, &e) == 0,
       "a server");
    port = http_server_port(server);
    client = http_client_new(&loop);
    test_methods();
    test_streams();
    test_ends();
    test_redirects();
    test_addresses();
    test_never_twice();
    test_latency();
    test_closing();
    int done = 0;
    http_server_close(server, on_server_closed, &done);
    ok(wait_for(&done), "the server closes");
    for (int i = 0; i < 50; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    ok(rmdir(dir) == 0, "nor in the directory");
    free(path);
    return tap_done();
}
