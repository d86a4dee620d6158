// SPDX-License-Identifier: Apache-2.0
// Event streams over a real connection: replay, streams that outlive a connection, slow readers.
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp-server/web/web_stream.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static uv_loop_t loop;
static struct http_server *server;
static struct web_streams streams;
static struct http_request *asked; // by the last client; NULL once it was given away
static int lost, closed;
static struct caller *caller; // of all streams but those of test_shares

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    asked = req;
}

static void on_lost(void *ctx)
{
    (void)ctx;
    lost++;
}

static void on_closed(uv_handle_t *handle)
{
    (void)handle;
    closed++;
}

// A client that has asked; asked is its request.
static int client(void)
{
    static const char GET[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)http_server_port(server))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connected");
    ok(write(fd, GET, sizeof GET - 1) == (ssize_t)sizeof GET - 1, "asked");
    while (!asked)
        uv_run(&loop, UV_RUN_ONCE);
    return fd;
}

// What the client receives up to the end of the answer or of the connection.
static char *receive(int fd)
{
    struct buf all = BUF_INIT;
    char piece[4096];
    ssize_t n = 1;
    while (n > 0 && !strstr(buf_str(&all), "\r\n0\r\n\r\n")) {
        uv_run(&loop, UV_RUN_NOWAIT);
        n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n > 0)
            buf_add(&all, piece, (size_t)n);
        else if (n < 0)
            n = 1;
    }
    close(fd);
    return buf_take(&all);
}

static void send_number(struct web_stream *s, int number)
{
    json_t *message = json_pack("{s:i}", "n", number);
    web_stream_send(s, message);
    json_decref(message);
}

static void test_replay(void)
{
    struct web_stream *family = NULL;
    struct web_stream *s = web_stream_new(&streams, caller, &family, 7);
    int fd = client();
    web_stream_attach(s, steal(&asked), 0, true);
    send_number(s, 1);
    is_int(streams.open, 1, "it is open");
    web_stream_let_go(s, 20);
    is_int(streams.open, 0, "it was let go");
    char *first auto_free = receive(fd);
    ok(strstr(first, "id: 7.1\nretry: 1000\ndata: \n\n"), "primed: %s", first);
    ok(strstr(first, "event: message\nid: 7.2\ndata: {\"n\":1}\n\n"), "the first event");
    ok(strstr(first, "retry: 20\n\n"), "when to come back");

    send_number(s, 2);
    fd = client();
    web_stream_attach(s, steal(&asked), 2, false);
    send_number(s, 3);
    web_stream_finish(s);
    char *second auto_free = receive(fd);
    ok(!strstr(second, "7.1\n") && !strstr(second, "7.2\n"), "what was received is not repeated");
    ok(strstr(second, "id: 7.3\ndata: {\"n\":2}\n\n"), "what was missed");
    ok(strstr(second, "id: 7.4\ndata: {\"n\":3}\n\n"), "and what followed");

    fd = client();
    web_stream_attach(s, steal(&asked), 3, false);
    char *third auto_free = receive(fd);
    ok(strstr(third, "id: 7.4\n") && !strstr(third, "7.3\n"),
       "a finished one is sent again, and ends");
    ok(streams.log_bytes > 0 && streams.parked == s, "it is kept");
    web_stream_free(s);
    ok(!family && !streams.parked && streams.log_bytes == 0, "and goes");
}

static void test_parked(void)
{
    struct web_stream *family = NULL;
    for (unsigned i = 1; i <= WEB_STREAM_PARKED_MAX + 5; i++) {
        struct web_stream *s = web_stream_new(&streams, caller, &family, i);
        send_number(s, (int)i);
        web_stream_finish(s);
    }
    int count = 0;
    for (struct web_stream *s = family; s; s = s->sibling)
        count++;
    is_int(count, WEB_STREAM_PARKED_MAX, "so many finished ones are kept");
    is_int(streams.parked->id, 6, "the oldest went");
    while (family)
        web_stream_free(family);
    ok(!streams.parked && streams.parked_end == &streams.parked, "all went");
}

static struct web_stream *find(struct web_stream *family, unsigned id)
{
    while (family && family->id != id)
        family = family->sibling;
    return family;
}

// Its client may have lost the connection long ago: the answer is kept though many short ones,
// which began later, have finished before it.
static void test_parked_after_long(void)
{
    struct web_stream *family = NULL;
    struct web_stream *slow = web_stream_new(&streams, caller, &family, 1);
    for (unsigned i = 2; i <= WEB_STREAM_PARKED_MAX + 2; i++) {
        struct web_stream *s = web_stream_new(&streams, caller, &family, i);
        send_number(s, (int)i);
        web_stream_finish(s);
    }
    ok(!find(family, 2) && find(family, 3), "the first that finished went");
    send_number(slow, 1);
    web_stream_finish(slow);
    slow = find(family, 1);
    ok(slow && !find(family, 3), "the slow one is kept, in place of the next of them");
    if (slow) {
        int fd = client();
        web_stream_attach(slow, steal(&asked), 0, false);
        char *text auto_free = receive(fd);
        ok(strstr(text, "id: 1.1\ndata: {\"n\":1}\n\n"), "and its answer can be fetched");
    }
    while (family)
        web_stream_free(family);
    ok(!streams.parked && streams.parked_end == &streams.parked, "all went");
}

static void test_slow_reader(void)
{
    struct web_stream *s = web_stream_new(&streams, caller, NULL, 0);
    char *text auto_free = xcalloc(1, (1 << 20) + 1);
    memset(text, 'x', 1 << 20);
    json_t *message = json_string(text);
    int fd = client();
    web_stream_attach(s, steal(&asked), 0, false);
    s->on_lost = on_lost;
    ok(!web_stream_is_busy(s), "nothing is unsent");
    for (int i = 0; i < 40; i++)
        web_stream_send(s, message);
    ok(web_stream_is_busy(s) && s->req && lost == 0, "nothing is closed while something is sent");
    ok(http_response_unsent(s->req) <= WEB_STREAM_UNSENT_MAX + (2 << 20), "so much is held");
    while (lost == 0)
        uv_run(&loop, UV_RUN_ONCE);
    ok(!s->req && streams.open == 0, "its connection was closed");
    json_decref(message);
    web_stream_finish(s);
    close(fd);
}

static void test_reader_that_leaves(void)
{
    struct web_stream *s = web_stream_new(&streams, caller, NULL, 0);
    int fd = client();
    web_stream_attach(s, steal(&asked), 0, false);
    s->on_lost = on_lost;
    lost = 0;
    close(fd);
    while (lost == 0)
        uv_run(&loop, UV_RUN_ONCE);
    is_int(lost, 1, "its leaving is told once");
    send_number(s, 1);
    web_stream_finish(s);
    is_int(streams.open, 0, "nothing is open");
}

// A caller with a name may have half; what is detached is given back.
static void test_shares(void)
{
    struct caller *named = caller_new("token:a", 0);
    struct web_stream *s[5];
    int fd[5];
    for (int i = 0; i < 5; i++) {
        ok(!web_streams_are_full(&streams, named), "stream %d of 5", i);
        s[i] = web_stream_new(&streams, named, NULL, 0);
        fd[i] = client();
        web_stream_attach(s[i], steal(&asked), 0, false);
    }
    ok(web_streams_are_full(&streams, named), "it has its share");
    ok(!web_streams_are_full(&streams, caller), "others have theirs");
    web_stream_free(s[0]);
    ok(!web_streams_are_full(&streams, named), "one that ended makes room");
    is_int((int)named->open.streams, 4, "four are counted");
    for (int i = 1; i < 5; i++)
        web_stream_free(s[i]);
    for (int i = 0; i < 5; i++)
        close(fd[i]);
    is_int(named->refs, 1, "streams hold it no longer");
    caller_release(named);
}

// A connection ends with its token, the stream does not.
static void test_expiry(void)
{
    struct web_stream *family = NULL;
    struct web_stream *s = web_stream_new(&streams, caller, &family, 3);
    int fd = client();
    web_stream_attach(s, steal(&asked), 0, false);
    web_streams_sweep(&streams);
    ok(s->req, "a connection for good");
    s->until_ns = clock_wall_ns() + INT64_C(60000000000);
    web_streams_sweep(&streams);
    ok(s->req, "not yet");
    s->until_ns = clock_wall_ns();
    web_streams_sweep(&streams);
    ok(!s->req && streams.open == 0, "its token has expired");
    free(receive(fd));
    send_number(s, 1);
    fd = client();
    web_stream_attach(s, steal(&asked), 0, false);
    web_streams_sweep(&streams);
    ok(s->req, "another token brings it back");
    web_stream_finish(s);
    char *text auto_free = receive(fd);
    ok(strstr(text, "id: 3.1\n"), "with what came meanwhile");
    web_stream_free(s);
}

int main(void)
{
    static const struct http_server_opts OPTS = {.on_request = on_request};
    struct err e = ERR_INIT;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    server = http_server_new(&loop, &OPTS);
    ok(http_server_listen_tcp(server, "127.0.0.1", 0, &e) == 0, "listens");
    web_streams_init(&streams, &loop, 10);
    caller = caller_new(NULL, 0);
    test_replay();
    test_parked();
    test_parked_after_long();
    test_slow_reader();
    test_reader_that_leaves();
    test_shares();
    test_expiry();
    is_int((int)caller->open.streams, 0, "nothing is counted as open");
    is_int(caller->refs, 1, "and nothing holds the caller");
    caller_release(caller);
    web_streams_close(&streams, on_closed);
    http_server_close(server, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(closed, 2, "timers are closed");
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    return tap_done();
}
