// SPDX-License-Identifier: Apache-2.0
// A client of QEMU's machine protocol: JSON objects, one a line, both ways
// (https://www.qemu.org/docs/master/interop/qmp-spec.html).
//
// Commands are kept in the order they were sent; each has a number that its reply repeats. A
// command whose deadline passes fails alone. It stays in the list, without its callback, until its
// reply comes, so that the reply can be recognised. One timer serves all deadlines. QEMU is not
// trusted, because its guest may have broken into it: lines are bounded, and a message that
// violates the protocol ends the connection.
#include "sandbox-backend/drivers/microvm/qemu/qmp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"

#define READ_BYTES         (16 * 1024)
#define NEGOTIATE_LIMIT_MS 30000

enum qmp_state {
    QMP_OPEN,
    QMP_LOST,    // pending commands have failed or are about to; on_lost was or will be called
    QMP_CLOSING, // qmp_close was called
};

struct command {
    struct command *next;
    int64_t id;
    int64_t due_ms;
    qmp_reply_cb cb; // NULL once it was called
    void *ctx;
    char name[32];
};

struct qmp {
    uv_pipe_t pipe;
    struct deadline deadline; // of the command that is due first; immediate after an error
    enum qmp_state state;
    bool lost_told;
    int handles; // not yet closed
    int64_t next_id;
    struct command *first; // pending, in the order in which their replies come
    struct command **end;  // where the next command is appended
    struct buf in;
    size_t scanned; // bytes of `in` known to hold no newline
    char chunk[READ_BYTES];
    struct err error;                // why the connection was lost
    const struct qmp_events *events; // borrowed
    void *ctx;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

struct outgoing {
    uv_write_t req;
    struct qmp *qmp;
    char *text; // owned
};

static void arm_deadline(struct qmp *q);
static void on_deadline(struct deadline *d);
static void on_chunk(uv_stream_t *stream, ssize_t n, const uv_buf_t *b);

// The states follow each other; QMP_LOST may be left out.
static void set_state(struct qmp *q, enum qmp_state to)
{
    if (to <= q->state)
        abort();
    q->state = to;
}

// ---- connections

int qmp_connect(const char *path, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) > UNIX_PATH_MAX_BYTES)
        return err_set(e, ERR_INVALID, "the socket's path is too long: %s", path);
    memcpy(address.sun_path, path, strlen(path));
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, errno, "make a socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        return err_sys(e, errno, "connect to %s", path);
    return steal_fd(&fd);
}

// ---- loss of the connection

// Store the reason. The loop does the rest, because callbacks are never called synchronously.
static void lose(struct qmp *q, enum err_code code, const char *what)
{
    if (q->state != QMP_OPEN)
        return;
    set_state(q, QMP_LOST);
    err_set(&q->error, code, "%s", what);
    uv_read_stop((uv_stream_t *)&q->pipe);
    deadline_arm(&q->deadline, 0);
}

// Remove the first pending command from the list, call its callback, and free it.
static void complete_first(struct qmp *q, const json_t *value, const struct err *e)
{
    struct command *c = q->first;
    q->first = c->next;
    if (!q->first)
        q->end = &q->first;
    if (q->state == QMP_OPEN)
        arm_deadline(q);
    qmp_reply_cb cb = c->cb;
    void *ctx = c->ctx;
    free(c);
    if (cb)
        cb(q, value, e, ctx);
}

// Fail all commands that are pending now. Commands that a callback adds fail in the next turn.
static void fail_pending(struct qmp *q, const struct err *e)
{
    int64_t last = q->next_id;
    while (q->first && q->first->id < last)
        complete_first(q, NULL, e);
}

// ---- deadlines

static void arm_deadline(struct qmp *q)
{
    int64_t first = INT64_MAX;
    for (const struct command *c = q->first; c; c = c->next) {
        if (c->cb && c->due_ms < first)
            first = c->due_ms;
    }
    if (first == INT64_MAX) {
        deadline_disarm(&q->deadline);
        return;
    }
    int64_t left = first - clock_mono_ms();
    deadline_arm(&q->deadline, left > 0 ? (uint64_t)left : 0);
}

// Fail one overdue command. Return false if there is none.
static bool expire_one(struct qmp *q, int64_t now)
{
    for (struct command *c = q->first; c; c = c->next) {
        if (c->cb && c->due_ms <= now) {
            struct err e = ERR_INIT;
            qmp_reply_cb cb = c->cb;
            c->cb = NULL;
            err_set(&e, ERR_TIMEOUT, "QEMU did not answer \"%s\" in time", c->name);
            cb(q, NULL, &e, c->ctx);
            return true;
        }
    }
    return false;
}

static void on_deadline(struct deadline *d)
{
    struct qmp *q = container_of(d, struct qmp, deadline);
    if (q->state == QMP_LOST) {
        struct err e = q->error; // a copy: a callback may close `q`
        fail_pending(q, &e);
        if (q->state != QMP_LOST)
            return;
        if (q->first)
            deadline_arm(&q->deadline, 0);
        if (!q->lost_told) {
            q->lost_told = true;
            q->events->on_lost(q, &e, q->ctx);
        }
        return;
    }
    int64_t now = clock_mono_ms();
    while (q->state == QMP_OPEN && expire_one(q, now))
        ;
    if (q->state == QMP_OPEN)
        arm_deadline(q);
}

// ---- sending

static void on_written(uv_write_t *req, int status)
{
    struct outgoing *out = container_of(req, struct outgoing, req);
    if (status < 0 && status != UV_ECANCELED)
        lose(out->qmp, ERR_UNAVAILABLE, "QEMU's control connection broke");
    free(out->text);
    free(out);
}

// Return a command's text, or NULL. Takes ownership of the arguments.
static char *command_text(const char *command, json_t *arguments, int64_t id)
{
    json_t *message = json_pack("{s:s, s:I}", "execute", command, "id", (json_int_t)id);
    if (!message)
        abort();
    if (arguments)
        json_object_set_new(message, "arguments", arguments);
    struct buf text = BUF_INIT;
    json_to_buf(&text, message);
    buf_addc(&text, '\n');
    json_decref(message);
    return buf_take(&text);
}

static void send_text(struct qmp *q, char *text)
{
    struct outgoing *out = xcalloc(1, sizeof *out);
    uv_buf_t bytes = uv_buf_init(text, (unsigned)strlen(text));
    out->qmp = q;
    out->text = text;
    if (uv_write(&out->req, (uv_stream_t *)&q->pipe, &bytes, 1, on_written) != 0) {
        free(text);
        free(out);
        lose(q, ERR_UNAVAILABLE, "QEMU's control connection broke");
    }
}

// Send the text together with `fd`. This bypasses the stream's queue, which must be empty; the
// socket has room for many commands.
static void send_text_with_fd(struct qmp *q, const char *text, int fd)
{
    uv_os_fd_t to = -1;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec bytes = {.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    if (uv_stream_get_write_queue_size((uv_stream_t *)&q->pipe) > 0 ||
        uv_fileno((uv_handle_t *)&q->pipe, &to) != 0 ||
        sendmsg(to, &message, MSG_NOSIGNAL) != (ssize_t)bytes.iov_len)
        lose(q, ERR_UNAVAILABLE, "the descriptor could not be sent over QEMU's control connection");
}

static void execute(struct qmp *q, const char *command, json_t *arguments, int fd,
                    uint64_t timeout_ms, qmp_reply_cb cb, void *ctx)
{
    struct command *c = xcalloc(1, sizeof *c);
    *c = (struct command){.id = q->next_id++, .cb = cb, .ctx = ctx};
    c->due_ms = clock_mono_ms() + (int64_t)timeout_ms;
    snprintf(c->name, sizeof c->name, "%s", command);
    *q->end = c;
    q->end = &c->next;
    char *text auto_free = command_text(command, arguments, c->id);
    if (q->state == QMP_OPEN && fd >= 0)
        send_text_with_fd(q, text, fd);
    else if (q->state == QMP_OPEN)
        send_text(q, steal(&text));
    if (q->state == QMP_OPEN)
        arm_deadline(q);
    else
        deadline_arm(&q->deadline, 0);
}

void qmp_execute(struct qmp *q, const char *command, json_t *arguments, uint64_t timeout_ms,
                 qmp_reply_cb cb, void *ctx)
{
    execute(q, command, arguments, -1, timeout_ms, cb, ctx);
}

void qmp_give_fd(struct qmp *q, const char *name, int fd, uint64_t timeout_ms, qmp_reply_cb cb,
                 void *ctx)
{
    execute(q, "getfd", json_pack("{s:s}", "fdname", name), fd, timeout_ms, cb, ctx);
}

void qmp_add_fd(struct qmp *q, int set, int fd, uint64_t timeout_ms, qmp_reply_cb cb, void *ctx)
{
    execute(q, "add-fd", json_pack("{s:i}", "fdset-id", set), fd, timeout_ms, cb, ctx);
}

// ---- receiving

static const char *reply_error(const json_t *error)
{
    const char *text = json_string_value(json_object_get(error, "desc"));
    return text ? text : "QEMU gave no reason";
}

static void on_reply(struct qmp *q, const json_t *message)
{
    const json_t *value = json_object_get(message, "return");
    const json_t *error = json_object_get(message, "error");
    const json_t *id = json_object_get(message, "id");
    const struct command *c = q->first;
    // Replies come in the order of the commands, because out-of-band commands are not enabled.
    if (!c || !json_is_integer(id) || json_integer_value(id) != c->id) {
        lose(q, ERR_INTERNAL, "QEMU answered a command that was not sent");
        return;
    }
    struct err e = ERR_INIT;
    if (!value)
        err_set(&e, ERR_INTERNAL, "QEMU refused \"%s\": %s", c->name, reply_error(error));
    complete_first(q, value, value ? NULL : &e);
}

static void on_event(struct qmp *q, const char *name, const json_t *message)
{
    json_t *data = json_object_get(message, "data");
    json_t *none = json_is_object(data) ? NULL : json_object();
    log_debug("qmp.event", "name=%s", name);
    q->events->on_event(q, name, none ? none : data, q->ctx);
    json_decref(none);
}

static void on_line(struct qmp *q, const char *line, size_t len)
{
    struct err e = ERR_INIT;
    json_t *message = json_parse(line, len, &e);
    const char *event = json_string_value(json_object_get(message, "event"));
    if (!json_is_object(message))
        lose(q, ERR_INTERNAL, "QEMU sent a line that is not a JSON object");
    else if (event)
        on_event(q, event, message);
    else if (json_object_get(message, "return") || json_object_get(message, "error"))
        on_reply(q, message);
    else if (!json_object_get(message, "QMP")) // "QMP": the greeting, which needs no answer
        lose(q, ERR_INTERNAL, "QEMU sent a message that is not part of QMP");
    json_decref(message);
}

// Process the complete lines of `in`. Move the text out first: a callback may close `q`.
static void take_lines(struct qmp *q)
{
    while (q->state == QMP_OPEN) {
        const char *data = buf_str(&q->in);
        const char *end = memchr(data + q->scanned, '\n', q->in.len - q->scanned);
        if (!end) {
            q->scanned = q->in.len;
            return;
        }
        size_t len = (size_t)(end - data);
        char *line auto_free = xstrndup(data, len);
        buf_consume(&q->in, len + 1);
        q->scanned = 0;
        if (len > 0 && line[len - 1] == '\r')
            len--;
        if (len > 0)
            on_line(q, line, len);
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *b)
{
    (void)suggested;
    struct qmp *q = container_of((uv_pipe_t *)handle, struct qmp, pipe);
    *b = uv_buf_init(q->chunk, sizeof q->chunk);
}

static void on_chunk(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct qmp *q = container_of((uv_pipe_t *)stream, struct qmp, pipe);
    if (n < 0)
        lose(q, ERR_UNAVAILABLE, "QEMU closed its control connection");
    else if (!buf_try_add(&q->in, b->base, (size_t)n, QMP_LINE_MAX))
        lose(q, ERR_TOO_LARGE, "QEMU sent an overlong message");
    else
        take_lines(q);
}

// ---- opening and closing

static void on_negotiated(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)value;
    (void)ctx;
    if (e && q->state == QMP_OPEN)
        lose(q, e->code, e->msg);
}

struct qmp *qmp_open(uv_loop_t *loop, int fd, const struct qmp_events *events, void *ctx)
{
    struct qmp *q = xcalloc(1, sizeof *q);
    q->events = events;
    q->ctx = ctx;
    q->handles = 2;
    q->next_id = 1;
    q->end = &q->first;
    uv_pipe_init(loop, &q->pipe, 0);
    deadline_init(&q->deadline, loop, on_deadline);
    if (uv_pipe_open(&q->pipe, fd) != 0) {
        close(fd);
        lose(q, ERR_INTERNAL, "the control connection could not be opened");
    } else if (uv_read_start((uv_stream_t *)&q->pipe, on_room, on_chunk) != 0) {
        lose(q, ERR_INTERNAL, "the control connection could not be read");
    }
    qmp_execute(q, "qmp_capabilities", NULL, NEGOTIATE_LIMIT_MS, on_negotiated, NULL);
    return q;
}

static void on_handle_closed(struct qmp *q)
{
    if (--q->handles > 0)
        return;
    void (*on_closed)(void *ctx) = q->on_closed;
    void *ctx = q->closed_ctx;
    struct err e = ERR_INIT;
    err_set(&e, ERR_CANCELED, "QEMU's control connection was closed");
    while (q->first) // commands that a callback sent during the close
        fail_pending(q, &e);
    buf_fini(&q->in);
    free(q);
    if (on_closed)
        on_closed(ctx);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    on_handle_closed(container_of((uv_pipe_t *)handle, struct qmp, pipe));
}

static void on_deadline_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct qmp, deadline));
}

void qmp_close(struct qmp *q, void (*on_closed)(void *ctx), void *ctx)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CANCELED, "QEMU's control connection was closed");
    set_state(q, QMP_CLOSING);
    q->on_closed = on_closed;
    q->closed_ctx = ctx;
    fail_pending(q, &e);
    uv_close((uv_handle_t *)&q->pipe, on_pipe_closed);
    deadline_close(&q->deadline, on_deadline_closed);
}
