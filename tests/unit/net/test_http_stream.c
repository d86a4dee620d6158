// SPDX-License-Identifier: Apache-2.0
// The server's support for server-sent events, over TCP. Pieces leave at once, a peer that leaves
// is noticed at once, and idle streams are cheap. The options of a stream.
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"

#define WAIT_MS      30000
#define PROMPT_TURNS 8 // of the loop, which no timer may be needed for
#define STREAMS      1000
#define HEAD_MS      1000
#define BODY_BYTES   40000 // so many that 40 pieces are fast enough on a slow machine, too
#define STREAM_BYTES 4096  // of memory, at most, for each that is idle

static uv_loop_t loop;
static struct http_server *server;
static struct http_request *held;
static int open_streams;
static int closed;

// ---- the handler

static void on_gone(void *ctx)
{
    (void)ctx;
    closed++;
    open_streams--;
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)body;
    (void)len;
    (void)ctx;
    open_streams++;
    held = req;
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    if (str_eq(http_request_path(req), "/peer")) {
        const char *peer = http_request_peer(req);
        http_respond(req, 200, "text/plain", peer, strlen(peer));
        return;
    }
    http_request_on_close(req, on_gone, NULL);
    if (str_eq(http_request_path(req), "/collect")) {
        http_request_collect(req, BODY_BYTES, on_body, NULL);
        return;
    }
    http_request_collect(req, 0, on_body, NULL); // a stream's request has no body
    http_response_header(req, "Content-Type", "text/event-stream");
    http_response_begin(req, 200, -1);
    http_response_write(req, ": hello\n\n", 9);
}

static void refuse(int status, const char *message, struct buf *body, const char **type)
{
    *type = "application/json";
    buf_printf(body, "{\"error\":{\"status\":%d,\"message\":\"%s\"}}", status, message);
}

// ---- the client

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)http_server_port(server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return fd;
}

static void turns(int n)
{
    for (int i = 0; i < n; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void say(int fd, const char *s)
{
    if (send(fd, s, strlen(s), MSG_NOSIGNAL) != (ssize_t)strlen(s))
        abort();
}

// Return the bytes that have come; with `until`, wait until they end with it.
static const char *hear(int fd, const char *until)
{
    static char got[4096];
    size_t len = 0;
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (clock_mono_ms() < end) {
        ssize_t n = recv(fd, got + len, sizeof got - 1 - len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        len += n > 0 ? (size_t)n : 0;
        got[len] = '\0';
        if (!until || str_ends(got, until))
            break;
        turns(1);
    }
    got[len] = '\0';
    return got;
}

static int open_stream(void)
{
    int fd = dial();
    say(fd, "GET /sse HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n");
    if (!strstr(hear(fd, "hello\n\n\r\n"), ": hello\n\n"))
        abort();
    return fd;
}

enum leaving { LEAVE_CLOSE, LEAVE_HALF, LEAVE_RESET };

static void leave(int fd, enum leaving how)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (how == LEAVE_HALF) {
        shutdown(fd, SHUT_WR);
        return;
    }
    if (how == LEAVE_RESET)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

// ---- tests

// Return whether the server's end of the client's connection sends small segments at once.
static bool server_has_no_delay(int fd)
{
    struct sockaddr_in mine, other;
    socklen_t len = sizeof mine;
    getsockname(fd, (struct sockaddr *)&mine, &len);
    for (int i = 3; i < 64; i++) {
        int on = 0;
        len = sizeof other;
        if (getpeername(i, (struct sockaddr *)&other, &len) != 0 || other.sin_port != mine.sin_port)
            continue;
        len = sizeof on;
        return getsockopt(i, IPPROTO_TCP, TCP_NODELAY, &on, &len) == 0 && on;
    }
    return false;
}

static void test_pieces_leave_at_once(void)
{
    int fd = open_stream();
    ok(server_has_no_delay(fd), "the server does not wait to fill a segment");
    for (int i = 0; i < 3; i++) {
        http_response_write(held, "data: x\n\n", 9);
        turns(1);
        is_str(hear(fd, NULL), "9\r\ndata: x\n\n\r\n", "a piece left with the turn that wrote it");
    }
    http_response_write(held, "data: a\n\n", 9);
    http_response_write(held, "data: b\n\n", 9);
    turns(1);
    is_str(hear(fd, NULL), "9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n", "two of one turn, both");
    close(fd);
    turns(PROMPT_TURNS);
}

static void test_leaving(void)
{
    static const char *const HOW[] = {"closes", "ends its side", "resets"};
    for (enum leaving how = LEAVE_CLOSE; how <= LEAVE_RESET; how++) {
        closed = 0;
        int fd = open_stream();
        leave(fd, how);
        turns(PROMPT_TURNS);
        is_int(closed, 1, "a stream whose peer %s is over at once", HOW[how]);
        if (how == LEAVE_HALF)
            close(fd);

        closed = 0;
        held = NULL;
        fd = dial();
        say(fd, "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
        turns(PROMPT_TURNS);
        ok(held != NULL && closed == 0, "a request waits for its answer");
        leave(fd, how);
        turns(PROMPT_TURNS);
        is_int(closed, 1, "and is over at once when its peer %s", HOW[how]);
        if (how == LEAVE_HALF)
            close(fd);

        closed = 0;
        fd = open_stream();
        say(fd, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n");
        turns(PROMPT_TURNS);
        leave(fd, how);
        turns(PROMPT_TURNS);
        is_int(closed, 1, "even if it had sent its next request when it %s", HOW[how]);
        if (how == LEAVE_HALF)
            close(fd);
    }
    is_int(open_streams, 0, "none is left");
}

static void test_idle_streams_are_cheap(void)
{
    static int fds[STREAMS];
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    fds[0] = open_stream(); // what the first of them makes stays
    size_t before = mallinfo2().uordblks;
    for (int i = 1; i < STREAMS; i++)
        fds[i] = open_stream();
    is_int(open_streams, STREAMS, "%d streams are open", STREAMS);
    size_t each = (mallinfo2().uordblks - before) / (STREAMS - 1);
    ok(each < STREAM_BYTES, "each takes %zu bytes", each);
    closed = 0;
    for (int i = 0; i < STREAMS; i++)
        close(fds[i]);
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (closed < STREAMS && clock_mono_ms() < end)
        turns(1);
    is_int(closed, STREAMS, "and all are over when their peers leave");
}

static void test_options(void)
{
    int fd = dial();
    say(fd, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n");
    ok(str_ends(hear(fd, "127.0.0.1"), "\r\n\r\n127.0.0.1"), "the peer's address");
    close(fd);

    fd = dial();
    char head[300];
    int len = snprintf(head, sizeof head, "GET /peer HTTP/1.1\r\nHost: x\r\nX-Long: %0219d", 0);
    say(fd, head);
    turns(PROMPT_TURNS);
    is_str(hear(fd, NULL), "", "a head of %d bytes may go on", len);
    say(fd, "1");
    const char *answer = hear(fd, "}}");
    ok(str_starts(answer, "HTTP/1.1 431 ") && strstr(answer, "Content-Type: application/json\r\n"),
       "past max_head_bytes the answer is 431");
    ok(str_ends(answer, "{\"error\":{\"status\":431,\"message\":\"the head is too long\"}}"),
       "with the body that the user of the server wants");
    close(fd);

    fd = dial();
    say(fd, "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 40001\r\n\r\n");
    answer = hear(fd, "}}");
    ok(str_starts(answer, "HTTP/1.1 413 ") && strstr(answer, "{\"error\":{\"status\":413"),
       "so is one that refuses a body");
    close(fd);
    turns(PROMPT_TURNS);
}

// A body of BODY_BYTES in pieces of that many; how long it takes until it is whole or refused.
static int64_t drip(int fd, int piece)
{
    int64_t began = clock_mono_ms();
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    say(fd, "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n");
    for (int sent = 0; sent < BODY_BYTES && poll(&answer, 1, 0) == 0; sent += piece) {
        for (int i = 0; i < piece; i++)
            say(fd, "x");
        for (int64_t next = clock_mono_ms() + HEAD_MS / 30; clock_mono_ms() < next;)
            turns(1);
    }
    return clock_mono_ms() - began;
}

static void test_bodies_that_stop(void)
{
    closed = 0;
    int fd = dial();
    say(fd, "POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
    turns(PROMPT_TURNS);
    say(fd, "{");
    ok(str_starts(hear(fd, "}}"), "HTTP/1.1 408 "), "a body that stops");
    close(fd);
    turns(PROMPT_TURNS);
    is_int(closed, 1, "of which the handler learns");

    fd = dial();
    int64_t took = drip(fd, 1);
    ok(took >= HEAD_MS && str_starts(hear(fd, "}}"), "HTTP/1.1 408 "), "a body that drips");
    close(fd);
    turns(PROMPT_TURNS);
    is_int(closed, 2, "is one too");

    held = NULL;
    fd = dial();
    took = drip(fd, BODY_BYTES / 40);
    ok(held && took > HEAD_MS, "one that goes on coming takes its time");
    int64_t began = clock_mono_ms();
    while (clock_mono_ms() - began < HEAD_MS * 3 / 2)
        turns(1);
    is_int(closed, 2, "and once it is whole, the answer may take longer still");
    close(fd);
    turns(PROMPT_TURNS);
    is_int(closed, 3, "until the peer leaves");
}

static void on_server_closed(void *ctx)
{
    *(bool *)ctx = true;
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    uv_loop_init(&loop);
    server = http_server_new(&loop, &(struct http_server_opts){.on_request = on_request,
                                                               .max_connections = STREAMS + 10,
                                                               .max_head_bytes = 256,
                                                               .head_timeout_ms = HEAD_MS,
                                                               .refuse = refuse});
    struct err e = ERR_INIT;
    is_int(http_server_listen_tcp(server, "127.0.0.1", 0, &e), 0, "listens: %s", e.msg);
    test_pieces_leave_at_once();
    test_leaving();
    test_idle_streams_are_cheap();
    test_options();
    test_bodies_that_stop();
    bool done = false;
    http_server_close(server, on_server_closed, &done);
    turns(PROMPT_TURNS);
    ok(done, "the server closes");
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    return tap_done();
}
