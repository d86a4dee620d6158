// SPDX-License-Identifier: Apache-2.0
// Connections that leave HTTP (101), at the server's end and the client's. The peer sends exactly
// what the test says. Interim answers.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_conn.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"

#define WAIT_MS 20000

static uv_loop_t loop;
static char *path;

static bool wait_until(bool (*done)(void))
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!done() && clock_mono_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    return done();
}

static void turns(int n)
{
    while (n-- > 0)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void say(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        printf("# send: %s\n", strerror(errno));
}

// Until `until` is at the end of what came; without it, until the end, which shows as "<end>".
static const char *hear(int fd, const char *until)
{
    static struct buf text;
    buf_clear(&text);
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (clock_mono_ms() < end && !(until && str_ends(buf_str(&text), until))) {
        char piece[65536];
        ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n > 0) {
            buf_add(&text, piece, (size_t)n);
        } else if (n == 0 || errno != EAGAIN) {
            buf_adds(&text, n == 0 ? "<end>" : "<reset>");
            break;
        } else {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
    }
    return buf_str(&text);
}

// ---- the server's end

static struct {
    struct http_server *server;
    struct http_request *req;
    struct buf body;
    bool is_eager; // begins to talk at once
    bool pause;
    bool no_echo;
    int requests, ends, closes, drains;
} srv;

static void on_bytes(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&srv.body, data, len);
    if (!srv.no_echo)
        http_response_write(req, data, len);
    if (srv.pause)
        http_request_pause(req);
}

static void on_bytes_end(struct http_request *req, void *ctx)
{
    (void)ctx;
    (void)req;
    srv.ends++;
}

static void on_close(void *ctx)
{
    (void)ctx;
    srv.closes++;
    srv.req = NULL;
}

static void on_server_drain(void *ctx)
{
    (void)ctx;
    srv.drains++;
}

static void on_request(struct http_request *req, void *ctx)
{
    static const struct http_body_events EVENTS = {.on_data = on_bytes, .on_end = on_bytes_end};
    (void)ctx;
    srv.requests++;
    const char *offer = http_request_upgrade(req);
    if (!offer) {
        http_response_header(req, "Link", "x");
        http_response_interim(req, 103);
        http_respond(req, 200, "text/plain", "plain", 5);
        return;
    }
    srv.req = req;
    http_request_on_close(req, on_close, NULL);
    http_response_on_drain(req, on_server_drain, NULL);
    http_response_header(req, "X-Key", "value");
    http_response_upgrade(req, offer, &EVENTS, NULL);
    if (srv.is_eager)
        http_response_write(req, "eager ", 6);
}

static int dial(void)
{
    buf_fini(&srv.body);
    struct http_server *server = srv.server;
    memset(&srv, 0, sizeof srv);
    srv.server = server;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return fd;
}

static bool server_heard_end(void)
{
    return srv.ends > 0;
}

static bool server_lost(void)
{
    return srv.closes > 0;
}

static bool server_drained(void)
{
    return srv.drains > 0;
}

#define OFFER \
    "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n"
#define SWITCHED                                                                           \
    "HTTP/1.1 101 Switching Protocols\r\nX-Key: value\r\nConnection: Upgrade\r\nUpgrade: " \
    "echo\r\n\r\n"

static void test_server_bytes(void)
{
    int fd = dial();
    say(fd, OFFER "GET / HTTP/1.1\r\n\r\n");
    is_str(hear(fd, "1.1\r\n\r\n"), SWITCHED "GET / HTTP/1.1\r\n\r\n",
           "what came behind the head are bytes, and no further request");
    is_int(srv.requests, 1, "of which there was one");
    say(fd, "more");
    is_str(hear(fd, "more"), "more", "on and on");
    shutdown(fd, SHUT_WR);
    ok(wait_until(server_heard_end) && srv.closes == 0, "the peer shuts its side, and stays");
    http_response_write(srv.req, "late", 4);
    http_response_shut(srv.req);
    is_str(hear(fd, NULL), "late<end>", "the other side goes on, and ends by itself");
    http_response_end(srv.req);
    turns(5);
    is_int(srv.closes, 0, "a regular end");
    close(fd);
}

static void test_server_shuts_first(void)
{
    int fd = dial();
    srv.is_eager = true;
    say(fd, OFFER);
    is_str(hear(fd, "eager "), SWITCHED "eager ", "the server speaks first");
    http_response_shut(srv.req);
    is_str(hear(fd, NULL), "<end>", "and ends first");
    srv.no_echo = true;
    say(fd, "still");
    shutdown(fd, SHUT_WR);
    ok(wait_until(server_heard_end), "the peer's end comes");
    is_str(buf_str(&srv.body), "still", "behind what it still had to say");
    http_response_end(srv.req);
    close(fd);
    turns(5);
}

static void test_server_breaks(void)
{
    int fd = dial();
    say(fd, OFFER "x");
    hear(fd, "x");
    close(fd);
    // Closed is shut first; only writing finds out.
    wait_until(server_heard_end);
    http_response_write(srv.req, "y", 1);
    ok(wait_until(server_lost), "a peer that is gone");
    fd = dial();
    say(fd, OFFER "x");
    hear(fd, "x");
    http_response_abort(srv.req);
    is_str(hear(fd, NULL), "<end>", "the server breaks it off");
    close(fd);
    turns(5);
    fd = dial();
    say(fd, OFFER "x");
    hear(fd, "x");
    http_response_write(srv.req, "last", 4);
    http_response_end(srv.req);
    is_str(hear(fd, NULL), "last<end>", "the server ends all of it");
    close(fd);
    turns(5);
}

static void test_server_flow(void)
{
    int fd = dial();
    srv.no_echo = srv.pause = true;
    say(fd, OFFER);
    hear(fd, "\r\n\r\n");
    size_t sent = 0, block = 60000;
    char *zeros auto_free = xcalloc(1, block);
    for (int quiet = 0; quiet < 200; turns(1)) {
        ssize_t n = send(fd, zeros, block, MSG_DONTWAIT | MSG_NOSIGNAL);
        quiet = n > 0 ? 0 : quiet + 1;
        sent += n > 0 ? (size_t)n : 0;
    }
    ok(srv.body.len <= 2 * 65536 && sent > srv.body.len, "a paused one is not read: %zu of %zu",
       srv.body.len, sent);
    srv.pause = false;
    http_request_resume(srv.req);
    shutdown(fd, SHUT_WR);
    ok(wait_until(server_heard_end) && srv.body.len == sent, "all of it comes in the end");
    while (http_response_write(srv.req, zeros, block))
        ;
    ok(http_response_unsent(srv.req) > LIMIT_STREAM_QUEUE_BYTES, "a full one says stop");
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!server_drained() && clock_mono_ms() < end) {
        char piece[65536];
        if (recv(fd, piece, sizeof piece, MSG_DONTWAIT) == 0)
            break;
        turns(1);
    }
    ok(server_drained(), "and go on");
    close(fd);
    ok(wait_until(server_lost), "it is gone");
}

static void test_server_offers(void)
{
    static const char *const NONE[] = {
        "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n"
        "Content-Length: 2\r\n\r\nab",
    };
    for (size_t i = 0; i < ARRAY_LEN(NONE); i++) {
        int fd = dial();
        say(fd, NONE[i]);
        const char *answer = hear(fd, "plain");
        ok(str_starts(answer, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"),
           "no offer %zu; and an interim answer first", i);
        ok(!strstr(answer + 40, "Link"), "whose header is not the answer's");
        close(fd);
        turns(3);
    }
    int fd = dial();
    say(fd, "GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    ok(str_starts(hear(fd, "plain"), "HTTP/1.1 200"), "HTTP/1.0 has neither");
    close(fd);
    turns(3);
}

// ---- the client's end

static int peer;
static struct http_conn *conn;
static struct {
    int status, interim, ends, shuts, drains, closed;
    struct buf body;
    struct err e;
    bool failed, pause;
} got;

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)headers;
    (void)count;
    (void)ctx;
    got.status = status;
}

static void on_interim(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)ctx;
    got.interim = status;
    is_str(http_header_get(headers, count, "Link"), "y", "the header of an interim answer");
}

static void on_data(const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&got.body, data, len);
    if (got.pause)
        http_conn_pause(conn);
}

static void on_end(const struct err *e, void *ctx)
{
    (void)ctx;
    got.ends++;
    got.failed = e != NULL;
    if (e)
        got.e = *e;
}

static void on_drain(void *ctx)
{
    (void)ctx;
    got.drains++;
}

static void on_shut(void *ctx)
{
    (void)ctx;
    got.shuts++;
}

static void on_conn_closed(struct http_conn *c, void *ctx)
{
    (void)ctx;
    (void)c;
    got.closed++;
    conn = NULL;
}

static bool has_head(void)
{
    return got.status > 0;
}

static bool is_shut(void)
{
    return got.shuts > 0;
}

static bool is_over(void)
{
    return got.ends > 0;
}

static bool is_closed(void)
{
    return got.closed > 0;
}

static bool has_drained(void)
{
    char piece[65536];
    while (recv(peer, piece, sizeof piece, MSG_DONTWAIT) > 0)
        ;
    return got.drains > 0;
}

static void offer(void)
{
    static const struct http_conn_events EVENTS = {.on_head = on_head,
                                                   .on_data = on_data,
                                                   .on_end = on_end,
                                                   .on_drain = on_drain,
                                                   .on_interim = on_interim,
                                                   .on_shut = on_shut};
    static const struct http_header HEADERS[] = {{"Connection", "Upgrade"}, {"Upgrade", "echo"}};
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    uv_pipe_t *pipe = malloc(sizeof *pipe);
    uv_pipe_init(&loop, pipe, 0);
    uv_pipe_open(pipe, fds[0]);
    peer = fds[1];
    buf_fini(&got.body);
    memset(&got, 0, sizeof got);
    conn = http_conn_new((uv_stream_t *)pipe, on_conn_closed, NULL);
    http_conn_call(conn, "GET", "/ws", HEADERS, 2, 0, &EVENTS, NULL);
    is_str(hear(peer, "\r\n\r\n"),
           "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
           "an offer");
}

static void take_offer(void)
{
    offer();
    say(peer, "HTTP/1.1 101 Yes\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nfirst");
    ok(wait_until(has_head) && got.status == 101, "it is taken");
}

static void leave(void)
{
    ok(wait_until(is_closed) && got.ends == 1, "the connection is gone, and the call ended once");
    close(peer);
}

static void test_client_bytes(void)
{
    take_offer();
    is_str(buf_str(&got.body), "first", "what came behind the head");
    http_conn_write(conn, "one", 3);
    http_conn_write(conn, "two", 3);
    is_str(hear(peer, "two"), "onetwo", "bytes, without framing");
    shutdown(peer, SHUT_WR);
    ok(wait_until(is_shut) && !is_over(), "the peer shuts its side");
    http_conn_write(conn, "three", 5);
    http_conn_finish(conn);
    is_str(hear(peer, NULL), "three<end>", "the other goes on until it ends");
    ok(wait_until(is_over) && !got.failed, "then the call has ended well");
    leave();

    take_offer();
    http_conn_finish(conn);
    is_str(hear(peer, NULL), "<end>", "our side ends first");
    say(peer, " and last");
    shutdown(peer, SHUT_WR);
    ok(wait_until(is_over) && !got.failed && got.shuts == 1, "and the peer's behind it");
    is_str(buf_str(&got.body), "first and last", "with what it said");
    leave();
}

static void test_client_flow(void)
{
    take_offer();
    got.pause = true;
    say(peer, "a");
    turns(5);
    say(peer, "b");
    shutdown(peer, SHUT_WR);
    turns(20);
    is_str(buf_str(&got.body), "firsta", "a paused one reads no further");
    is_int(got.shuts, 0, "and has not seen the end");
    got.pause = false;
    http_conn_resume(conn);
    ok(wait_until(is_shut), "it goes on");
    is_str(buf_str(&got.body), "firstab", "to the end");
    char *zeros auto_free = xcalloc(1, 60000);
    while (http_conn_write(conn, zeros, 60000))
        ;
    ok(wait_until(has_drained), "a full one says stop, and go on");
    http_conn_close(conn);
    ok(wait_until(is_over) && got.e.code == ERR_CANCELED, "it is broken off");
    leave();
}

static void test_client_refusals(void)
{
    offer();
    say(peer,
        "HTTP/1.1 103 Hints\r\nLink: y\r\n\r\nHTTP/1.1 426 No\r\nContent-Length: 2\r\n\r\nno");
    ok(wait_until(is_over) && !got.failed && got.status == 426, "an offer that is not taken");
    is_int(got.interim, 103, "an interim answer before it");
    ok(http_conn_is_idle(conn), "the connection can be used again");
    http_conn_close(conn);
    leave();
    take_offer();
    close(peer);
    ok(wait_until(is_shut), "the peer goes");
    http_conn_write(conn, "x", 1);
    ok(wait_until(is_over) && got.failed, "which is noticed when something is sent: %s", got.e.msg);
    peer = -1;
    ok(wait_until(is_closed), "and gone");
}

int main(void)
{
    struct err e = ERR_INIT;
    signal(SIGPIPE, SIG_IGN);
    char dir[] = "/tmp/test-tunnel-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    path = str_printf("%s/s", dir);
    uv_loop_init(&loop);
    srv.server = http_server_new(&loop, &(struct http_server_opts){.on_request = on_request});
    ok(http_server_listen_unix(srv.server, path, 0600, &e) == 0, "listens");
    test_server_bytes();
    test_server_shuts_first();
    test_server_breaks();
    test_server_flow();
    test_server_offers();
    test_client_bytes();
    test_client_flow();
    test_client_refusals();
    http_server_close(srv.server, NULL, NULL);
    buf_fini(&srv.body);
    buf_fini(&got.body);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    ok(rmdir(dir) == 0, "nor in the directory");
    free(path);
    return tap_done();
}
