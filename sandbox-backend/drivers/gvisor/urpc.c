// SPDX-License-Identifier: Apache-2.0
// Calls to a sentry's control socket: connect, send with descriptors, read one JSON object.
#include "sandbox-backend/drivers/gvisor/urpc.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/deadline.h"

// A sentry that its guest has broken into may send anything.
#define ANSWER_VALUES   256
#define CHUNK_BYTES     4096
#define ERROR_SHOWN_MAX 200

struct urpc_call {
    uv_pipe_t pipe;
    struct deadline deadline;
    char *method; // owned
    struct buf answer;
    size_t seen; // of the answer: up to here its braces are counted
    int depth;
    bool in_text, escaped;
    bool closed; // the last brace has come
    char chunk[CHUNK_BYTES];
    int handles; // not yet closed
    bool over;
    struct err error;
    size_t answer_max;
    uint64_t slow_ms;
    urpc_cb on_slow; // NULL: not wanted, or called
    urpc_result_cb on_result;
    urpc_cb cb; // NULL once the call is abandoned
    void *ctx;
};

static void on_handle_closed(struct urpc_call *c)
{
    if (--c->handles > 0)
        return;
    struct urpc_call last = *c;
    buf_fini(&c->answer);
    free(c->method);
    free(c);
    if (last.cb)
        last.cb(err_is(&last.error) ? &last.error : NULL, last.ctx);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    on_handle_closed(container_of((uv_pipe_t *)handle, struct urpc_call, pipe));
}

static void on_deadline_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct urpc_call, deadline));
}

static void finish(struct urpc_call *c)
{
    if (c->over)
        return;
    c->over = true;
    uv_close((uv_handle_t *)&c->pipe, on_pipe_closed);
    deadline_close(&c->deadline, on_deadline_closed);
}

void urpc_abandon(struct urpc_call *c)
{
    if (!c)
        return;
    c->cb = NULL;
    finish(c);
}

// The call's deadline, or, right away, the report of a failed send.
static void on_late(struct deadline *d)
{
    struct urpc_call *c = container_of(d, struct urpc_call, deadline);
    urpc_cb on_slow = err_is(&c->error) ? NULL : steal(&c->on_slow);
    struct err late = ERR_INIT;
    err_set(&late, ERR_TIMEOUT, "gVisor's sentry did not answer %s in time", c->method);
    if (on_slow) {
        deadline_arm(&c->deadline, c->slow_ms);
        on_slow(&late, c->ctx);
        return;
    }
    err_set(&c->error, late.code, "%s", late.msg); // the first error stays
    finish(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct urpc_call *c = container_of((uv_pipe_t *)handle, struct urpc_call, pipe);
    *buf = (uv_buf_t){.base = c->chunk, .len = sizeof c->chunk};
}

// Look at the bytes that have come since: is the object's last brace among them? Each byte is
// looked at once, whatever the pieces are in which the answer comes.
static bool is_complete(struct urpc_call *c)
{
    for (; c->seen < c->answer.len && !c->closed; c->seen++) {
        char byte = c->answer.data[c->seen];
        bool plain = !c->in_text;
        if (c->escaped)
            c->escaped = false;
        else if (c->in_text && byte == '\\')
            c->escaped = true;
        else if (byte == '"')
            c->in_text = !c->in_text;
        else if (plain && byte == '{')
            c->depth++;
        else if (plain && byte == '}')
            c->closed = --c->depth <= 0;
    }
    return c->closed;
}

// Return the whole answer, or NULL while more of it must come. New reference.
static json_t *parse_answer(struct urpc_call *c)
{
    if (!is_complete(c))
        return NULL;
    return json_parse_few(c->answer.data, c->answer.len, ANSWER_VALUES, NULL);
}

static void take_answer(struct urpc_call *c, const json_t *answer)
{
    const char *error = json_string_value(json_object_get(answer, "err"));
    if (!json_is_true(json_object_get(answer, "success"))) {
        struct buf shown auto_buf = BUF_INIT;
        error = error ? error : "no reason";
        utf8_sanitize(&shown, error, strcspn(error, "\n")); // a stack trace may follow
        err_set(&c->error, ERR_INTERNAL, "gVisor's sentry refused %s: %.*s", c->method,
                ERROR_SHOWN_MAX, buf_str(&shown));
    } else if (c->on_result && c->cb) {
        c->on_result(json_object_get(answer, "result"), c->ctx);
    }
    finish(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct urpc_call *c = container_of((uv_pipe_t *)stream, struct urpc_call, pipe);
    if (n > 0 && c->answer.len + (size_t)n > c->answer_max) {
        err_set(&c->error, ERR_INTERNAL, "gVisor's sentry sent an answer to %s that is too long",
                c->method);
        finish(c);
        return;
    }
    if (n > 0)
        buf_add(&c->answer, c->chunk, (size_t)n);
    json_t *answer = parse_answer(c);
    if (!answer && c->closed) {
        err_set(&c->error, ERR_INTERNAL, "gVisor's sentry sent an answer to %s that is not JSON",
                c->method);
        finish(c);
    } else if (answer) {
        take_answer(c, answer);
        json_decref(answer);
    } else if (n < 0) {
        err_set(&c->error, ERR_UNAVAILABLE, "gVisor's sentry ended before it answered %s",
                c->method);
        finish(c);
    }
}

// Send the whole request by one call: it is smaller than a socket's buffer, which is empty.
static int send_request(int fd, const struct urpc_request *request, const char *text, struct err *e)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * URPC_FDS_MAX)];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    size_t len = strlen(text), fds = sizeof(int) * (size_t)request->fd_count;
    struct iovec piece = {.iov_base = (char *)(uintptr_t)text, .iov_len = len};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (request->fd_count > 0) {
        control.header.cmsg_len = CMSG_LEN(fds);
        memcpy(CMSG_DATA(&control.header), request->fds, fds);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fds);
    }
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (n < 0)
        return err_sys(e, errno, "send %s to gVisor's sentry", request->method);
    return (size_t)n == len
               ? 0
               : err_set(e, ERR_INTERNAL, "the request %s was sent to gVisor's sentry only in part",
                         request->method);
}

// Send the request, and read its answer once it comes. Whatever can fail before the request is sent
// is done before.
static int start(struct urpc_call *c, const struct urpc_request *request, const char *text,
                 struct err *e)
{
    int fd = fd_connect_unix(request->path);
    if (fd < 0)
        return err_set(e, ERR_UNAVAILABLE, "gVisor's sentry cannot be reached: %s",
                       strerror(errno));
    int sys = uv_pipe_open(&c->pipe, fd);
    if (sys < 0) {
        close(fd);
        return err_sys(e, -sys, "open a connection to gVisor's sentry");
    }
    sys = uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    return sys < 0 ? err_sys(e, -sys, "read from gVisor's sentry")
                   : send_request(fd, request, text, e);
}

struct urpc_call *urpc_send(uv_loop_t *loop, const struct urpc_request *request, urpc_cb cb,
                            void *ctx)
{
    struct urpc_call *c = xcalloc(1, sizeof *c);
    *c = (struct urpc_call){.method = xstrdup(str_base(request->method)),
                            .answer = BUF_INIT,
                            .handles = 2,
                            .answer_max =
                                request->answer_max ? request->answer_max : URPC_ANSWER_BYTES,
                            .slow_ms = request->slow_ms,
                            .on_slow = request->on_slow,
                            .on_result = request->on_result,
                            .cb = cb,
                            .ctx = ctx};
    json_t *object = json_pack("{s:s, s:o?}", "method", request->method, "arg", request->arg);
    char *text auto_free = json_to_string(object);
    json_decref(object);
    deadline_init(&c->deadline, loop, on_late);
    uv_pipe_init(loop, &c->pipe, 0);
    start(c, request, text, &c->error);
    deadline_arm(&c->deadline, err_is(&c->error) ? 0 : request->limit_ms);
    return c;
}
