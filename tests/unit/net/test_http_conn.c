// SPDX-License-Identifier: Apache-2.0
// The client end of a connection, against a peer that sends exactly what the test says; and the
// ways to connect to one.
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
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_conn.h"
#include "sandbox-backend/net/unix_stream.h"
#include "tests/lib/harness/tap.h"

#define WAIT_MS 30000

static uv_loop_t loop;
static int peer; // the other end
static struct http_conn *conn;
static bool conn_closed;

static struct {
    int status, heads, ends, drains;
    struct buf body;
    struct err e;
    bool failed;
    bool idle; // at the end
    bool pause_each;
    bool close_at_trailers;
    char header[64];
} got;

static bool wait_until(bool (*done)(void))
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!done() && clock_mono_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    return done();
}

static bool is_over(void)
{
    return got.ends > 0;
}

static bool is_closed(void)
{
    return conn_closed;
}

static void turns(int n)
{
    while (n-- > 0)
        uv_run(&loop, UV_RUN_NOWAIT);
}

// ---- events

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)ctx;
    got.status = status;
    got.heads++;
    const char *value = http_header_get(headers, count, "x-one");
    snprintf(got.header, sizeof got.header, "%s", value ? value : "");
}

static void on_data(const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&got.body, data, len);
    if (got.pause_each)
        http_conn_pause(conn);
}

static void on_end(const struct err *e, void *ctx)
{
    (void)ctx;
    got.ends++;
    got.failed = e != NULL;
    got.idle = http_conn_is_idle(conn);
    if (e)
        got.e = *e;
}

static void on_trailers(const struct http_header *trailers, size_t count, void *ctx)
{
    (void)trailers;
    (void)count;
    (void)ctx;
    if (got.close_at_trailers)
        http_conn_close(conn);
}

static void on_drain(void *ctx)
{
    (void)ctx;
    got.drains++;
}

static const struct http_conn_events EVENTS = {.on_head = on_head,
                                               .on_data = on_data,
                                               .on_trailers = on_trailers,
                                               .on_end = on_end,
                                               .on_drain = on_drain};

static void on_conn_closed(struct http_conn *c, void *ctx)
{
    (void)ctx;
    ok(c == conn, "the right connection is gone");
    conn_closed = true;
    conn = NULL;
}

// ---- the peer

static void open_conn(void)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    uv_pipe_t *pipe = malloc(sizeof *pipe);
    uv_pipe_init(&loop, pipe, 0);
    uv_pipe_open(pipe, fds[0]);
    peer = fds[1];
    conn_closed = false;
    conn = http_conn_new((uv_stream_t *)pipe, on_conn_closed, NULL);
}

static void close_conn(void)
{
    if (conn)
        http_conn_close(conn);
    wait_until(is_closed);
    close(peer);
}

static void call(const char *method, int64_t length)
{
    buf_fini(&got.body);
    memset(&got, 0, sizeof got);
    static const struct http_header headers[] = {{"X-A", "b"}, {"Content-Length", "77"}};
    http_conn_call(conn, method, "/x?y", headers, 2, length, &EVENTS, NULL);
    is_int(got.ends, 0, "nothing ends within the call");
}

static void answer(const char *text)
{
    if (send(peer, text, strlen(text), MSG_NOSIGNAL) < 0)
        printf("# send: %s\n", strerror(errno));
}

static const char *heard(const char *until)
{
    static struct buf text;
    buf_clear(&text);
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (clock_mono_ms() < end && !(until && str_ends(buf_str(&text), until))) {
        char piece[65536];
        ssize_t n = recv(peer, piece, sizeof piece, MSG_DONTWAIT);
        if (n > 0)
            buf_add(&text, piece, (size_t)n);
        else if (n == 0 || errno != EAGAIN)
            break;
        else
            uv_run(&loop, UV_RUN_NOWAIT);
    }
    return buf_str(&text);
}

// ---- tests

static void test_calls(void)
{
    open_conn();
    call("GET", 0);
    is_str(heard("\r\n\r\n"), "GET /x?y HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n\r\n",
           "a request without a body");
    answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX-One: 0\r\n\r\n"
           "HTTP/1.1 200 OK\r\nX-One:  1 \r\nContent-Length: 5\r\n\r\nhe");
    turns(5);
    ok(!is_over() && got.heads == 1, "an answer half come, after two interim ones");
    answer("llo");
    ok(wait_until(is_over) && !got.failed, "it ends");
    is_str(buf_str(&got.body), "hello", "its body");
    is_str(got.header, "1", "its header");
    ok(http_conn_is_idle(conn), "the connection can be used again");

    call("POST", 5);
    http_conn_write(conn, "ab", 2);
    http_conn_write(conn, "cde", 3);
    http_conn_finish(conn);
    is_str(heard("cde"),
           "POST /x?y HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\nContent-Length: 5\r\n"
           "\r\nabcde",
           "a request with a length");
    answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    ok(wait_until(is_over) && !got.failed && str_eq(buf_str(&got.body), "abc"), "chunked answer");

    call("POST", -1);
    http_conn_write(conn, "ab", 2);
    turns(3);
    http_conn_write(conn, "cde", 3);
    http_conn_finish(conn);
    ok(str_ends(heard("0\r\n\r\n"), "chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"),
       "a chunked request");
    answer("HTTP/1.1 204 No Content\r\n\r\n");
    ok(wait_until(is_over) && got.status == 204, "204 has no body");

    call("HEAD", 0);
    heard("\r\n\r\n");
    answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
    ok(wait_until(is_over) && !got.failed, "HEAD has none either");
    call("GET", 0);
    heard("\r\n\r\n");
    answer("HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n");
    ok(wait_until(is_over) && got.idle, "nor has 304");
    close_conn();
}

static void test_closed_by_peer(void)
{
    open_conn();
    close(peer);
    ok(wait_until(is_closed), "the peer closes while idle");

    open_conn();
    call("GET", 0);
    heard("\r\n\r\n");
    answer("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    turns(3);
    close(peer);
    ok(wait_until(is_over) && !got.failed, "an answer ended by the connection");
    is_str(buf_str(&got.body), "until the end", "its body");
    ok(wait_until(is_closed), "and the connection is gone");

    open_conn();
    call("GET", 0);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort");
    close(peer);
    ok(wait_until(is_over) && got.failed && got.e.code == ERR_UNAVAILABLE, "cut short: %s",
       got.e.msg);
    ok(wait_until(is_closed), "and gone");

    open_conn();
    call("GET", 0);
    close(peer);
    ok(wait_until(is_over) && got.e.code == ERR_UNAVAILABLE, "no answer: %s", got.e.msg);
    ok(wait_until(is_closed), "and gone");
}

static void test_closed_by_caller(void)
{
    open_conn();
    call("GET", 0);
    http_conn_close(conn);
    is_int(got.ends, 0, "closing ends no call at once");
    ok(wait_until(is_over) && got.e.code == ERR_CANCELED, "but soon: %s", got.e.msg);
    ok(wait_until(is_closed) && got.ends == 1, "once");
    close(peer);

    open_conn();
    call("GET", 0);
    got.close_at_trailers = true;
    answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n");
    ok(wait_until(is_over) && got.e.code == ERR_CANCELED && !got.idle, "closed by its trailers: %s",
       got.e.msg);
    ok(wait_until(is_closed) && got.ends == 1, "and gone");
    close(peer);
}

static void test_closed_by_answer(void)
{
    open_conn();
    answer("HTTP/1.1 200 OK\r\n\r\n");
    ok(wait_until(is_closed), "bytes nobody asked for end the connection");
    close(peer);

    open_conn();
    call("GET", 0);
    answer("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    ok(wait_until(is_over) && !got.failed, "an answer with Connection: close");
    ok(wait_until(is_closed), "after which it is closed");
    close(peer);

    open_conn();
    call("GET", 0);
    answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n");
    ok(wait_until(is_over) && !got.failed, "an answer too many");
    ok(wait_until(is_closed), "is not kept for the next call");
    close(peer);
}

static void test_hostile(void)
{
    static const char *const BAD[] = {
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 99 Low\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        open_conn();
        call("GET", 0);
        answer(BAD[i]);
        ok(wait_until(is_over) && got.e.code == ERR_UNAVAILABLE, "bad answer %zu: %s", i,
           got.e.msg);
        ok(wait_until(is_closed), "and gone");
        close(peer);
    }
    open_conn();
    call("GET", 0);
    for (int i = 0; i < 20; i++)
        answer("HTTP/1.1 100 Continue\r\n\r\n");
    ok(wait_until(is_over) && got.failed, "interim answers without end: %s", got.e.msg);
    close_conn();
    open_conn();
    const struct http_header evil = {"X", "a\r\nY: b"};
    memset(&got, 0, sizeof got);
    http_conn_call(conn, "GET", "/", &evil, 1, 0, &EVENTS, NULL);
    ok(wait_until(is_over) && got.e.code == ERR_INVALID, "a header with a line break");
    is_str(heard(NULL), "", "is not sent");
    close_conn();
}

static void test_flow(void)
{
    open_conn();
    call("GET", 0);
    got.pause_each = true;
    answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
    close(dup(peer));
    turns(20);
    is_str(buf_str(&got.body), "a", "paused after the first piece");
    http_conn_resume(conn);
    turns(20);
    is_str(buf_str(&got.body), "ab", "the second one after resuming");
    is_int(got.ends, 0, "the end waits, too");
    http_conn_resume(conn);
    ok(wait_until(is_over) && !got.failed, "and comes");
    close_conn();

    open_conn();
    call("POST", -1);
    static char block[65536];
    size_t written = 0;
    while (http_conn_write(conn, block, sizeof block) && written < 100000000)
        written += sizeof block;
    ok(written < 2000000, "a peer who does not read stops the writer");
    turns(10);
    is_int(got.drains, 0, "until it reads");
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (!got.drains && clock_mono_ms() < end) {
        static char sink[65536];
        ssize_t n = recv(peer, sink, sizeof sink, MSG_DONTWAIT);
        (void)n;
        turns(1);
    }
    ok(got.drains > 0, "then it may go on");
    answer("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    ok(wait_until(is_over) && !got.failed && got.status == 413, "an answer before the body's end");
    ok(!got.idle, "after which nothing else can be asked");
    close_conn();

    open_conn();
    call("POST", -1);
    answer("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    shutdown(peer, SHUT_RD);
    for (int i = 0; i < 50 && !is_over(); i++) {
        http_conn_write(conn, block, sizeof block);
        turns(1);
    }
    ok(wait_until(is_over) && !got.failed && got.status == 403,
       "a peer that stops reading is still listened to");
    close_conn();
    open_conn();
    call("POST", 3);
    http_conn_write(conn, "ab", 2);
    http_conn_finish(conn);
    ok(wait_until(is_over) && got.e.code == ERR_INTERNAL, "a body shorter than declared");
    close_conn();
}

// ---- connecting

static struct {
    uv_stream_t *stream;
    struct err e;
    int calls;
} made;

static void on_made(uv_stream_t *stream, const struct err *e, void *ctx)
{
    (void)ctx;
    made.calls++;
    made.stream = stream;
    made.e = e ? *e : ERR_INIT;
}

static bool is_made(void)
{
    return made.calls > 0;
}

static int listen_at(const char *path, int backlog)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    unlink(path);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, backlog) != 0)
        abort();
    return fd;
}

static bool is_freed;
static void on_freed(uv_handle_t *handle)
{
    free(handle);
    is_freed = true;
}

static bool freed(void)
{
    return is_freed;
}

static void drop_stream(void)
{
    is_freed = false;
    uv_close((uv_handle_t *)made.stream, on_freed);
    wait_until(freed);
}

static void accept_peer(int listener)
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    peer = -1;
    while (peer < 0 && clock_mono_ms() < end) {
        turns(1);
        peer = accept(listener, NULL, NULL);
    }
}

static void test_loopback(const char *path)
{
    static const struct {
        const char *netd, *relay;
        enum err_code code;
    } CASES[] = {
        {"OK\n", "OK\nhello", ERR_NONE},          {"ERR refused\n", NULL, ERR_NOT_FOUND},
        {"OK\n", "ERR refused\n", ERR_NOT_FOUND}, {"OK\n", "ERR limit\n", ERR_LIMIT},
        {"OK\n", "what\n", ERR_UNAVAILABLE},      {"OK\n", "", ERR_UNAVAILABLE},
    };
    int listener = listen_at(path, 8);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        memset(&made, 0, sizeof made);
        vmnet_connect_loopback(&loop, path, 8000, WAIT_MS, on_made, NULL);
        accept_peer(listener);
        is_str(heard("\n"), "CONNECT 49982\n", "netd is asked for the relay");
        answer(CASES[i].netd);
        if (CASES[i].relay) {
            is_str(heard("\n"), "CONNECT 8000\n", "and the relay for the port");
            is_int(made.calls, 0, "which is not connected yet");
            answer(CASES[i].relay);
        }
        if (CASES[i].code != ERR_NONE)
            shutdown(peer, SHUT_WR);
        ok(wait_until(is_made), "an outcome");
        is_int(made.e.code, CASES[i].code, "case %zu: %s", i, made.e.msg);
        if (made.stream)
            drop_stream();
        close(peer);
    }
    close(listener);
    unlink(path);
}

static void test_vmnet(const char *path)
{
    static const struct {
        const char *says;
        enum err_code code;
    } CASES[] = {
        {"OK\nSSH-2.0", ERR_NONE},      {"ERR refused\n", ERR_NOT_FOUND},
        {"ERR timeout\n", ERR_TIMEOUT}, {"ERR limit\n", ERR_LIMIT},
        {"ERR \n", ERR_UNAVAILABLE},    {"ERR bad-request\n", ERR_INVALID},
        {"", ERR_UNAVAILABLE},          {"OK", ERR_UNAVAILABLE},
        {"NO\n", ERR_UNAVAILABLE},      {NULL, ERR_TIMEOUT},
        {"E\n", ERR_UNAVAILABLE},
    };
    int listener = listen_at(path, 8);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        memset(&made, 0, sizeof made);
        vmnet_connect(&loop, path, 8000, CASES[i].says ? WAIT_MS : 50, on_made, NULL);
        is_int(made.calls, 0, "not at once");
        accept_peer(listener);
        is_str(heard("\n"), "CONNECT 8000\n", "the request");
        if (CASES[i].says)
            answer(CASES[i].says);
        if (CASES[i].says && CASES[i].code != ERR_NONE)
            shutdown(peer, SHUT_WR);
        ok(wait_until(is_made), "an outcome");
        is_int(made.e.code, CASES[i].code, "%s: %s", CASES[i].says ? CASES[i].says : "(silence)",
               made.e.msg);
        if (made.stream) {
            int fd;
            char rest[20] = "";
            uv_fileno((uv_handle_t *)made.stream, &fd);
            ok(recv(fd, rest, sizeof rest - 1, 0) == 7 && str_eq(rest, "SSH-2.0"),
               "what the guest says first is left in the stream");
            drop_stream();
        }
        turns(5);
        is_int(made.calls, 1, "once");
        close(peer);
    }
    close(listener);
    unlink(path);
}

static void test_connect(const char *path)
{
    static const char LONG[] =
        "/tmp/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    memset(&made, 0, sizeof made);
    unix_stream_connect(&loop, LONG, on_made, NULL);
    ok(wait_until(is_made) && made.e.code == ERR_INVALID, "a path too long: %s", made.e.msg);
    memset(&made, 0, sizeof made);
    unix_stream_connect(&loop, path, on_made, NULL);
    ok(wait_until(is_made) && made.e.code == ERR_NOT_FOUND, "no socket: %s", made.e.msg);
    memset(&made, 0, sizeof made);
    vmnet_connect(&loop, path, 1, 1000, on_made, NULL);
    ok(wait_until(is_made) && made.e.code == ERR_UNAVAILABLE, "no netd: %s", made.e.msg);
    ok(!strstr(made.e.msg, path), "and no path of the host in what clients are told");

    int listener = listen_at(path, 0);
    memset(&made, 0, sizeof made);
    int filler = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    ok(connect(filler, (struct sockaddr *)&address, sizeof address) == 0, "the backlog is full");
    unix_stream_connect(&loop, path, on_made, NULL);
    turns(20);
    is_int(made.calls, 0, "so the next one waits");
    close(accept(listener, NULL, NULL));
    ok(wait_until(is_made) && made.stream, "until there is room");
    drop_stream();
    close(filler);
    close(listener);
    unlink(path);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    char dir[] = "/tmp/test-conn-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    char *path auto_free = str_printf("%s/s", dir);
    uv_loop_init(&loop);
    test_calls();
    test_closed_by_peer();
    test_closed_by_caller();
    test_closed_by_answer();
    test_hostile();
    test_flow();
    test_vmnet(path);
    test_loopback(path);
    test_connect(path);
    buf_fini(&got.body);
    turns(5);
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    ok(rmdir(dir) == 0, "nor in the directory");
    return tap_done();
}
