// SPDX-License-Identifier: Apache-2.0
// The targets of the HTTP client's requests: redirects, allowed addresses, and a dead peer, which
// never gets a second request.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/lib/net/http_fetcher.h"

// ---- the server

static void redirect(struct http_request *req)
{
    http_response_header(req, "Location", http_request_query(req, "to", NULL));
    http_respond(req, 302, "text/plain", "moved", 5);
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    const char *p = http_request_path(req);
    if (str_eq(p, "/redirect")) {
        redirect(req);
    } else if (str_eq(p, "/loop")) {
        http_response_header(req, "Location", "/loop");
        http_respond(req, 302, NULL, NULL, 0);
    } else {
        http_respond(req, 200, NULL, NULL, 0);
    }
}

static char *tcp_url(const char *target)
{
    return str_printf("http://127.0.0.1:%d%s", fetcher.port, target);
}

static void test_redirects(void)
{
    char *url auto_free = tcp_url("/redirect?to=/redirect%3Fto=/echo");
    struct outcome o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = url, .max_redirects = 5});
    char *last auto_free = tcp_url("/echo");
    ok(o.status == 200 && o.heads == 1 && o.body.len == 0, "only the last answer is told");
    is_str(o.url, last, "with its URL");
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = url});
    ok(o.status == 302 && str_eq(buf_str(&o.body), "moved"), "or the first, when none is followed");
    buf_fini(&o.body);
    char *endless auto_free = tcp_url("/loop");
    o = OUTCOME;
    fetcher_fetch(&o,
                  (struct http_fetch_opts){.method = "GET", .url = endless, .max_redirects = 3});
    is_int(o.e.code, ERR_LIMIT, "too many: %s", o.e.msg);
    char *out auto_free = tcp_url("/redirect?to=file:///etc/passwd");
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = out, .max_redirects = 3});
    is_int(o.e.code, ERR_INVALID, "to another scheme: %s", o.e.msg);
}

// The error of a connection that cannot be made. Nothing was sent then.
static void test_no_connection(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(bind(taken, (const struct sockaddr *)&at, len) == 0, "a port where nothing listens");
    getsockname(taken, (struct sockaddr *)&at, &len);
    char *closed auto_free = str_printf("http://127.0.0.1:%d/", ntohs(at.sin_port));
    char *plain auto_free = str_printf("https://127.0.0.1:%d/", fetcher.port);
    char *there auto_free = tcp_url("/");
    const struct {
        const char *url;
        enum err_code code;
        int sent;
    } CASES[] = {{closed, ERR_REFUSED, 0}, {plain, ERR_NOT_TLS, 0}, {there, ERR_NONE, 1}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct outcome o = OUTCOME;
        fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = CASES[i].url});
        is_int(o.e.code, CASES[i].code, "%s: %s", CASES[i].url, o.e.msg);
        is_int(o.sent, CASES[i].sent, "requests that went out");
    }
    close(taken);
}

static bool allow_one(const struct sockaddr *address, void *ctx)
{
    (void)ctx;
    return address->sa_family == AF_INET &&
           ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

static void test_addresses(void)
{
    setenv("http_proxy", "http://127.0.0.2:1", 1);
    char *good auto_free = tcp_url("/echo");
    char *other auto_free = str_printf("http://127.0.0.2:%d/echo", fetcher.port);
    char *hop auto_free = str_printf("http://127.0.0.1:%d/redirect?to=%s", fetcher.port, other);
    struct outcome o = OUTCOME;
    struct http_fetch_opts opts = {.method = "GET", .max_redirects = 3, .allow_address = allow_one};
    opts.url = good;
    fetcher_fetch(&o, opts);
    ok(o.status == 200 && !err_is(&o.e), "an allowed address, and no proxy: %s", o.e.msg);
    unsetenv("http_proxy");
    o = OUTCOME;
    fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = other});
    is_int(o.status, 200, "the other one without rules; its connection is kept");
    o = OUTCOME;
    opts.url = other;
    fetcher_fetch(&o, opts);
    ok(o.e.code == ERR_DENIED && !o.heads, "not with rules: %s", o.e.msg);
    o = OUTCOME;
    opts.url = hop;
    fetcher_fetch(&o, opts);
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
    uv_poll_init(&fetcher.loop, one, fd);
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
    uv_poll_init(&fetcher.loop, &listening, dying.listener);
    uv_poll_start(&listening, UV_READABLE, on_dying_accept);
    char *url auto_free = str_printf("http://127.0.0.1:%d/", ntohs(address.sin_port));
    static const char *const METHODS[] = {"POST", "DELETE", "PUT", "GET"};
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++) {
        dying.requests = dying.answered = 0;
        struct outcome o = OUTCOME;
        fetcher_fetch(&o, (struct http_fetch_opts){.method = "GET", .url = url});
        is_str(buf_str(&o.body), "ok", "the first request fills the pool");
        buf_fini(&o.body);
        o = OUTCOME;
        bool is_get = str_eq(METHODS[i], "GET");
        fetcher_fetch(&o, (struct http_fetch_opts){.method = METHODS[i],
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
        fetcher_fetch(&o, (struct http_fetch_opts){.method = "POST", .url = url});
        ok(!err_is(&o.e) && dying.requests == 1, "POST %d when the last connection is dead: %s", i,
           o.e.msg);
        buf_fini(&o.body);
    }
    uv_close((uv_handle_t *)&listening, NULL);
    close(dying.listener);
    uv_run(&fetcher.loop, UV_RUN_NOWAIT);
}

int main(void)
{
    fetcher_open(on_request);
    test_redirects();
    test_no_connection();
    test_addresses();
    test_never_twice();
    fetcher_close();
    return tap_done();
}
