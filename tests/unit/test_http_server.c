// SPDX-License-Identifier: Apache-2.0
// The HTTP server over a real unix socket: what peers send, what they get, who is told what.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/tap.h"

#define WAIT_MS 30000

static uv_loop_t loop;
static struct http_server *server;
static char *path;
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

static void on_echo(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    http_respond(req, 200, "application/octet-stream", body, len);
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

static void stream_pieces(struct http_request *req)
{
    http_response_header(req, "X-Injected", "a\r\nSet-Cookie: b");
    http_response_begin(req, 200, -1);
    http_response_write(req, "one", 3);
    http_response_write(req, "twotwo", 6);
    http_response_end(req);
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    requests++;
    http_request_on_close(req, on_gone, NULL);
    const char *p = http_request_path(req);
    static const struct http_body_events counting = {on_count, on_count_end};
    if (str_eq(p, "/echo")) {
        http_request_collect(req, 1000, on_echo, NULL);
    } else if (str_eq(p, "/count")) {
        streamed = 0;
        ended = false;
        held = req;
        http_request_stream(req, &counting, NULL);
    } else if (str_eq(p, "/hold")) {
        held = req;
    } else if (str_eq(p, "/pieces")) {
        stream_pieces(req);
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
    } else if (str_eq(p, "/empty")) {
        http_respond(req, 204, NULL, NULL, 0);
    } else if (str_eq(p, "/query")) {
        bool bad;
        const char *v = http_request_query(req, "a b", &bad);
        http_respond(req, 200, "text/plain",
                     bad ? "bad"
                     : v ? v
                         : "none",
                     strlen(bad ? "bad"
                            : v ? v
                                : "none"));
    } else {
        http_respond_error(req, 404, "nothing at %s", p);
    }
}

// ---- the client

static int dial(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return fd;
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void say_n(int fd, const char *data, size_t len)
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (len && clock_mono_ms() < end) {
        ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        data += n < 0 ? 0 : n;
        len -= n < 0 ? 0 : (size_t)n;
        turn();
    }
}

static void say(int fd, const char *s)
{
    say_n(fd, s, strlen(s));
}

// Reads until `until` is at the end of what came, or the connection ends. The answer's Date is cut.
static const char *hear(int fd, const char *until)
{
    static struct buf got;
    buf_clear(&got);
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (clock_mono_ms() < end) {
        char piece[65536];
        ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n == 0)
            break;
        if (n < 0 && errno != EAGAIN) {
            buf_adds(&got, "<reset>");
            break;
        }
        if (n > 0)
            buf_add(&got, piece, (size_t)n);
        if (until && str_ends(buf_str(&got), until))
            break;
        turn();
    }
    char *date;
    while ((date = strstr(got.data ? got.data : "", "Date: "))) {
        size_t at = (size_t)(date - got.data);
        size_t n = strcspn(date, "\n") + 1;
        memmove(date, date + n, got.len - at - n + 1);
        got.len -= n;
    }
    return buf_str(&got);
}

static bool until(const bool *flag, const int *counter, int wanted)
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (clock_mono_ms() < end && !(flag ? *flag : *counter == wanted))
        turn();
    return flag ? *flag : *counter == wanted;
}

static const char *ask(const char *request)
{
    int fd = dial();
    say(fd, request);
    shutdown(fd, SHUT_WR);
    const char *answer = hear(fd, NULL);
    close(fd);
    return answer;
}

static int status_of(const char *answer)
{
    return str_starts(answer, "HTTP/1.1 ") ? atoi(answer + 9) : -1;
}

#define HOST "Host: x\r\n"

// ---- tests

static void test_answers(void)
{
    is_str(ask("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"),
           "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\n"
           "\r\nhello",
           "an answer with a length");
    is_str(ask("GET /pieces HTTP/1.1\r\n" HOST "\r\n"),
           "HTTP/1.1 200 OK\r\nX-Injected: a  Set-Cookie: b\r\nTransfer-Encoding: chunked\r\n"
           "\r\n3\r\none\r\n6\r\ntwotwo\r\n0\r\n\r\n",
           "a chunked answer, and a value cannot end its line");
    is_str(ask("HEAD /pieces HTTP/1.1\r\n" HOST "\r\n"),
           "HTTP/1.1 200 OK\r\nX-Injected: a  Set-Cookie: b\r\nTransfer-Encoding: chunked\r\n\r\n",
           "HEAD of a chunked answer");
    is_str(ask("HEAD /echo HTTP/1.1\r\n" HOST "\r\n"),
           "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 0\r\n\r\n",
           "HEAD of a whole answer");
    is_str(ask("GET /empty HTTP/1.1\r\n" HOST "\r\n"), "HTTP/1.1 204 No Content\r\n\r\n",
           "204 has no length");
    is_str(ask("GET /pieces HTTP/1.0\r\n\r\n"),
           "HTTP/1.1 200 OK\r\nX-Injected: a  Set-Cookie: b\r\nConnection: close\r\n\r\nonetwotwo",
           "HTTP/1.0 gets its body ended by the connection");
    is_str(ask("GET /no/such%20thing HTTP/1.1\r\n" HOST "\r\n"),
           "HTTP/1.1 404 Not Found\r\nX-Content-Type-Options: nosniff\r\nContent-Type: "
           "application/json; charset=utf-8\r\nContent-Length: 50\r\n\r\n"
           "{\"code\":404,\"message\":\"nothing at /no/such thing\"}" +
               0,
           "an error, with the decoded path");
    is_str(ask("POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
               "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"),
           "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\n"
           "\r\nabcde",
           "a chunked request with extension and trailer");
}

static void test_targets(void)
{
    ok(str_ends(ask("GET /query?x=1&a+b=c%20d+e&a%20b=2 HTTP/1.1\r\n" HOST "\r\n"),
                "\r\n\r\nc d e"),
       "a query's names and values are decoded");
    ok(str_ends(ask("GET /query?a%20b HTTP/1.1\r\n" HOST "\r\n"), "Content-Length: 0\r\n\r\n"),
       "a query parameter without a value is empty");
    ok(str_ends(ask("GET /query?a%20bc=1 HTTP/1.1\r\n" HOST "\r\n"), "none"), "an absent one");
    ok(str_ends(ask("GET /query?a%20b=x%00y HTTP/1.1\r\n" HOST "\r\n"), "bad"), "NUL in a value");
    ok(str_ends(ask("GET http://h/query?a%20b=1 HTTP/1.1\r\n" HOST "\r\n"), "\r\n1"),
       "an absolute target");
    is_int(status_of(ask("GET /a%00b HTTP/1.1\r\n" HOST "\r\n")), 400, "NUL in the path");
}

static void test_malformed(void)
{
    static const struct {
        int status;
        const char *what, *request;
    } CASES[] = {
        {400, "both lengths",
         "POST /echo HTTP/1.1\r\n" HOST
         "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "both lengths, the other way",
         "POST /echo HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
        {400, "two lengths",
         "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
        {400, "a list of lengths",
         "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\nabc"},
        {400, "a negative length", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n"},
        {400, "an empty length", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n"},
        {400, "a huge length",
         "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n"},
        {501, "another transfer coding",
         "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {400, "chunked and HTTP/1.0",
         "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "no Host", "GET /empty HTTP/1.1\r\n\r\n"},
        {400, "two Hosts", "GET /empty HTTP/1.1\r\n" HOST HOST "\r\n"},
        {400, "a folded header", "GET /empty HTTP/1.1\r\n" HOST "X-A: b\r\n c\r\n\r\n"},
        {400, "a first header that is folded", "GET /empty HTTP/1.1\r\n " HOST "\r\n"},
        {400, "a blank before the colon", "GET /empty HTTP/1.1\r\nHost : x\r\n\r\n"},
        {400, "a header without a name", "GET /empty HTTP/1.1\r\n" HOST ": x\r\n\r\n"},
        {400, "a header without a colon", "GET /empty HTTP/1.1\r\n" HOST "abc\r\n\r\n"},
        {400, "bare LF", "GET /empty HTTP/1.1\n" HOST "\r\n"},
        {400, "bare LF after a header", "GET /empty HTTP/1.1\r\nHost: x\n\r\n"},
        {400, "bare CR", "GET /empty HTTP/1.1\r\nHost: x\rX-Y: z\r\n\r\n"},
        {400, "a control character", "GET /empty HTTP/1.1\r\n" HOST "X: a\001b\r\n\r\n"},
        {400, "nonsense", "\001\002\003\004\r\n\r\n"},
        {400, "a TLS hello", "\026\003\001\002"},
        {400, "HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        {505, "HTTP/3.7", "GET /empty HTTP/3.7\r\n" HOST "\r\n"},
        {400, "a bad chunk",
         "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
        {413, "a body too large for its taker",
         "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\nabc"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int fd = dial();
        say(fd, CASES[i].request);
        const char *answer = hear(fd, NULL);
        is_int(status_of(answer), CASES[i].status, "%s", CASES[i].what);
        ok(strstr(answer, "Connection: close\r\n") && !strstr(answer + 1, "HTTP/1.1 "),
           "and the connection ends");
        close(fd);
    }
    is_int(status_of(ask("\r\n\r\nGET /empty HTTP/1.1\r\n" HOST "X-Empty:\r\nX-E2: \r\n\r\n")), 204,
           "empty lines in front and empty values are fine");
}

static void test_large_heads(void)
{
    struct buf request auto_buf = BUF_INIT;
    buf_adds(&request, "GET /empty HTTP/1.1\r\n" HOST "X-Long: ");
    while (request.len < LIMIT_HTTP_HEAD_BYTES - 4)
        buf_addc(&request, 'a');
    buf_adds(&request, "\r\n\r\n");
    is_int(status_of(ask(buf_str(&request))), 204, "a head of exactly the limit");
    buf_consume(&request, 0);
    request.data[request.len - 4] = '\0';
    request.len -= 4;
    buf_adds(&request, "a\r\n\r\n");
    is_int(status_of(ask(buf_str(&request))), 431, "a head of one byte more");
    buf_clear(&request);
    buf_adds(&request, "GET /empty HTTP/1.1\r\n" HOST);
    for (int i = 1; i < HTTP_HEADERS_MAX; i++)
        buf_printf(&request, "X-%d: 1\r\n", i);
    size_t len = request.len;
    buf_adds(&request, "\r\n");
    is_int(status_of(ask(buf_str(&request))), 204, "as many headers as there may be");
    request.len = len;
    buf_adds(&request, "X-Last: 1\r\n\r\n");
    is_int(status_of(ask(buf_str(&request))), 431, "one header too many");
}

static void test_split_anywhere(void)
{
    static const char REQUEST[] =
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nwxyz";
    int good = 0;
    for (size_t i = 1; i < sizeof REQUEST - 1; i++) {
        int fd = dial();
        say_n(fd, REQUEST, i);
        turn();
        say(fd, REQUEST + i);
        const char *answer = hear(fd, "wxyz");
        bool fine = strstr(answer, "abc0123456789") && str_ends(answer, "wxyz");
        good += fine;
        if (!fine)
            printf("# split at %zu: %s\n", i, answer);
        close(fd);
    }
    is_int(good, sizeof REQUEST - 2, "two requests split at every byte");
    int fd = dial();
    for (size_t i = 0; i < sizeof REQUEST - 1; i++) {
        say_n(fd, REQUEST + i, 1);
        turn();
    }
    ok(str_ends(hear(fd, "wxyz"), "wxyz"), "and byte by byte");
    close(fd);
}

static void test_keep_alive(void)
{
    int fd = dial();
    int before = requests;
    for (int i = 0; i < 3; i++) {
        say(fd, "GET /empty HTTP/1.1\r\n" HOST "\r\n");
        is_int(status_of(hear(fd, "\r\n\r\n")), 204, "request %d on one connection", i + 1);
    }
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /empty HTTP/1.1\r\n" HOST "\r\n");
    ok(until(NULL, &requests, before + 4), "the first of two pipelined requests came");
    for (int i = 0; i < 20; i++)
        turn();
    is_int(requests, before + 4, "the second waits for the first one's answer");
    http_respond(held, 200, "text/plain", "held", 4);
    ok(strstr(hear(fd, "\r\n\r\n"), "held") != NULL, "then both are answered, in order");
    say(fd, "GET /empty HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    ok(strstr(hear(fd, NULL), "Connection: close") != NULL, "and it closes when asked to");
    close(fd);
}

static void test_bodies_nobody_takes(void)
{
    int fd = dial();
    char body[5000];
    memset(body, 'G', sizeof body);
    say(fd, "POST /empty HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\n");
    is_int(status_of(hear(fd, "\r\n\r\n")), 204, "the answer comes before the body");
    say_n(fd, body, sizeof body);
    say(fd, "GET /empty HTTP/1.1\r\n" HOST "\r\n");
    is_int(status_of(hear(fd, "\r\n\r\n")), 204, "the body was skipped, not taken for a request");
    close(fd);

    fd = dial();
    say(fd, "POST /empty HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n");
    const char *answer = hear(fd, NULL);
    ok(status_of(answer) == 204 && strstr(answer, "Connection: close"),
       "a body too long to skip ends the connection");
    close(fd);

    fd = dial();
    say(fd, "POST /empty HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    is_int(status_of(hear(fd, "\r\n\r\n")), 204, "an endless body is answered");
    struct buf chunk auto_buf = BUF_INIT;
    buf_adds(&chunk, "1388\r\n");
    buf_add(&chunk, body, sizeof body);
    buf_adds(&chunk, "\r\n");
    int64_t end = clock_mono_ms() + WAIT_MS;
    ssize_t n = 0;
    while (clock_mono_ms() < end && (n >= 0 || errno == EAGAIN)) {
        n = send(fd, chunk.data, chunk.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn();
    }
    ok(n < 0 && (errno == EPIPE || errno == ECONNRESET), "and not read for ever");
    close(fd);
}

static void test_expect(void)
{
    int fd = dial();
    say(fd, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    is_str(hear(fd, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n", "told to go on");
    say(fd, "hi");
    ok(str_ends(hear(fd, "hi"), "\r\n\r\nhi"), "and answered");
    close(fd);
    fd = dial();
    say(fd, "POST /empty HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    const char *answer = hear(fd, NULL);
    ok(status_of(answer) == 204 && strstr(answer, "Connection: close"),
       "a final answer instead of 100, and nothing can follow");
    close(fd);
    fd = dial();
    say(fd, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2000\r\n\r\n");
    is_int(status_of(hear(fd, NULL)), 413, "a body that would be refused is not asked for");
    close(fd);
}

static void test_leaving(void)
{
    for (int i = 0; i < 50; i++) // those of earlier tests learn it too
        turn();
    closed = 0;
    held = NULL;
    int fd = dial();
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!held && clock_mono_ms() < end)
        turn();
    ok(held != NULL, "a request is held");
    close(fd);
    ok(until(NULL, &closed, 1), "the handler learns that its peer left");

    fd = dial();
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    while (!held && clock_mono_ms() < end)
        turn();
    http_respond(held, 200, NULL, NULL, 0);
    hear(fd, "\r\n\r\n");
    close(fd);
    for (int i = 0; i < 20; i++)
        turn();
    is_int(closed, 1, "but not after it has answered");
    held = NULL;

    fd = dial();
    say(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab");
    close(fd);
    ok(until(NULL, &closed, 2), "nor is a body cut short taken for a whole one");
}

static void test_broken_answers(void)
{
    int fd = dial();
    say(fd, "GET /abort HTTP/1.1\r\n" HOST "\r\n");
    ok(str_ends(hear(fd, "half\r\n"), "4\r\nhalf\r\n"), "a piece is sent without waiting for more");
    http_response_abort(held);
    held = NULL;
    is_str(hear(fd, NULL), "", "an aborted answer has no last chunk");
    close(fd);
    const char *answer = ask("GET /short HTTP/1.1\r\n" HOST "\r\n");
    ok(!str_ends(answer, "1234567890"), "an answer shorter than declared is broken off");
}

static void test_back_pressure(void)
{
    pump_left = 20 * 1000 * 1000;
    drains = 0;
    int fd = dial();
    say(fd, "GET /pump HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    for (int i = 0; i < 100; i++)
        turn();
    ok(pump_left > 15 * 1000 * 1000, "a reader who does not read stops the writer");
    const char *answer = hear(fd, NULL);
    const char *body = strstr(answer, "\r\n\r\n");
    ok(body && strlen(body) == 20 * 1000 * 1000 + 4, "and gets it all when it does");
    ok(drains > 10, "by and by (%d)", drains);
    close(fd);

    fd = dial();
    streamed = 0;
    say(fd, "POST /count?pause=1 HTTP/1.1\r\n" HOST "Content-Length: 3000000\r\n\r\n");
    static char block[1000000];
    ssize_t sent = 0;
    for (int i = 0; i < 100; i++) {
        ssize_t n = send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? n : 0;
        turn();
    }
    ok(sent < 1000000 && streamed > 0 && streamed < 200000, "a paused body stays in the socket");
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!ended && clock_mono_ms() < end) {
        ssize_t rest =
            3000000 - sent < (ssize_t)sizeof block ? 3000000 - sent : (ssize_t)sizeof block;
        ssize_t n = rest > 0 ? send(fd, block, (size_t)rest, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        sent += n > 0 ? n : 0;
        if (held)
            http_request_resume(held);
        turn();
    }
    held = NULL;
    ok(ended && streamed == 3000000, "and comes as it is resumed");
    ok(str_ends(hear(fd, "3000000"), "3000000"), "to its end");
    close(fd);
}

static void test_limits(void)
{
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = dial();
        say(fds[i], "GET /empty HTTP/1.1\r\n" HOST "\r\n");
        is_int(status_of(hear(fds[i], "\r\n\r\n")), 204, "connection %d", i + 1);
    }
    int more = dial();
    is_int(status_of(hear(more, NULL)), 503, "one connection too many");
    close(more);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    for (int i = 0; i < 20; i++)
        turn();
}

static void on_server_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static void start(const struct http_server_opts *opts)
{
    struct err e = ERR_INIT;
    server = http_server_new(&loop, opts);
    is_int(http_server_listen_unix(server, path, 0600, &e), 0, "listens: %s", e.msg);
}

static void stop(void)
{
    bool done = false;
    http_server_close(server, on_server_closed, &done);
    ok(until(&done, NULL, 0), "the server closes");
}

static void test_lifetime(void)
{
    struct stat st;
    struct err e = ERR_INIT;
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "the socket has its mode");
    struct http_server *second =
        http_server_new(&loop, &(struct http_server_opts){.on_request = on_request});
    is_int(http_server_listen_unix(second, path, 0600, &e), -1, "a live socket is not taken over");
    is_int(e.code, ERR_EXISTS, "and the error says so: %s", e.msg);
    e = ERR_INIT;
    is_int(http_server_listen_tcp(second, "127.0.0.1", 0, &e), 0, "listens on TCP");
    ok(http_server_port(second) > 0, "on a port the kernel chose");
    e = ERR_INIT;
    is_int(http_server_listen_tcp(second, "127.0.0.1", http_server_port(second), &e), -1,
           "a port in use: %s", e.msg);
    bool done = false;
    http_server_close(second, on_server_closed, &done);
    ok(until(&done, NULL, 0), "it closes");

    closed = 0;
    held = NULL;
    int fd = dial();
    say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!held && clock_mono_ms() < end)
        turn();
    stop();
    is_int(closed, 1, "closing tells the handler of a request in progress");
    is_str(hear(fd, NULL), "", "whose peer gets nothing");
    close(fd);
    ok(stat(path, &st) != 0, "the socket is gone");
}

static void test_stale_and_timeouts(void)
{
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    ok(bind(dead, (struct sockaddr *)&address, sizeof address) == 0, "a dead server's socket");
    close(dead);
    start(&(struct http_server_opts){.on_request = on_request,
                                     .max_connections = 4,
                                     .head_timeout_ms = 50,
                                     .idle_timeout_ms = 100});
    int fd = dial();
    say(fd, "GET /empty HTTP/1.1\r\nHo");
    is_int(status_of(hear(fd, NULL)), 408, "a head that does not end");
    close(fd);
    fd = dial();
    is_str(hear(fd, NULL), "", "an idle connection is closed");
    close(fd);
    stop();
    start(&(struct http_server_opts){.on_request = on_request, .max_connections = 4});
    test_limits();
    stop();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    char dir[] = "/tmp/test-http-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    path = str_printf("%s/s", dir);
    uv_loop_init(&loop);
    start(&(struct http_server_opts){.on_request = on_request});
    test_answers();
    test_targets();
    test_malformed();
    test_large_heads();
    test_split_anywhere();
    test_keep_alive();
    test_bodies_nobody_takes();
    test_expect();
    test_leaving();
    test_broken_answers();
    test_back_pressure();
    test_lifetime();
    test_stale_and_timeouts();
    turn();
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    ok(rmdir(dir) == 0, "nor in the directory");
    free(path);
    return tap_done();
}
