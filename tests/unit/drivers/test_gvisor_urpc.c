// SPDX-License-Identifier: Apache-2.0
// Calls to a sentry's control socket: an answer that comes in any pieces, and what is no answer.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

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
    struct err e;
};

static void on_done(const struct err *e, void *ctx)
{
    struct result *r = ctx;
    r->calls++;
    if (e)
        r->e = *e;
}

static struct result call(const char *text, bool ends)
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
    const struct urpc_request request = {
        .path = path, .method = "containerManager.Pause", .limit_ms = LIMIT_MS};
    urpc_send(&loop, &request, on_done, &r);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    pthread_join(thread, NULL);
    close(s.listener);
    dir_remove(dir, NULL);
    is_int(r.calls, 1, "one answer");
    return r;
}

int main(void)
{
    struct result good = call("{\"success\":true,\"result\":{\"a\":\"}}\\\"}{\"}}\n", false);
    ok(!err_is(&good.e), "braces within an object, and within a text: %s", good.e.msg);
    struct result refused = call("{\"success\":false,\"err\":\"no } such container\"}", false);
    ok(strstr(refused.e.msg, "refused containerManager.Pause: no } such container"), "%s",
       refused.e.msg);
    struct result empty = call("", true);
    ok(strstr(empty.e.msg, "ended before it answered containerManager.Pause"), "%s", empty.e.msg);
    struct result half = call("{\"success\":true", true);
    ok(strstr(half.e.msg, "ended before it answered containerManager.Pause"), "%s", half.e.msg);
    struct result text = call("{nonsense}", false);
    ok(strstr(text.e.msg, "sent an answer to containerManager.Pause that is not JSON"), "%s",
       text.e.msg);
    return tap_done();
}
