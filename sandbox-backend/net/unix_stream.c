// SPDX-License-Identifier: Apache-2.0
// Connects to a unix socket, with the vm.net handshake of a sandbox where it is one.
//
// Each attempt is one object: connect, then (vm.net only) send the request line and read the
// answer. A port on the guest's loopback takes two rounds: netd connects to envd's relay, and the
// relay to the port. An attempt ends in finish(), which hands the stream over, or in fail(), whose
// report waits for the close callbacks, so that nothing is reported from within the first call. The
// answer is read without taking a byte after its newline: those bytes are the guest's.
#include "sandbox-backend/net/unix_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/deadline.h"

#define CONNECT_MS   10000 // for a socket on this machine
#define BUSY_WAIT_MS 2     // before the next try when the listener's backlog is full
#define ANSWER_BYTES 64

struct attempt {
    uv_pipe_t *pipe; // owned until it is handed over
    uv_connect_t connect;
    struct deadline deadline;
    uv_timer_t again;
    int open_handles; // open handles that end with the attempt
    char *path;
    int port;      // 0: a plain connection
    bool to_relay; // the relay is asked first, and has not said OK yet
    char answer[ANSWER_BYTES];
    size_t answer_len;
    bool connected;
    bool over;
    struct err e;
    unix_stream_cb cb;
    void *ctx;
};

static void try_connect(struct attempt *a);
static void on_connected(uv_connect_t *connect, int status);
static void say_port(struct attempt *a);
static void on_answer(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

// ---- the end

static void release(struct attempt *a)
{
    if (--a->open_handles > 0)
        return;
    uv_stream_t *stream = (uv_stream_t *)a->pipe;
    if (stream)
        stream->data = NULL;
    unix_stream_cb cb = a->cb;
    void *ctx = a->ctx;
    struct err e = a->e;
    free(a->path);
    free(a);
    cb(stream, err_is(&e) ? &e : NULL, ctx);
}

static void on_deadline_closed(struct deadline *d)
{
    release(container_of(d, struct attempt, deadline));
}

static void on_again_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct attempt *a = handle->data;
    free(handle);
    release(a);
}

static void finish(struct attempt *a)
{
    a->over = true;
    deadline_close(&a->deadline, on_deadline_closed);
    uv_close((uv_handle_t *)&a->again, on_again_closed);
}

static void fail(struct attempt *a)
{
    if (a->over)
        return;
    uv_pipe_t *pipe = steal(&a->pipe);
    a->open_handles++;
    uv_close((uv_handle_t *)pipe, on_pipe_closed);
    finish(a);
}

static void on_expired(struct deadline *d)
{
    struct attempt *a = container_of(d, struct attempt, deadline);
    if (a->connected)
        err_set(&a->e, ERR_TIMEOUT, "port %d of the sandbox did not answer in time", a->port);
    else
        err_set(&a->e, ERR_TIMEOUT, "the sandbox's network did not accept a connection in time");
    fail(a);
}

// ---- 1. connect

static void open_pipe(struct attempt *a, uv_loop_t *loop)
{
    a->pipe = xmalloc(sizeof *a->pipe);
    uv_pipe_init(loop, a->pipe, 0);
    a->pipe->data = a;
}

static void on_spent_pipe_closed(uv_handle_t *handle)
{
    free(handle);
}

// Use a new pipe: libuv makes a pipe readable and writable only when its first connect succeeds.
static void on_again(uv_timer_t *timer)
{
    struct attempt *a = timer->data;
    uv_close((uv_handle_t *)steal(&a->pipe), on_spent_pipe_closed);
    open_pipe(a, timer->loop);
    try_connect(a);
}

static void fail_connect(struct attempt *a, int sys)
{
    // netd creates the vm.net socket and listens on it while it lives. Its errors reach clients,
    // which need not know the path.
    if (a->port && (sys == ENOENT || sys == ECONNREFUSED))
        err_set(&a->e, ERR_UNAVAILABLE, "the sandbox's machine ended");
    else if (a->port)
        err_sys(&a->e, sys, "cannot connect to the sandbox's network");
    else
        err_sys(&a->e, sys, "cannot connect to %s", a->path);
    fail(a);
}

static void try_connect(struct attempt *a)
{
    uv_pipe_connect(&a->connect, a->pipe, a->path, on_connected);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct attempt *a = container_of(connect, struct attempt, connect);
    if (a->over)
        return;
    if (status == UV_EAGAIN) // many connect at once, and the listener has not accepted them yet
        uv_timer_start(&a->again, on_again, BUSY_WAIT_MS, 0);
    else if (status < 0)
        fail_connect(a, -status);
    else if (a->port)
        say_port(a);
    else
        finish(a);
}

// ---- 2. vm.net: which port

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct attempt *a = handle->data;
    // "OK\n" is the shortest answer. A longer one is then read byte by byte.
    size_t len = a->answer_len < 3 ? 3 - a->answer_len : 1;
    *buf = (uv_buf_t){.base = a->answer + a->answer_len, .len = len};
}

static void say_port(struct attempt *a)
{
    a->connected = true;
    char line[32];
    int n = snprintf(line, sizeof line, "CONNECT %d\n", a->to_relay ? ENVD_RELAY_PORT : a->port);
    uv_buf_t piece = {.base = line, .len = (size_t)n};
    // A fresh socket takes these few bytes at once.
    int status = uv_try_write((uv_stream_t *)a->pipe, &piece, 1);
    if (status >= 0 && status != n)
        status = UV_EPIPE;
    if (status == n)
        status = uv_read_start((uv_stream_t *)a->pipe, on_alloc, on_answer);
    if (status == 0)
        return;
    err_set(&a->e, ERR_UNAVAILABLE, "the sandbox's network process ended");
    fail(a);
}

// ---- 3. vm.net: the answer

static void fail_reason(struct attempt *a, const char *reason)
{
    if (str_eq(reason, "refused"))
        err_set(&a->e, ERR_NOT_FOUND, "nothing listens on port %d of the sandbox", a->port);
    else if (str_eq(reason, "timeout"))
        err_set(&a->e, ERR_TIMEOUT, "port %d of the sandbox did not answer in time", a->port);
    else if (str_eq(reason, "limit"))
        err_set(&a->e, ERR_LIMIT, "the sandbox has too many connections");
    else if (str_eq(reason, "bad-request"))
        err_set(&a->e, ERR_INVALID, "%d is not a port", a->port);
    else
        err_set(&a->e, ERR_UNAVAILABLE, "the sandbox's network process sent an invalid answer");
    fail(a);
}

static void ask_relay(struct attempt *a)
{
    a->to_relay = false;
    a->answer_len = 0;
    say_port(a);
}

static void on_line(struct attempt *a)
{
    if (str_eq(a->answer, "OK")) {
        uv_read_stop((uv_stream_t *)a->pipe);
        if (a->to_relay)
            ask_relay(a);
        else
            finish(a);
        return;
    }
    fail_reason(a, str_starts(a->answer, "ERR ") ? a->answer + 4 : "");
}

static void on_answer(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct attempt *a = stream->data;
    if (n < 0) {
        err_set(&a->e, ERR_UNAVAILABLE, "the sandbox's network process ended the connection");
        fail(a);
        return;
    }
    a->answer_len += (size_t)n;
    char *newline = memchr(a->answer, '\n', a->answer_len);
    if (newline) {
        *newline = '\0';
        on_line(a);
    } else if (a->answer_len == sizeof a->answer) {
        fail_reason(a, "");
    }
}

// ---- the beginning

static void attempt_start(uv_loop_t *loop, const char *path, int port, bool loopback,
                          uint64_t timeout_ms, unix_stream_cb cb, void *ctx)
{
    struct attempt *a = xcalloc(1, sizeof *a);
    *a = (struct attempt){
        .path = xstrdup(path), .port = port, .to_relay = loopback, .cb = cb, .ctx = ctx};
    open_pipe(a, loop);
    deadline_init(&a->deadline, loop, on_expired);
    uv_timer_init(loop, &a->again);
    a->again.data = a;
    a->open_handles = 2;
    if (strlen(path) > UNIX_PATH_MAX_BYTES) { // libuv would truncate it
        err_set(&a->e, ERR_INVALID, "the socket path %s is longer than %d bytes", path,
                UNIX_PATH_MAX_BYTES);
        fail(a);
        return;
    }
    deadline_arm(&a->deadline, timeout_ms);
    try_connect(a);
}

void unix_stream_connect(uv_loop_t *loop, const char *path, unix_stream_cb cb, void *ctx)
{
    attempt_start(loop, path, 0, false, CONNECT_MS, cb, ctx);
}

void vmnet_connect(uv_loop_t *loop, const char *path, int port, uint64_t timeout_ms,
                   unix_stream_cb cb, void *ctx)
{
    attempt_start(loop, path, port, false, timeout_ms, cb, ctx);
}

void vmnet_connect_loopback(uv_loop_t *loop, const char *path, int port, uint64_t timeout_ms,
                            unix_stream_cb cb, void *ctx)
{
    attempt_start(loop, path, port, true, timeout_ms, cb, ctx);
}
