// SPDX-License-Identifier: Apache-2.0
// The HTTP server: no connection keeps the others waiting.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_server_internal.h"
#include "tests/lib/harness/tap.h"

#define WAIT_MS  30000
#define MANY     2000
#define BODY_LEN (HTTP_LARGE_BODY + 1)
#define HOST     "Host: x\r\n"

static uv_loop_t loop;
static struct http_server *server;
static char *path;
static int greedy, polite, bodies, gone;
static int greedy_before; // how many of the greedy one's were handled when the polite one's came

// ---- the handler

static void on_gone(void *ctx)
{
    (void)ctx;
    gone++;
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)body;
    (void)ctx;
    bodies++;
    is_int(len, BODY_LEN, "a body is whole");
    http_respond(req, 204, NULL, NULL, 0);
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    if (str_eq(http_request_path(req), "/body")) {
        http_request_on_close(req, on_gone, NULL);
        http_request_collect(req, BODY_LEN, on_body, NULL);
        return;
    }
    if (str_eq(http_request_path(req), "/polite")) {
        polite++;
        greedy_before = greedy;
    } else {
        greedy++;
    }
    http_respond(req, 204, NULL, NULL, 0);
}

// ---- the client

static int dial(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        abort();
    return fd;
}

// All at once, before the server hears any of it.
static void say(int fd, const struct buf *text)
{
    is_int(send(fd, text->data, text->len, MSG_DONTWAIT), (int64_t)text->len,
           "the socket takes it");
}

static void add_requests(struct buf *out, const char *target, int count)
{
    for (int i = 0; i < count; i++)
        buf_printf(out, "GET %s HTTP/1.1\r\n" HOST "\r\n", target);
}

static void add_body(struct buf *out)
{
    buf_printf(out, "POST /body HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", BODY_LEN);
    char *at = buf_room(out, BODY_LEN);
    memset(at, 'a', BODY_LEN);
    buf_took(out, BODY_LEN);
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

// Reads what there is of answers, and returns how many there were.
static int count_answers(int fd, struct buf *rest)
{
    static const char WORD[] = "HTTP/1.1 204";
    char piece[4096];
    ssize_t n;
    int count = 0;
    while ((n = recv(fd, piece, sizeof piece, MSG_DONTWAIT)) > 0)
        buf_add(rest, piece, (size_t)n);
    for (const char *at = buf_str(rest); (at = strstr(at, WORD)); at += sizeof WORD - 1)
        count++;
    return count;
}

// ---- tests

static void test_pipelining(void)
{
    struct buf many auto_buf = BUF_INIT, one auto_buf = BUF_INIT, heard auto_buf = BUF_INIT;
    int first = dial(), second = dial(), third = dial();
    add_requests(&many, "/greedy", MANY);
    add_requests(&one, "/polite", 1);
    say(first, &many);
    say(second, &one);
    say(third, &many);
    for (int64_t end = clock_mono_ms() + WAIT_MS; !polite && clock_mono_ms() < end;)
        turn();
    is_int(polite, 1, "one request is handled");
    // Which connection is read first is the system's affair; a turn more may have passed.
    ok(greedy_before <= 4 * HTTP_TURN_REQUESTS, "after %d of %d", greedy_before, 2 * MANY);
    struct buf others auto_buf = BUF_INIT;
    for (int64_t end = clock_mono_ms() + WAIT_MS; clock_mono_ms() < end; turn()) {
        int a = count_answers(first, &heard), b = count_answers(third, &others);
        if (a == MANY && b == MANY)
            break;
    }
    is_int(count_answers(first, &heard), MANY, "all of the others are answered as well,");
    is_int(count_answers(third, &others), MANY, "every one");
    is_int(greedy, 2 * MANY, "and once");
    close(first);
    close(second);
    close(third);
}

// Whose answers nobody reads is not heard any more, and is when they are read.
static void test_unread(void)
{
    struct buf many auto_buf = BUF_INIT, heard auto_buf = BUF_INIT;
    int fd = dial(), before = greedy, last = -1, sent = 0, quiet = 0;
    add_requests(&many, "/greedy", 1000);
    // Until neither the socket nor the server takes more.
    for (int64_t end = clock_mono_ms() + WAIT_MS; quiet < 100 && clock_mono_ms() < end; turn()) {
        if (send(fd, many.data, many.len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)many.len)
            sent += 1000;
        quiet = greedy == last ? quiet + 1 : 0;
        last = greedy;
        if (sent > 1000000)
            break;
    }
    ok(greedy - before < 100000, "it stopped after %d requests", greedy - before);
    ok(server->peers && stream_out_unsent(&server->peers->out) < 512 * 1024, "with little unsent");
    int answered = 0;
    for (int64_t end = clock_mono_ms() + WAIT_MS;
         answered < last - before + 1 && clock_mono_ms() < end; turn())
        answered = count_answers(fd, &heard);
    ok(answered > last - before, "and goes on when somebody reads");
    close(fd);
}

static void test_body(void)
{
    struct buf text auto_buf = BUF_INIT, heard auto_buf = BUF_INIT;
    int fd = dial();
    add_body(&text);
    add_requests(&text, "/greedy", 1);
    say(fd, &text);
    for (int64_t end = clock_mono_ms() + WAIT_MS;
         count_answers(fd, &heard) < 2 && clock_mono_ms() < end;)
        turn();
    is_int(bodies, 1, "a large body is handed over");
    is_int(count_answers(fd, &heard), 2, "and what follows it is answered, too");
    close(fd);
}

static void test_gone(void)
{
    struct buf text auto_buf = BUF_INIT;
    int before = bodies;
    add_body(&text);
    for (int with_more = 0; with_more < 2; with_more++) {
        int fd = dial(), left = gone;
        if (with_more)
            add_requests(&text, "/greedy", 1);
        say(fd, &text);
        close(fd);
        for (int64_t end = clock_mono_ms() + WAIT_MS; gone == left && clock_mono_ms() < end;)
            turn();
        is_int(gone, left + 1, "its handler is told that it has gone");
        is_int(bodies, before, "a body is not handed over whose sender has left");
    }
}

static void on_closed(void *ctx)
{
    (void)ctx;
}

int main(void)
{
    struct http_server_opts opts = {.on_request = on_request};
    struct err e = ERR_INIT;
    char dir[] = "/tmp/cubby-turn-XXXXXX";
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        abort();
    path = str_printf("%s/s", dir);
    uv_loop_init(&loop);
    server = http_server_new(&loop, &opts);
    is_int(http_server_listen_unix(server, path, 0600, &e), 0, "it listens %s", e.msg);
    test_pipelining();
    test_unread();
    test_body();
    test_gone();
    http_server_close(server, on_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(uv_loop_close(&loop), 0, "nothing is left open");
    rmdir(dir);
    free(path);
    return tap_done();
}
