// SPDX-License-Identifier: Apache-2.0
// The HTTP server's connections: kept, left by the peer, held back, limited and closed, and the
// events about it.
#include <sys/stat.h>

#include "tests/lib/net/http_peer.h"

static struct http_request *held; // by /hold
static int closed;                // on_close calls
static int drains;
static int requests;
static size_t streamed;
static bool ended;

// ---- the handler

static void on_gone(void *ctx)
{
    (void)ctx;
    closed++;
    held = NULL;
}

static void on_count(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)data;
    (void)ctx;
    streamed += len;
    if (str_eq(http_request_query(req, "pause", NULL), "1"))
        http_request_pause(req);
}

static void on_count_end(struct http_request *req, void *ctx)
{
    (void)ctx;
    ended = true;
    char text[40];
    snprintf(text, sizeof text, "%zu", streamed);
    http_respond(req, 200, "text/plain", text, strlen(text));
}

static size_t pump_left;

static void pump(void *ctx)
{
    struct http_request *req = ctx;
    static char block[50000];
    memset(block, 'x', sizeof block);
    drains++;
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
    requests++;
    http_request_on_close(req, on_gone, NULL);
    const char *p = http_request_path(req);
    static const struct http_body_events counting = {on_count, on_count_end};
    if (str_eq(p, "/count")) {
        streamed = 0;
        ended = false;
        held = req;
        http_request_stream(req, &counting, NULL);
    } else if (str_eq(p, "/hold")) {
        held = req;
    } else if (str_eq(p, "/pump")) {
        http_response_on_drain(req, pump, req);
        http_response_begin(req, 200, (int64_t)pump_left);
        pump(req);
    } else if (str_eq(p, "/short")) {
        http_response_begin(req, 200, 10);
        http_response_write(req, "1234", 4);
        http_response_end(req);
    } else if (str_eq(p, "/abort")) {
        http_response_begin(req, 200, -1);
        http_response_write(req, "half", 4);
        held = req;
    } else {
        peer_answer(req);
    }
}

// ---- tests

static void test_keep_alive(void)
{
    int fd = peer_dial();
    int before = requests;
    for (int i = 0; i < 3; i++) {
        peer_say(fd, "GET /empty HTTP/1.1\r\n" PEER_HOST "\r\n");
        is_int(peer_status_of(peer_hear(fd, "\r\n\r\n")), 204, "request %d on one connection",
               i + 1);
    }
    peer_say(fd, "GET /hold HTTP/1.1\r\n" PEER_HOST "\r\nGET /empty HTTP/1.1\r\n" PEER_HOST "\r\n");
    ok(peer_until(NULL, &requests, before + 4), "the first of two pipelined requests came");
    for (int i = 0; i < 20; i++)
        peer_turn();
    is_int(requests, before + 4, "the second waits for the first one's answer");
    http_respond(held, 200, "text/plain", "held", 4);
    ok(strstr(peer_hear(fd, "\r\n\r\n"), "held") != NULL, "then both are answered, in order");
    peer_say(fd, "GET /empty HTTP/1.1\r\n" PEER_HOST "Connection: close\r\n\r\n");
    ok(strstr(peer_hear(fd, NULL), "Connection: close") != NULL, "and it closes when asked to");
    close(fd);
}

static void test_bodies_nobody_takes(void)
{
    int fd = peer_dial();
    char body[5000];
    memset(body, 'G', sizeof body);
    peer_say(fd, "POST /empty HTTP/1.1\r\n" PEER_HOST "Content-Length: 5000\r\n\r\n");
    is_int(peer_status_of(peer_hear(fd, "\r\n\r\n")), 204, "the answer comes before the body");
    peer_say_n(fd, body, sizeof body);
    peer_say(fd, "GET /empty HTTP/1.1\r\n" PEER_HOST "\r\n");
    is_int(peer_status_of(peer_hear(fd, "\r\n\r\n")), 204,
           "the body was skipped, not taken for a request");
    close(fd);

    fd = peer_dial();
    peer_say(fd, "POST /empty HTTP/1.1\r\n" PEER_HOST "Content-Length: 99999999\r\n\r\n");
    const char *answer = peer_hear(fd, NULL);
    ok(peer_status_of(answer) == 204 && strstr(answer, "Connection: close"),
       "a body too long to skip ends the connection");
    close(fd);

    fd = peer_dial();
    peer_say(fd, "POST /empty HTTP/1.1\r\n" PEER_HOST "Transfer-Encoding: chunked\r\n\r\n");
    is_int(peer_status_of(peer_hear(fd, "\r\n\r\n")), 204, "an endless body is answered");
    struct buf chunk auto_buf = BUF_INIT;
    buf_adds(&chunk, "1388\r\n");
    buf_add(&chunk, body, sizeof body);
    buf_adds(&chunk, "\r\n");
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    ssize_t n = 0;
    while (clock_mono_ms() < end && (n >= 0 || errno == EAGAIN)) {
        n = send(fd, chunk.data, chunk.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        peer_turn();
    }
    ok(n < 0 && (errno == EPIPE || errno == ECONNRESET), "and not read for ever");
    close(fd);
}

static void test_expect(void)
{
    int fd = peer_dial();
    peer_say(fd, "POST /echo HTTP/1.1\r\n" PEER_HOST
                 "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    is_str(peer_hear(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n", "told to go on");
    peer_say(fd, "hi");
    ok(str_ends(peer_hear(fd, "hi"), "\r\n\r\nhi"), "and answered");
    close(fd);
    fd = peer_dial();
    peer_say(fd, "POST /empty HTTP/1.1\r\n" PEER_HOST
                 "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    const char *answer = peer_hear(fd, NULL);
    ok(peer_status_of(answer) == 204 && strstr(answer, "Connection: close"),
       "a final answer instead of 100, and nothing can follow");
    close(fd);
    fd = peer_dial();
    peer_say(fd, "POST /echo HTTP/1.1\r\n" PEER_HOST
                 "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n");
    is_int(peer_status_of(peer_hear(fd, NULL)), 413,
           "a body that would be refused is not asked for");
    close(fd);
}

// A connection whose request the handler holds.
static int dial_and_hold(void)
{
    held = NULL;
    int fd = peer_dial();
    peer_say(fd, "GET /hold HTTP/1.1\r\n" PEER_HOST "\r\n");
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (!held && clock_mono_ms() < end)
        peer_turn();
    return fd;
}

static void test_leaving(void)
{
    for (int i = 0; i < 50; i++) // those of earlier tests learn it too
        peer_turn();
    closed = 0;
    int fd = dial_and_hold();
    ok(held != NULL, "a request is held");
    close(fd);
    ok(peer_until(NULL, &closed, 1), "the handler learns that its peer left");

    fd = dial_and_hold();
    http_respond(held, 200, NULL, NULL, 0);
    peer_hear(fd, "\r\n\r\n");
    close(fd);
    for (int i = 0; i < 20; i++)
        peer_turn();
    is_int(closed, 1, "but not after it has answered");
    held = NULL;

    fd = peer_dial();
    peer_say(fd, "POST /echo HTTP/1.1\r\n" PEER_HOST "Content-Length: 5\r\n\r\nab");
    close(fd);
    ok(peer_until(NULL, &closed, 2), "nor is a body cut short taken for a whole one");
}

static void test_broken_answers(void)
{
    int fd = peer_dial();
    peer_say(fd, "GET /abort HTTP/1.1\r\n" PEER_HOST "\r\n");
    ok(str_ends(peer_hear(fd, "half\r\n"), "4\r\nhalf\r\n"),
       "a piece is sent without waiting for more");
    http_response_abort(held);
    held = NULL;
    is_str(peer_hear(fd, NULL), "", "an aborted answer has no last chunk");
    close(fd);
    const char *answer = peer_ask("GET /short HTTP/1.1\r\n" PEER_HOST "\r\n");
    ok(!str_ends(answer, "1234567890"), "an answer shorter than declared is broken off");
}

static void test_back_pressure(void)
{
    pump_left = 20 * 1000 * 1000;
    drains = 0;
    int fd = peer_dial();
    peer_say(fd, "GET /pump HTTP/1.1\r\n" PEER_HOST "Connection: close\r\n\r\n");
    for (int i = 0; i < 100; i++)
        peer_turn();
    ok(pump_left > 15 * 1000 * 1000, "a reader who does not read stops the writer");
    const char *answer = peer_hear(fd, NULL);
    const char *body = strstr(answer, "\r\n\r\n");
    ok(body && strlen(body) == 20 * 1000 * 1000 + 4, "and gets it all when it does");
    ok(drains > 10, "by and by (%d)", drains);
    close(fd);

    fd = peer_dial();
    streamed = 0;
    peer_say(fd, "POST /count?pause=1 HTTP/1.1\r\n" PEER_HOST "Content-Length: 3000000\r\n\r\n");
    static char block[1000000];
    ssize_t sent = 0;
    for (int i = 0; i < 100; i++) {
        ssize_t n = send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? n : 0;
        peer_turn();
    }
    ok(sent < 1000000 && streamed > 0 && streamed < 200000, "a paused body stays in the socket");
    int64_t end = clock_mono_ms() + PEER_WAIT_MS;
    while (!ended && clock_mono_ms() < end) {
        ssize_t rest =
            3000000 - sent < (ssize_t)sizeof block ? 3000000 - sent : (ssize_t)sizeof block;
        ssize_t n = rest > 0 ? send(fd, block, (size_t)rest, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        sent += n > 0 ? n : 0;
        if (held)
            http_request_resume(held);
        peer_turn();
    }
    held = NULL;
    ok(ended && streamed == 3000000, "and comes as it is resumed");
    ok(str_ends(peer_hear(fd, "3000000"), "3000000"), "to its end");
    close(fd);
}

static void test_limits(void)
{
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = peer_dial();
        peer_say(fds[i], "GET /empty HTTP/1.1\r\n" PEER_HOST "\r\n");
        is_int(peer_status_of(peer_hear(fds[i], "\r\n\r\n")), 204, "connection %d", i + 1);
    }
    int more = peer_dial();
    is_int(peer_status_of(peer_hear(more, NULL)), 503, "one connection too many");
    close(more);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    for (int i = 0; i < 20; i++)
        peer_turn();
}

static void test_lifetime(void)
{
    struct stat st;
    struct err e = ERR_INIT;
    ok(stat(peer.path, &st) == 0 && (st.st_mode & 0777) == 0600, "the socket has its mode");
    struct http_server *second =
        http_server_new(&peer.loop, &(struct http_server_opts){.on_request = on_request});
    is_int(http_server_listen_unix(second, peer.path, 0600, &e), -1,
           "a live socket is not taken over");
    is_int(e.code, ERR_EXISTS, "and the error says so: %s", e.msg);
    e = ERR_INIT;
    is_int(http_server_listen_tcp(second, "127.0.0.1", 0, &e), 0, "listens on TCP");
    ok(http_server_port(second) > 0, "on a port the kernel chose");
    e = ERR_INIT;
    is_int(http_server_listen_tcp(second, "127.0.0.1", http_server_port(second), &e), -1,
           "a port in use: %s", e.msg);
    bool done = false;
    http_server_close(second, peer_on_closed, &done);
    ok(peer_until(&done, NULL, 0), "it closes");

    closed = 0;
    int fd = dial_and_hold();
    peer_stop();
    is_int(closed, 1, "closing tells the handler of a request in progress");
    is_str(peer_hear(fd, NULL), "", "whose peer gets nothing");
    close(fd);
    ok(stat(peer.path, &st) != 0, "the socket is gone");
}

static void test_stale_and_timeouts(void)
{
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", peer.path);
    ok(bind(dead, (struct sockaddr *)&address, sizeof address) == 0, "a dead server's socket");
    close(dead);
    peer_listen(&(struct http_server_opts){.on_request = on_request,
                                           .max_connections = 4,
                                           .head_timeout_ms = 50,
                                           .idle_timeout_ms = 100});
    int fd = peer_dial();
    peer_say(fd, "GET /empty HTTP/1.1\r\nHo");
    is_int(peer_status_of(peer_hear(fd, NULL)), 408, "a head that does not end");
    close(fd);
    fd = peer_dial();
    is_str(peer_hear(fd, NULL), "", "an idle connection is closed");
    close(fd);
    peer_stop();
    peer_listen(&(struct http_server_opts){.on_request = on_request, .max_connections = 4});
    test_limits();
    peer_stop();
}

int main(void)
{
    peer_open(&(struct http_server_opts){.on_request = on_request});
    test_keep_alive();
    test_bodies_nobody_takes();
    test_expect();
    test_leaving();
    test_broken_answers();
    test_back_pressure();
    test_lifetime();
    test_stale_and_timeouts();
    peer_close();
    return tap_done();
}
