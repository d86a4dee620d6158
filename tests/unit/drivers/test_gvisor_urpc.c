// SPDX-License-Identifier: Apache-2.0
// Calls to a sentry's control socket: an answer that comes in any pieces, and what is no answer.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/urpc.h"
#include "tests/lib/harness/tap.h"

#define LIMIT_MS 10000

// A sentry that answers one call with `text`, one byte a packet of the stream, and then waits for
// the end of the connection.
struct sentry {
    int listener;
    const char *text;
    bool ends; // it closes the connection after the text
};

static void *answer(void *arg)
{
    const struct sentry *s = arg;
    char byte[256];
    int fd = accept(s->listener, NULL, NULL);
    (void)!read(fd, byte, sizeof byte);
    for (const char *c = s->text; *c; c++)
        (void)!send(fd, c, 1, MSG_NOSIGNAL);
    while (!s->ends && read(fd, byte, sizeof byte) > 0)
        ;
    close(fd);
    return NULL;
}

struct result {
    int calls;
    int slow;
    size_t len; // of the result, a text
    struct err e;
};

static void on_done(const struct err *e, void *ctx)
{
    struct result *r = ctx;
    r->calls++;
    if (e)
        r->e = *e;
}

static void on_slow(const struct err *e, void *ctx)
{
    struct result *r = ctx;
    r->slow++;
    ok(e->code == ERR_TIMEOUT && r->calls == 0, "slow: %s", e->msg);
}

static void on_result(const json_t *value, void *ctx)
{
    struct result *r = ctx;
    is_int(r->calls, 0, "the result comes first");
    r->len = json_string_length(value);
}

static struct result call_with(const char *text, bool ends, const struct urpc_request *more)
{
    char dir[] = "/tmp/gvisor-urpc-XXXXXX";
    struct err e = ERR_INIT;
    uv_loop_t loop;
    pthread_t thread;
    struct result r = {.e = ERR_INIT};
    ok(mkdtemp(dir), "a directory");
    char *path auto_free = str_printf("%s/s", dir);
    struct sentry s = {.listener = fd_listen_unix(path, &e), .text = text, .ends = ends};
    pthread_create(&thread, NULL, answer, &s);
    uv_loop_init(&loop);
    struct urpc_request request = *more;
    request.path = path;
    request.method = "containerManager.Pause";
    urpc_send(&loop, &request, on_done, &r);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    pthread_join(thread, NULL);
    close(s.listener);
    dir_remove(dir, NULL);
    is_int(r.calls, 1, "one answer");
    return r;
}

static struct result call(const char *text, bool ends)
{
    return call_with(text, ends, &(struct urpc_request){.limit_ms = LIMIT_MS});
}

static void test_silence(void)
{
    const struct urpc_request slow = {.limit_ms = 1, .on_slow = on_slow, .slow_ms = 1};
    struct result r = call_with("", false, &slow);
    is_int(r.slow, 1, "slow, once");
    is_int(r.e.code, ERR_TIMEOUT, "and then given up: %s", r.e.msg);
    const struct urpc_request patient = {.limit_ms = 0, .on_slow = on_slow, .slow_ms = LIMIT_MS};
    r = call_with("{\"success\":true}", false, &patient);
    ok(!err_is(&r.e), "a late answer counts: %s", r.e.msg);
}

static void test_long_answer(void)
{
    struct buf text auto_buf = BUF_INIT;
    buf_adds(&text, "{\"success\":true,\"result\":\"");
    for (int i = 0; i < URPC_ANSWER_BYTES; i++)
        buf_adds(&text, "x");
    buf_adds(&text, "\"}");
    struct result r = call(buf_str(&text), false);
    ok(strstr(r.e.msg, "that is too long"), "%s", r.e.msg);
    const struct urpc_request more = {
        .limit_ms = LIMIT_MS, .on_result = on_result, .answer_max = 2 * URPC_ANSWER_BYTES};
    r = call_with(buf_str(&text), false, &more);
    ok(!err_is(&r.e) && r.len == URPC_ANSWER_BYTES, "the whole result: %s", r.e.msg);
}

int main(void)
{
    test_silence();
    test_long_answer();
    struct result good = call("{\"success\":true,\"result\":{\"a\":\"}}\\\"}{\"}}\n", false);
    ok(!err_is(&good.e), "braces within an object, and within a text: %s", good.e.msg);
    struct result refused = call("{\"success\":false,\"err\":\"no } such container\"}", false);
    ok(strstr(refused.e.msg, "refused containerManager.Pause: no } such container"), "%s",
       refused.e.msg);
    struct result traced = call("{\"success\":false,\"err\":\"no room\\ngoroutine 1\\n\"}", false);
    ok(strstr(traced.e.msg, "Pause: no room") && !strstr(traced.e.msg, "goroutine"), "%s",
       traced.e.msg);
    struct result empty = call("", true);
    ok(strstr(empty.e.msg, "ended before it answered containerManager.Pause"), "%s", empty.e.msg);
    struct result half = call("{\"success\":true", true);
    ok(strstr(half.e.msg, "ended before it answered containerManager.Pause"), "%s", half.e.msg);
    struct result text = call("{nonsense}", false);
    ok(strstr(text.e.msg, "sent an answer to containerManager.Pause that is not JSON"), "%s",
       text.e.msg);
    return tap_done();
}
