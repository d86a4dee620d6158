// SPDX-License-Identifier: Apache-2.0
// The QMP client against a peer that the test plays, over a socket pair.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/qemu/qmp.h"
#include "tests/lib/harness/tap.h"

#define WAIT_MS  5000
#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n"

struct talk {
    uv_loop_t loop;
    struct qmp *qmp;
    int peer;
    struct buf heard; // what the client sent
    int replies;
    int events;
    int lost;
    bool closed;
    bool close_in_callback;
    struct err err; // of the last reply or loss
    char value[128];
    char event[256];
};

static void on_closed(void *ctx)
{
    ((struct talk *)ctx)->closed = true;
}

static void on_event(struct qmp *q, const char *name, const json_t *data, void *ctx)
{
    struct talk *t = ctx;
    char *text auto_free = json_dumps(data, JSON_COMPACT);
    t->events++;
    snprintf(t->event, sizeof t->event, "%s %s", name, text);
    if (t->close_in_callback)
        qmp_close(q, on_closed, t);
}

static void on_lost(struct qmp *q, const struct err *e, void *ctx)
{
    struct talk *t = ctx;
    t->lost++;
    t->err = *e;
    if (t->close_in_callback)
        qmp_close(q, on_closed, t);
}

static void on_reply(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    struct talk *t = ctx;
    t->replies++;
    t->err = e ? *e : ERR_INIT;
    char *text auto_free = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : xstrdup("-");
    snprintf(t->value, sizeof t->value, "%s", text);
    if (t->close_in_callback)
        qmp_close(q, on_closed, t);
}

static const struct qmp_events events = {.on_event = on_event, .on_lost = on_lost};

static void begin(struct talk *t)
{
    int ends[2];
    *t = (struct talk){.heard = BUF_INIT};
    uv_loop_init(&t->loop);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        abort();
    t->peer = ends[1];
    t->qmp = qmp_open(&t->loop, ends[0], &events, t);
}

static void finish(struct talk *t)
{
    if (!t->closed && !t->close_in_callback)
        qmp_close(t->qmp, on_closed, t);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    ok(t->closed, "closed");
    is_int(uv_loop_close(&t->loop), 0, "no handle is left");
    if (t->peer >= 0)
        close(t->peer);
    buf_fini(&t->heard);
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
}

// Turns the loop until it says so, listening to the client meanwhile.
static bool turn_until(struct talk *t, bool (*done)(const struct talk *t))
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    uv_timer_t guard; // wakes the loop when nothing else does
    uv_timer_init(&t->loop, &guard);
    uv_timer_start(&guard, on_guard, 5, 5);
    while (!done(t) && clock_mono_ms() < end) {
        char chunk[4096];
        uv_run(&t->loop, UV_RUN_ONCE);
        ssize_t n = t->peer < 0 ? -1 : read(t->peer, chunk, sizeof chunk);
        if (n > 0)
            buf_add(&t->heard, chunk, (size_t)n);
    }
    bool result = done(t);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&t->loop, UV_RUN_NOWAIT);
    return result;
}

static void say(struct talk *t, const char *text)
{
    if (write(t->peer, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
}

static bool heard_two(const struct talk *t)
{
    const char *first = strchr(buf_str(&t->heard), '\n');
    return first && strchr(first + 1, '\n');
}
static bool one_reply(const struct talk *t)
{
    return t->replies == 1;
}
static bool two_replies(const struct talk *t)
{
    return t->replies == 2;
}
static bool an_event(const struct talk *t)
{
    return t->events > 0;
}
static bool is_lost(const struct talk *t)
{
    return t->lost > 0;
}
static bool is_closed(const struct talk *t)
{
    return t->closed;
}

static void test_command(void)
{
    struct talk t;
    begin(&t);
    qmp_execute(t.qmp, "query-status", json_pack("{s:i}", "a", 7), WAIT_MS, on_reply, &t);
    is_int(t.replies, 0, "nothing completes at once");
    ok(turn_until(&t, heard_two), "both commands are sent before the greeting");
    is_str(buf_str(&t.heard),
           "{\"execute\":\"qmp_capabilities\",\"id\":1}\n"
           "{\"execute\":\"query-status\",\"id\":2,\"arguments\":{\"a\":7}}\n",
           "what was sent");
    say(&t, GREETING "{\"return\": {}, \"id\": 1}\r\n{\"return\": {\"x\": 5}, \"id\": 2}\r\n");
    ok(turn_until(&t, one_reply), "replied");
    is_str(t.value, "{\"x\":5}", "the value");
    ok(!err_is(&t.err), "no error");
    finish(&t);
}

static void test_refusal(void)
{
    struct talk t;
    begin(&t);
    qmp_execute(t.qmp, "cont", NULL, WAIT_MS, on_reply, &t);
    say(&t,
        GREETING "{\"return\": {}, \"id\": 1}\r\n"
                 "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no way\"}, \"id\": 2}\n");
    ok(turn_until(&t, one_reply), "replied");
    is_int(t.err.code, ERR_INTERNAL, "code");
    is_str(t.err.msg, "QEMU refused \"cont\": no way", "QEMU's words");
    is_str(t.value, "-", "no value");
    is_int(t.lost, 0, "the connection goes on");
    finish(&t);
}

static void test_pieces(void)
{
    struct talk t;
    begin(&t);
    qmp_execute(t.qmp, "cont", NULL, WAIT_MS, on_reply, &t);
    const char *text =
        GREETING "\r\n{\"return\": {}, \"id\": 1}\r\n{\"return\": [1], \"id\": 2}\r\n";
    for (const char *c = text; *c; c++) {
        say(&t, (const char[]){*c, '\0'});
        uv_run(&t.loop, UV_RUN_NOWAIT);
    }
    ok(turn_until(&t, one_reply), "a reply that comes byte by byte, after an empty line");
    is_str(t.value, "[1]", "the value");
    finish(&t);
}

static void test_event(void)
{
    struct talk t;
    begin(&t);
    say(&t, GREETING "{\"event\": \"STOP\", \"timestamp\": {}}\r\n");
    ok(turn_until(&t, an_event), "an event");
    is_str(t.event, "STOP {}", "without data");
    say(&t, "{\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true}}\r\n");
    t.events = 0;
    ok(turn_until(&t, an_event), "a second");
    is_str(t.event, "SHUTDOWN {\"guest\":true}", "with data");
    finish(&t);
}

static void test_timeout(void)
{
    struct talk t;
    begin(&t);
    qmp_execute(t.qmp, "slow", NULL, 20, on_reply, &t);
    qmp_execute(t.qmp, "quick", NULL, WAIT_MS, on_reply, &t);
    ok(turn_until(&t, one_reply), "the first fails");
    is_int(t.err.code, ERR_TIMEOUT, "by its deadline");
    say(&t, GREETING "{\"return\": {}, \"id\": 1}\r\n{\"return\": 1, \"id\": 2}\r\n"
                     "{\"return\": 2, \"id\": 3}\r\n");
    ok(turn_until(&t, two_replies), "the second is answered");
    is_str(t.value, "2", "with its own value, not the late one");
    is_int(t.lost, 0, "a late reply does no harm");
    finish(&t);
}

static void test_peer_leaves(void)
{
    struct talk t;
    begin(&t);
    qmp_execute(t.qmp, "cont", NULL, WAIT_MS, on_reply, &t);
    ok(turn_until(&t, heard_two), "sent");
    close(t.peer);
    t.peer = -1;
    ok(turn_until(&t, is_lost), "lost");
    is_int(t.replies, 1, "the command failed");
    is_int(t.err.code, ERR_UNAVAILABLE, "code");
    qmp_execute(t.qmp, "cont", NULL, WAIT_MS, on_reply, &t);
    is_int(t.replies, 1, "a later command does not fail at once");
    ok(turn_until(&t, two_replies), "but it does");
    is_int(t.lost, 1, "the loss is told once");
    finish(&t);
}

static void test_bad_peer(const char *text, enum err_code code, const char *what)
{
    struct talk t;
    begin(&t);
    say(&t, text);
    ok(turn_until(&t, is_lost), "%s ends the connection", what);
    is_int(t.err.code, code, "with the code");
    finish(&t);
}

static void test_overlong(void)
{
    struct talk t;
    char chunk[8192];
    memset(chunk, ' ', sizeof chunk);
    begin(&t);
    for (size_t sent = 0; sent <= QMP_LINE_MAX && !t.lost;) {
        ssize_t n = write(t.peer, chunk, sizeof chunk);
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&t.loop, UV_RUN_NOWAIT);
    }
    ok(turn_until(&t, is_lost), "a line without end");
    is_int(t.err.code, ERR_TOO_LARGE, "is bounded");
    finish(&t);
}

static void test_close(void)
{
    struct talk t;
    begin(&t);
    qmp_execute(t.qmp, "cont", NULL, WAIT_MS, on_reply, &t);
    qmp_close(t.qmp, on_closed, &t);
    is_int(t.replies, 1, "closing fails what is pending");
    is_int(t.err.code, ERR_CANCELED, "code");
    ok(turn_until(&t, is_closed), "closed");
    is_int(t.lost, 0, "and is no loss");
    finish(&t);
}

static void test_close_in(const char *text, const char *what)
{
    struct talk t;
    begin(&t);
    t.close_in_callback = true;
    if (text)
        say(&t, text);
    else {
        close(t.peer);
        t.peer = -1;
    }
    ok(turn_until(&t, is_closed), "closing in %s", what);
    is_int(t.events + t.lost, 1, "nothing more is called");
    finish(&t);
}

static void test_fd(void)
{
    struct talk t;
    char text[256], control[CMSG_SPACE(sizeof(int))];
    int pipe_ends[2], received = -1;
    begin(&t);
    ok(turn_until(&t, one_reply) || t.heard.len > 0, "capabilities are sent");
    if (pipe(pipe_ends) != 0)
        abort();
    qmp_give_fd(t.qmp, "state", pipe_ends[1], WAIT_MS, on_reply, &t);
    struct iovec bytes = {text, sizeof text};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(t.peer, &message, MSG_CMSG_CLOEXEC);
    ok(n > 0 && memmem(text, (size_t)n, "\"getfd\"", 7), "getfd is sent");
    if (message.msg_controllen >= CMSG_LEN(sizeof(int)))
        memcpy(&received, CMSG_DATA((struct cmsghdr *)(void *)control), sizeof received);
    ok(received >= 0 && write(received, "x", 1) == 1, "with a descriptor");
    ok(read(pipe_ends[0], text, 1) == 1 && text[0] == 'x', "the right one");
    close(received);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    finish(&t);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    test_command();
    test_refusal();
    test_pieces();
    test_event();
    test_timeout();
    test_peer_leaves();
    test_bad_peer("hello\r\n", ERR_INTERNAL, "no JSON");
    test_bad_peer("[1]\r\n", ERR_INTERNAL, "no object");
    test_bad_peer("{\"what\": 1}\r\n", ERR_INTERNAL, "an unknown message");
    test_bad_peer("{\"return\": {}, \"id\": 9}\r\n", ERR_INTERNAL, "an unknown reply");
    test_bad_peer("{\"return\": {}}\r\n", ERR_INTERNAL, "a reply without id");
    test_bad_peer("{\"return\": {}, \"id\": \"1\"}\r\n", ERR_INTERNAL, "an id of another type");
    test_overlong();
    test_close();
    test_close_in(GREETING "{\"event\": \"A\"}\r\n{\"event\": \"B\"}\r\n", "an event");
    test_close_in(NULL, "the loss");
    test_fd();
    return tap_done();
}
